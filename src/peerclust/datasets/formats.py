"""Readers of the formats in which MNIST and CIFAR-10 are published; `images` finds the files.

A reader takes paths and returns images and labels as they are in the files, colors interleaved. An
invalid file is rejected with one sentence that names it. The caller checks the number and the shape
of the images.
"""

from __future__ import annotations

import gzip
import math
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust.errors import DataError

Bytes = NDArray[np.uint8]
Read = tuple[NDArray[Any], NDArray[Any]]

PLANE = 32 * 32  # the pixels of one color of an image of CIFAR-10


def read_npz(path: Path) -> Read:
    """Return the arrays X_train (or x_train) and y_train of a file that numpy.savez wrote."""
    try:
        # Given a path, numpy would leave a file open that is not an archive.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            x = "X_train" if "X_train" in file else "x_train"
            return file[x], file["y_train"]
    except Exception as error:  # the bytes of an archive, or a header in it, may raise anything
        must = "an .npz file with the arrays X_train (or x_train) and y_train"
        # numpy takes unknown bytes for a pickle, and its message advises to trust it.
        found = "no such archive" if "pickled (object)" in str(error) else explain(error)
        raise _refuse(path, must, found) from None


def read_idx(images: Path, labels: Path) -> Read:
    """Return the images (n, height, width) and labels (n,) of two idx files.

    An idx file of bytes is, big-endian, the magic number 0x0800 + dimensions, the size of each
    dimension, and the bytes in C order.
    """
    return _read_idx(images, 3), _read_idx(labels, 1)


def _read_idx(path: Path, dimensions: int) -> Bytes:
    must, magic = f"an idx file of bytes in {dimensions} dimensions", 0x0800 + dimensions
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read()
        found, *shape = np.frombuffer(data, ">u4", count=1 + dimensions).tolist()
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _refuse(path, must, explain(error)) from None
    if found != magic:
        raise _refuse(path, must, f"the magic number {found} instead of {magic}")
    start = 4 * (1 + dimensions)
    if len(data) != start + math.prod(shape):
        raise _refuse(path, must, f"{len(data) - start} bytes instead of {math.prod(shape)}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_batches(*paths: Path) -> Read:
    """Return the images (n, 32, 32, 3) and labels (n,) of CIFAR-10's batches for Python.

    A batch is a pickled dictionary with `data`, (n, 3072) bytes, plane after plane, and `labels`.
    """
    batches = [_read_batch(path) for path in paths]
    images, labels = (np.concatenate(arrays) for arrays in zip(*batches, strict=True))
    return interleave(images), labels


def _read_batch(path: Path) -> Read:
    must = "a pickled dictionary of `data`, 3072 bytes per image, and `labels`"
    try:
        with path.open("rb") as file:
            batch = _Unpickler(file, encoding="bytes").load()
        # The official batches are from Python 2, whose strings load as bytes; others have str.
        entries = {key.decode() if isinstance(key, bytes) else key: batch[key] for key in batch}
        data, labels = entries.get("data"), np.array(entries.get("labels", ()))
    except Exception as error:  # the bytes of a pickle may raise anything
        raise _refuse(path, must, explain(error)) from None
    images = data.array if isinstance(data, _Array) else np.empty(0, np.uint8)
    if images.ndim != 2 or images.shape[1] != 3 * PLANE or labels.shape != images.shape[:1]:
        raise _refuse(
            path, must, f"`data` of shape {images.shape} and `labels` of shape {labels.shape}"
        )
    return images, labels


class _Type:
    """A stand-in for numpy.dtype in a batch, which accepts the dtype of bytes only."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError("an array that is not of bytes")

    def __setstate__(self, state: Any) -> None:
        """Ignore the byte order, which does not matter for bytes."""


class _Array:
    """A stand-in for numpy.ndarray in a batch, so that numpy never unpickles its bytes.

    Its state is version, shape, dtype, order and bytes.
    """

    array: Bytes = np.empty(0, np.uint8)

    def __init__(self, *_: Any) -> None:
        """Ignore the arguments from which numpy would make its own array."""

    def __setstate__(self, state: Any) -> None:
        _, shape, _, fortran, data = state
        self.array = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


class _Unpickler(pickle.Unpickler):
    """An unpickler that only makes numbers, strings, plain containers and arrays of bytes."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-ins for the names by which numpy pickles an array; reject others."""
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _Array
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return _Type if name == "dtype" else _Array
        raise pickle.UnpicklingError(f"a pickle of {module}.{name}, which no batch needs")


def read_binary_batches(*paths: Path) -> Read:
    """Return the images (n, 32, 32, 3) and labels (n,) of CIFAR-10's binary batches.

    A binary batch is, image after image, a byte for its label and 3072 bytes, plane after plane.
    """
    tables = np.concatenate([_read_binary_batch(path) for path in paths])
    return interleave(tables[:, 1:]), tables[:, 0]


def _read_binary_batch(path: Path) -> Bytes:
    must, size = "one or more images of 3073 bytes", 1 + 3 * PLANE
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as error:
        raise _refuse(path, must, explain(error)) from None
    if len(data) == 0 or len(data) % size:
        raise _refuse(path, must, f"{len(data)} bytes")
    return data.reshape(-1, size)


def interleave(images: NDArray[Any]) -> NDArray[Any]:
    """Return images (n, 3072), stored as a red, a green and a blue plane, as (n, 32, 32, 3).

    >>> interleave(np.arange(3 * PLANE)[None])[0, 0, :2].tolist()
    [[0, 1024, 2048], [1, 1025, 2049]]
    """
    return images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def explain(error: Exception) -> str:
    """Return the message of an exception as part of a sentence.

    >>> explain(OSError("No route.")), explain(EOFError())
    ('No route', 'EOFError')
    """
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _refuse(path: Path, must: str, got: str) -> DataError:
    return DataError(f"The file {path} must be {must}. Got {got}.")
