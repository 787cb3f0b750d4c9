"""The image data sets of the paper, MNIST and CIFAR-10, and functions that take subsets of them.

This module finds the published images, in the files of a folder or at OpenML, from which
scikit-learn downloads them. `formats` reads the files. A row is an image, its pixels in the order
(row, column, channel) and divided by 255, whatever the source. `partition` distributes rows over
users.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust.arrays import Classes
from peerclust.datasets.formats import (
    Read,
    explain,
    interleave,
    read_batches,
    read_binary_batches,
    read_idx,
    read_npz,
)
from peerclust.errors import DataError, ParameterError
from peerclust.text import mention, parameter, shorten
from peerclust.validation import RandomState, check_count, check_generator

Pixels = NDArray[np.float32]

N_IMAGES = 50_000  # number of training images that the paper uses

# Parameter of the Dirichlet distribution of `uneven_classes`; larger means more equal classes.
_EVENNESS = 10.0


def mnist(data_dir: str | PathLike[str] | None = None) -> tuple[Pixels, Classes]:
    """Return the first 50,000 training images of MNIST: rows (50000, 784) in [0, 1], and digits.

    Rows are float32, classes (50000,) the digits 0 to 9. `data_dir` is a folder that contains,
    itself or in MNIST/raw, `mnist.npz` or the idx files; without it they come from OpenML.

    >>> rows, digits = mnist("data")  # doctest: +SKIP
    >>> mnist("no/such/folder")
    Traceback (most recent call last):
    peerclust.errors.DataError: `data_dir` of mnist must be a folder. Got no/such/folder.
    """
    return _load(_MNIST, data_dir)


def cifar10(data_dir: str | PathLike[str] | None = None) -> tuple[Pixels, Classes]:
    """Return the 50,000 training images of CIFAR-10: rows (50000, 3072) in [0, 1], and classes.

    Rows are float32, each an image of shape (32, 32, 3) laid flat; classes (50000,) are 0 to 9, in
    the official order from airplane to truck. `data_dir` is a folder that contains, itself or in
    cifar-10-batches-py or -bin, `cifar10.npz` or the five batches; without it they come from
    OpenML.

    >>> rows, classes = cifar10("data")  # doctest: +SKIP
    >>> cifar10("no/such/folder")
    Traceback (most recent call last):
    peerclust.errors.DataError: `data_dir` of cifar10 must be a folder. Got no/such/folder.
    """
    return _load(_CIFAR10, data_dir)


def first_classes(
    rows: ArrayLike,
    classes: ArrayLike,
    n_classes: int,
    per_class: int,
    *,
    random_state: RandomState = None,
) -> tuple[NDArray[Any], Classes]:
    """Return random rows of the classes 0 to n_classes - 1, `per_class` of each, and their classes.

    The rows keep their order. The paper's MNIST7 is 1000 rows of each of the first 7 digits.

    >>> rows, classes = np.arange(12).reshape(6, 2), [0, 1, 2, 0, 1, 0]
    >>> first_classes(rows, classes, 2, 2, random_state=0)[1].tolist()
    [1, 0, 1, 0]
    """
    rows, classes, sizes = _check_set(rows, classes, n_classes, "first_classes")
    per_class = check_count(per_class, "per_class", "first_classes")
    rng = check_generator(random_state, "first_classes")
    if per_class > sizes.min():
        c = int(sizes.argmin())
        raise ParameterError(
            f"`per_class` of first_classes must be at most {sizes[c]}, the rows of class {c}."
            f" Got {per_class}."
        )
    drawn = [
        rng.choice(np.flatnonzero(classes == c), per_class, replace=False)
        for c in range(len(sizes))
    ]
    chosen = np.sort(np.concatenate(drawn))
    return rows[chosen], classes[chosen]


def uneven_classes(
    rows: ArrayLike,
    classes: ArrayLike,
    n_classes: int,
    n: int,
    *,
    random_state: RandomState = None,
) -> tuple[NDArray[Any], Classes]:
    """Return n rows of the classes 0 to n_classes - 1 in random proportions, and their classes.

    The proportions are Dirichlet(10, ..., 10): with seven classes, one has about a third more or
    fewer rows than another. Within a class every row is equally likely. The rows keep their order.
    The paper's heterogeneous MNIST7 has n = 8380, in proportions that the paper does not state.

    >>> rows, classes = np.arange(12).reshape(6, 2), [0, 1, 2, 0, 1, 0]
    >>> uneven_classes(rows, classes, 2, 4, random_state=0)[1].tolist()
    [1, 0, 1, 0]
    """
    rows, classes, sizes = _check_set(rows, classes, n_classes, "uneven_classes")
    n = check_count(n, "n", "uneven_classes")
    rng = check_generator(random_state, "uneven_classes")
    if n > sizes.sum():
        raise ParameterError(
            f"`n` of uneven_classes must be at most {sizes.sum()}, the rows of the first"
            f" {len(sizes)} classes. Got {n}."
        )
    pool = np.flatnonzero((classes >= 0) & (classes < len(sizes)))
    likely = (rng.dirichlet(np.full(len(sizes), _EVENNESS)) / sizes)[classes[pool]]
    chosen = np.sort(rng.choice(pool, n, replace=False, p=likely / likely.sum()))
    return rows[chosen], classes[chosen]


def _check_set(
    rows: ArrayLike, classes: ArrayLike, n_classes: int, of: str
) -> tuple[NDArray[Any], Classes, Classes]:
    """Return rows, their classes, and the number of rows of each of the first n_classes."""
    try:
        rows, labels = np.asarray(rows), np.asarray(classes)
    except ValueError as error:  # ragged
        raise DataError(f"`rows` and `classes` of {of} must be arrays. {error}.") from None
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or rows.shape[:1] != labels.shape:
        raise DataError(
            f"`classes` of {of} must be a whole number for each of the rows, of shape"
            f" {rows.shape}. Got {labels.dtype.name} of shape {labels.shape}."
        )
    n_classes = check_count(n_classes, "n_classes", of)
    # A class beyond the number of rows cannot follow classes that all have rows.
    sizes = [int(np.sum(labels == c)) for c in range(min(n_classes, len(labels) + 1))]
    if 0 in sizes:
        raise ParameterError(
            f"`n_classes` of {of} must be at most {sizes.index(0)}, as class {sizes.index(0)} has"
            f" no rows. Got {n_classes}."
        )
    return rows, labels.astype(np.intp), np.array(sizes, dtype=np.intp)


@dataclass(frozen=True)
class _Published:
    """Where to find a set of images.

    `formats` pairs a reader with the files that it needs; each file is a tuple of its spellings.
    """

    of: str
    shape: tuple[int, ...]
    folders: tuple[str, ...]
    formats: tuple[tuple[Callable[..., Read], tuple[tuple[str, ...], ...]], ...]
    wanted: str
    openml: dict[str, Any]


def _load(published: _Published, data_dir: str | PathLike[str] | None) -> tuple[Pixels, Classes]:
    if data_dir is None:
        (images, labels), source = _fetch(published), f"{published.of} at OpenML"
    else:
        (images, labels), source = _find(published, data_dir)
    shape, flat = published.shape, (math.prod(published.shape),)
    if images.dtype != np.uint8 or images.shape[1:] not in (shape, flat):
        raise DataError(
            f"The images of {source} must be bytes (uint8) of shape (n, {str(shape)[1:]} or"
            f" (n, {flat[0]}). Got {images.dtype.name} of shape {images.shape}."
        )
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1]:
        raise DataError(
            f"The labels of {source} must be a whole number for each of {len(images)} images."
            f" Got {labels.dtype.name} of shape {labels.shape}."
        )
    if len(images) < N_IMAGES:
        raise DataError(f"There must be {N_IMAGES} images in {source}. Got {len(images)}.")
    if labels.min() < 0 or labels.max() > 9:
        bad = labels[(labels < 0) | (labels > 9)][0]
        raise DataError(f"The labels of {source} must be 0 to 9. Got {bad}.")
    flat_images = images[:N_IMAGES].reshape(N_IMAGES, -1)
    return np.divide(flat_images, 255, dtype=np.float32), labels[:N_IMAGES].astype(np.intp)


def _find(published: _Published, data_dir: str | PathLike[str]) -> tuple[Read, str]:
    """Read the first format all of whose files exist; return the images and the files' names."""
    if not isinstance(data_dir, str | PathLike) or not Path(data_dir).is_dir():
        raise DataError(parameter("data_dir", published.of) + f" must be a folder. Got {data_dir}.")
    missing = ""
    for read, files in published.formats:
        for folder in (Path(data_dir, name) for name in published.folders):
            found = [_first_file(folder, names) for names in files]
            paths = [path for path in found if path is not None]
            if len(paths) == len(files):
                return read(*paths), f"{shorten([path.name for path in paths])} in {folder}"
            if paths and not missing:
                missing = f"{files[found.index(None)][0]} in {folder}"
    lacks = f"no {missing}" if missing else "none of them"
    raise DataError(
        parameter("data_dir", published.of)
        + f" must have {published.wanted}. Got {data_dir}, with {lacks}."
    )


