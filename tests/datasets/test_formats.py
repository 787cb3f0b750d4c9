"""The contents of the files: every format has the same rows; bad files are rejected."""

from __future__ import annotations

import gzip
import pickle
import re

import numpy as np
import pytest
from published import (
    ALL,
    COLOR_LABELS,
    COLORS,
    COUNT,
    DIGIT_LABELS,
    DIGITS,
    check,
    idx,
    inside,
    python_2_pickle,
    rejected,
    write_binary,
    write_idx,
    write_new_pickles,
    write_npz,
    write_pickles,
)

from peerclust import datasets
from peerclust.datasets import images as module


@pytest.fixture(autouse=True)
def few_images(monkeypatch):
    monkeypatch.setattr(module, "N_IMAGES", COUNT)


MNIST_FILES = {
    "npz": lambda f: write_npz(f / "mnist.npz", DIGITS, DIGIT_LABELS),
    "npz of Keras": lambda f: write_npz(f / "mnist.npz", DIGITS, DIGIT_LABELS, "x_train"),
    "npz, flat": lambda f: write_npz(f / "mnist.npz", DIGITS.reshape(ALL, 784), DIGIT_LABELS),
    "idx": write_idx,
    "idx, .gz": lambda f: write_idx(f, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "idx, dot": lambda f: write_idx(f, "train-images.idx3-ubyte", "train-labels.idx1-ubyte"),
    "idx, mixed": lambda f: write_idx(f, "train-images.idx3-ubyte.gz", "train-labels-idx1-ubyte"),
    "idx in MNIST/raw": inside("MNIST/raw", write_idx),
}
CIFAR10_FILES = {
    "npz": lambda f: write_npz(f / "cifar10.npz", COLORS, COLOR_LABELS),
    "npz of Keras": lambda f: write_npz(
        f / "cifar10.npz", COLORS, COLOR_LABELS[:, None], "x_train"
    ),
    "npz, flat": lambda f: write_npz(f / "cifar10.npz", COLORS.reshape(ALL, 3072), COLOR_LABELS),
    "pickles": write_pickles,
    "pickles, Fortran": lambda f: write_pickles(f, fortran=True),
    "pickles, numpy 2": lambda f: write_pickles(f, module=b"numpy._core.multiarray"),
    "pickles, Python 3": write_new_pickles,
    "pickles in their folder": inside("cifar-10-batches-py", write_pickles),
    "binary": write_binary,
    "binary in their folder": inside("cifar-10-batches-bin", write_binary),
}
CASES = [
    *((datasets.mnist, DIGITS, DIGIT_LABELS, name, w) for name, w in MNIST_FILES.items()),
    *((datasets.cifar10, COLORS, COLOR_LABELS, name, w) for name, w in CIFAR10_FILES.items()),
]


@pytest.mark.parametrize(
    ("load", "images", "labels", "name", "write"), CASES, ids=lambda v: v if type(v) is str else ""
)
def test_every_format_gives_the_same_rows(load, images, labels, name, write, tmp_path):
    write(tmp_path)
    check(load(tmp_path), images, labels)
    check(load(str(tmp_path)), images, labels)


def npz(**arrays):
    return lambda path: np.savez(path, **arrays)


def wrote(content):
    return lambda path: path.write_bytes(content)


FOUR = np.zeros((ALL, 14, 14), np.uint8)


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (wrote(b""), "must be an .npz file with the arrays X_train"),
        (wrote(b"PK\3\4 but no more"), "must be an .npz file .* Got File is not a zip file"),
        (wrote(pickle.dumps({"X_train": 1})), "must be an .npz file"),
        (npz(y_train=DIGIT_LABELS), "must be an .npz file .* Got .*x_train"),
        (npz(X_train=DIGITS), "must be an .npz file .* Got .*y_train"),
        (npz(X_train=DIGITS, y_train=np.array([{}] * ALL)), "must be an .npz file .* Got Object"),
        (npz(X_train=FOUR, y_train=DIGIT_LABELS), r"\(n, 28, 28\) or \(n, 784\). Got .* 14\)"),
        (npz(X_train=DIGITS / 255, y_train=DIGIT_LABELS), r"bytes \(uint8\) .* Got float64"),
        (npz(X_train=DIGITS, y_train=DIGIT_LABELS[1:]), r"each of 25 images. Got .* \(24,\)"),
        (npz(X_train=DIGITS, y_train=DIGIT_LABELS / 1), "a whole number .* Got float64"),
        (npz(X_train=DIGITS, y_train=DIGIT_LABELS + 5), r"must be 0 to 9. Got 1\d"),
        (npz(X_train=DIGITS[:9], y_train=DIGIT_LABELS[:9]), "There must be 20 images .* Got 9"),
        (npz(X_train=np.uint8(3), y_train=DIGIT_LABELS), r"Got uint8 of shape \(\)"),
    ],
)
def test_an_npz_that_is_not_mnist_is_rejected(write, sentence, tmp_path):
    write(tmp_path / "mnist.npz")
    error = rejected(datasets.mnist, tmp_path)
    assert re.search(sentence, error)
    assert "mnist.npz" in error


