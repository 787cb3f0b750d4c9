"""MNIST and CIFAR-10 in tiny files of every format, each written as its publisher defines it."""

from __future__ import annotations

import gzip
import pickle
import struct

import numpy as np
import pytest

from peerclust.errors import DataError

COUNT = 20  # images taken, of 25 in a file
ALL = 25


def make(*shape):
    rng = np.random.default_rng(7)
    images = rng.integers(0, 256, size=(ALL, *shape), dtype=np.uint8)
    images[0].flat[:2] = 0, 255
    return images, rng.integers(0, 10, size=ALL, dtype=np.uint8)


DIGITS, DIGIT_LABELS = make(28, 28)
COLORS, COLOR_LABELS = make(32, 32, 3)


def batches():
    """Yield (number, planes, labels) of the five batches: all red bytes, then green, then blue."""
    for i in range(5):
        mine = slice(5 * i, 5 * i + 5)
        planes = np.stack([COLORS[mine, :, :, c].reshape(5, 1024) for c in range(3)], axis=1)
        yield i + 1, planes.reshape(5, 3072), COLOR_LABELS[mine]


def idx(array):
    sizes = b"".join(struct.pack(">I", n) for n in array.shape)
    return struct.pack(">I", 2048 + array.ndim) + sizes + array.tobytes()


def python_2_pickle(planes, labels, *, module=b"numpy.core.multiarray", kind=b"u1", fortran=False):
    """Return a batch in the opcodes of Python 2's protocol 2, as the official files are."""
    n, d = planes.shape
    array = b"c%b\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01" % module
    array += b"M" + struct.pack("<H", n) + b"M" + struct.pack("<H", d) + b"\x86"
    array += b"cnumpy\ndtype\nU\x02%bK\x00K\x01\x87R" % kind
    array += b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    data = planes.tobytes(order="F" if fortran else "C")
    array += (b"\x88" if fortran else b"\x89") + b"T" + struct.pack("<i", len(data)) + data + b"tb"
    numbers = b"](" + b"".join(b"K%c" % int(label) for label in labels) + b"e"
    name = b"U\x0bbatch_labelU\x15training batch 1 of 5"
    return b"\x80\x02}(" + name + b"U\x06labels" + numbers + b"U\x04data" + array + b"u."


def write_npz(path, x, y, x_name="X_train"):
    np.savez_compressed(path, **{x_name: x, "y_train": y})


def write_idx(folder, images="train-images-idx3-ubyte", labels="train-labels-idx1-ubyte"):
    for name, array in ((images, DIGITS), (labels, DIGIT_LABELS)):
        pack = gzip.compress if name.endswith(".gz") else bytes
        (folder / name).write_bytes(pack(idx(array)))


def write_pickles(folder, **options):
    for i, planes, labels in batches():
        (folder / f"data_batch_{i}").write_bytes(python_2_pickle(planes, labels, **options))


def write_new_pickles(folder):
    for i, planes, labels in batches():
        batch = {"data": planes, "labels": labels.tolist()}
        (folder / f"data_batch_{i}").write_bytes(pickle.dumps(batch, protocol=4))


def write_binary(folder):
    for i, planes, labels in batches():
        table = np.concatenate([labels[:, None], planes], axis=1)
        (folder / f"data_batch_{i}.bin").write_bytes(table.tobytes())


def inside(name, write):
    def write_inside(folder):
        (folder / name).mkdir(parents=True)
        write(folder / name)

    return write_inside


def check(found, images, labels):
    rows, classes = found
    assert rows.dtype == np.float32
    assert classes.dtype == np.intp
    assert classes.tolist() == labels[:COUNT].tolist()
    assert rows.flags.c_contiguous
    assert rows.shape == (COUNT, images[0].size)
    for row, image in zip(rows, images, strict=False):
        assert row.tolist() == [float(np.float32(v) / np.float32(255)) for v in image.flat]
    assert rows.min() == 0
    assert rows.max() == 1


def rejected(load, *arguments):
    """Return the error with which a set is rejected, which must be one sentence."""
    with pytest.raises(DataError) as caught:
        load(*arguments)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert not sentence.endswith("..")
    assert caught.value.__cause__ is None
    return sentence