def _first_file(folder: Path, names: tuple[str, ...]) -> Path | None:
    try:
        return next((folder / name for name in names if (folder / name).is_file()), None)
    except OSError as error:
        raise DataError(f"The folder {folder} cannot be read: {error.strerror}.") from None


def _fetch(published: _Published) -> Read:
    """Return images and labels from OpenML; scikit-learn caches them."""
    from sklearn.datasets import fetch_openml

    parser = "pandas" if find_spec("pandas") else "liac-arff"  # slower, with the same result
    try:
        with warnings.catch_warnings():
            # A failure is reported in one sentence; a warning for each attempt would hide it.
            warnings.filterwarnings("ignore", message="A network error occurred")
            images, labels = fetch_openml(
                **published.openml, as_frame=False, parser=parser, return_X_y=True
            )
        images, labels = _as_bytes(images[:N_IMAGES]), labels[:N_IMAGES].astype(np.intp)
        return (interleave(images) if len(published.shape) == 3 else images), labels
    except Exception as error:  # a connection, a cache and a parser may raise anything
        raise DataError(
            f"Cannot download the images of {published.of} from OpenML ({explain(error)}); pass "
            + mention("data_dir", published.of)
            + f", a folder that contains {published.wanted}."
        ) from None


def _as_bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if not (pixels.min() >= 0 and pixels.max() <= 255):
        raise ValueError("pixels outside 0 to 255")
    return pixels.astype(np.uint8)