IMAGES, LABELS = idx(DIGITS), idx(DIGIT_LABELS)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("train-images-idx3-ubyte", IMAGES[:-1], "Got 19599 bytes instead of 19600"),
        ("train-images-idx3-ubyte", IMAGES + b"0", "Got 19601 bytes instead of 19600"),
        ("train-images-idx3-ubyte", IMAGES[:7], "an idx file of bytes in 3 dimensions"),
        ("train-images-idx3-ubyte", LABELS, "the magic number 2049 instead of 2051"),
        ("train-images-idx3-ubyte", idx(FOUR), r"\(n, 28, 28\)"),
        ("train-labels-idx1-ubyte", IMAGES, "the magic number 2051 instead of 2049"),
        ("train-labels-idx1-ubyte", idx(DIGIT_LABELS[1:]), "each of 25 images"),
        ("train-images-idx3-ubyte.gz", gzip.compress(IMAGES)[:-9], "Compressed file ended"),
        ("train-images-idx3-ubyte.gz", IMAGES, "Not a gzipped file"),
    ],
)
def test_an_incomplete_idx_file_is_rejected(name, content, sentence, tmp_path):
    write_idx(tmp_path)
    if name.endswith(".gz"):
        (tmp_path / name[:-3]).unlink()
    (tmp_path / name).write_bytes(content)
    error = rejected(datasets.mnist, tmp_path)
    assert re.search(sentence, error)
    assert name in error


PLANES = np.zeros((5, 3072), np.uint8)
BATCH = python_2_pickle(PLANES, range(5))


class Evil:
    def __reduce__(self):
        return print, ("never printed",)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "Got Ran out of input"),
        (BATCH[:-30], "must be a pickled dictionary of `data`"),
        (pickle.dumps(Evil()), "Got a pickle of builtins.print, which no batch needs"),
        (pickle.dumps(np.float64(3)), "Got a pickle of numpy.*scalar, which no batch needs"),
        (pickle.dumps([1, 2]), "must be a pickled dictionary"),
        (pickle.dumps({"labels": [1]}), r"`data` of shape \(0,\) and `labels` of shape \(1,\)"),
        (python_2_pickle(PLANES, range(4)), r"\(5, 3072\) and `labels` of shape \(4,\)"),
        (python_2_pickle(PLANES[:, :784], range(5)), r"`data` of shape \(5, 784\)"),
        (python_2_pickle(PLANES, range(5), kind=b"f8"), "Got an array that is not of bytes"),
        (python_2_pickle(PLANES, range(6, 11)), "labels of .* must be 0 to 9. Got 10"),
    ],
)
def test_a_pickle_that_is_not_a_batch_is_rejected(content, sentence, tmp_path, capsys):
    write_pickles(tmp_path)
    (tmp_path / "data_batch_2").write_bytes(content)
    error = rejected(datasets.cifar10, tmp_path)
    assert re.search(sentence, error)
    assert "data_batch_2" in error
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("cut", range(0, len(BATCH), 397))
def test_a_pickle_cut_anywhere_is_rejected(cut, tmp_path):
    write_pickles(tmp_path)
    (tmp_path / "data_batch_5").write_bytes(BATCH[:cut])
    assert "data_batch_5 must be a pickled dictionary" in rejected(datasets.cifar10, tmp_path)


def test_an_incomplete_binary_batch_is_rejected(tmp_path):
    write_binary(tmp_path)
    path = tmp_path / "data_batch_2.bin"
    for content in (path.read_bytes()[:-1], b""):
        path.write_bytes(content)
        error = rejected(datasets.cifar10, tmp_path)
        assert error == (
            f"The file {path} must be one or more images of 3073 bytes. Got {len(content)} bytes."
        )