def _spell(name: str) -> tuple[str, ...]:
    spellings = (name, name.replace("-idx", ".idx"))
    return tuple(f"{spelling}{end}" for spelling in spellings for end in ("", ".gz"))


_MNIST = _Published(
    of="mnist",
    shape=(28, 28),
    folders=("", "MNIST/raw"),
    formats=(
        (read_npz, (("mnist.npz",),)),
        (read_idx, (_spell("train-images-idx3-ubyte"), _spell("train-labels-idx1-ubyte"))),
    ),
    wanted=(
        "mnist.npz (the Keras file of that name) or, there or in MNIST/raw, the official"
        " train-images-idx3-ubyte and train-labels-idx1-ubyte (or these as .gz)"
    ),
    openml={"name": "mnist_784", "version": 1},
)
_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
_CIFAR10 = _Published(
    of="cifar10",
    shape=(32, 32, 3),
    folders=("", "cifar-10-batches-py", "cifar-10-batches-bin"),
    formats=(
        (read_npz, (("cifar10.npz",),)),
        (read_batches, tuple((name,) for name in _BATCHES)),
        (read_binary_batches, tuple((f"{name}.bin",) for name in _BATCHES)),
    ),
    wanted=(
        "cifar10.npz (arrays X_train and y_train) or, unpacked from the official"
        " cifar-10-python.tar.gz or cifar-10-binary.tar.gz, data_batch_1 to data_batch_5 or"
        " data_batch_1.bin to data_batch_5.bin"
    ),
    openml={"data_id": 40927},
)
