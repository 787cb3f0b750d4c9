"""Checks of data at the public entry points: users' rows, their offsets, weights and labels.

A check returns the data in the form that internal code uses. Otherwise it raises with one sentence
that names the first bad row. `validation` has the checks of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust.arrays import Array
from peerclust.errors import DataError, ParameterError
from peerclust.sparse import SparseRows, arrays_of, canonical, concatenate, is_sparse
from peerclust.text import parameter, show
from peerclust.validation import check_name

# Squared distances between rows of this size still fit a float64.
LARGEST = 1e150

NO_ROWS = parameter("parts", "cluster") + " must hold at least one row. Got none (n_samples=0)."


def check_labels(labels: ArrayLike, name: str, of: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct labels, sorted, and the index of each row's label among them.

    >>> check_labels(["b", "a", "b"], "classes", "homogeneous")[1].tolist()
    [1, 0, 1]
    """
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise DataError(parameter(name, of) + f" must be a 1-D array of labels. {error}.") from None
    if array.ndim != 1 or array.size == 0:
        raise DataError(
            parameter(name, of)
            + f" must be a 1-D array of at least one label. Got shape {array.shape}."
        )
    if np.ma.is_masked(labels):
        masked = int(np.ma.getmaskarray(np.ma.asarray(labels)).argmax())
        raise DataError(
            parameter(name, of) + f" must have no missing labels. Row {masked} is masked."
        )
    if array.dtype.kind in "US" and not isinstance(labels, np.ndarray):
        # numpy makes strings of all that is in a list with strings, NaN included.
        objects = np.asarray(labels, dtype=object)
        array = array if all(isinstance(label, str | bytes) for label in objects) else objects
    if array.dtype == object:
        absent = (row for row, label in enumerate(array) if label is None or label != label)
        if (row := next(absent, None)) is not None:
            raise DataError(
                parameter(name, of) + f" must have no missing labels. Row {row} is {array[row]}."
            )
    try:
        names, codes = np.unique(array, return_inverse=True)
        missing = np.flatnonzero(array != array)
    except TypeError as error:
        raise DataError(
            parameter(name, of) + f" must be all numbers or all strings. {error}."
        ) from None
    if missing.size:
        raise DataError(
            parameter(name, of) + f" must have no missing labels. Row {missing[0]} is"
            f" {array[missing[0]]}."
        )
    return names, codes.astype(np.intp, copy=False)


def check_features(centers: NDArray[Any], rows: NDArray[Any], of: str) -> None:
    """Raise unless centers (K, d) have as many features as the rows (N, d)."""
    if centers.shape[1] != rows.shape[1]:
        raise DataError(
            f"`centers` of {of} must have the rows' {rows.shape[1]} features."
            f" Got {centers.shape[1]}."
        )


def check_rows(rows: Any, what: str) -> NDArray[Any]:
    """Return `rows` as a finite (N, d) array of floats in C order, copied only if it is not one.

    `what` names the rows in error messages, such as "user 3" or "a.csv".
    """
    refuse_sparse(rows, what)
    return np.asarray(check_any_rows(rows, what))


def refuse_sparse(rows: Any, what: str, why: str = "") -> None:
    """Raise if rows are sparse; `why` is what they do not go with.

    >>> refuse_sparse(np.eye(2), "cluster", "a scale")
    """
    if is_sparse(rows):
        given = "sparse rows" if isinstance(rows, SparseRows) else f"a {type(rows).__name__}"
        raise DataError(
            f"The rows of {what} must be dense{' with ' if why else ''}{why}. Got {given}."
        )


def check_any_rows(rows: Any, what: str) -> Any:
    """Return what `check_rows` does, or sparse rows as `SparseRows`.

    >>> from scipy.sparse import coo_array
    >>> type(check_any_rows(coo_array(np.eye(2)), "X")).__name__
    'SparseRows'
    """
    array = _as_rows(rows, what)
    _check_values(array, lambda row: f"Row {row} of {what}")
    return array


def check_parts(
    parts: Any,
    *,
    ids: Sequence[int] | None = None,
    features: tuple[int, int] | None = None,
) -> tuple[Any, NDArray[np.int64]]:
    """Return the users' rows in flat form: rows (N, d), `SparseRows` if some are, and offsets.

    `parts` is a list of (N_i, d) arrays, or a pair (rows, offsets) that is flat already. For some
    users only, `ids` are their ids, and `features` is the id of a user and its number of features;
    then there may be no rows.
    """
    if is_flat_pair(parts):
        rows = _as_rows(parts[0], "cluster")
        offsets = check_offsets(parts[1], len(rows))
    else:
        rows, offsets = _flatten(parts, ids, features)
    if len(rows) == 0 and features is None:
        raise DataError(NO_ROWS)

    def name(row: int) -> str:
        user = int(np.searchsorted(offsets, row, side="right")) - 1
        id_ = user if ids is None else ids[user]
        return f"Row {row - int(offsets[user])} of user {id_}"

    _check_values(rows, name)
    return rows, offsets


def is_flat_pair(parts: Any) -> bool:
    """Return whether parts are (rows, offsets)."""
    try:
        return isinstance(parts, tuple) and len(parts) == 2 and np.ndim(parts[1]) == 1
    except ValueError:  # ragged
        return False


def check_weights(
    weights: Any,
    offsets: NDArray[np.int64],
    of: str = "cluster",
    *,
    of_all: int | None = None,
    may_be_zero: bool = False,
) -> float | Array:
    """Return one weight for all rows, or one per row (N,), from what `cluster` accepts.

    If these are the weights of some users only, `of_all` is the number of rows of all users.
    """
    n = int(offsets[-1])
    if weights is None:
        return 1.0
    if isinstance(weights, str):
        check_name(weights, ("unit", "normalized"), "weights", of)
        return 1.0 if weights == "unit" else 1.0 / (of_all or n)
    try:
        nested = not isinstance(weights, np.ndarray) and len(weights) > 0 and np.ndim(weights[0])
        flat = np.concatenate([np.asarray(w) for w in weights]) if nested else np.asarray(weights)
        flat = np.ascontiguousarray(flat, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            parameter("weights", of) + " must be 'unit', 'normalized' or arrays of numbers."
        ) from None
    if flat.shape != (n,) or (nested and [len(w) for w in weights] != np.diff(offsets).tolist()):
        raise DataError(
            parameter("weights", of)
            + f" must have one weight for each of the {n} rows, in the form of"
            f" the parts. Got shape {flat.shape}."
        )
    bad = ~(np.isfinite(flat) & (flat >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise DataError(
            parameter("weights", of) + f" must be finite and >= 0. Got {flat[row]} for row {row}."
        )
    if not (may_be_zero or flat.any()):
        raise DataError(parameter("weights", of) + " must not all be zero.")
    return flat


def check_ranges(ranges: Any, d: int) -> tuple[Array, Array]:
    """Return the least and the largest value of d features, from pairs (low, high).

    >>> [each.tolist() for each in check_ranges([(0, 1), (-2, 2)], d=2)]
    [[0.0, -2.0], [1.0, 2.0]]
    """
    must = parameter("ranges", "cluster") + f" must be (low, high) of each of the {d} features"
    try:
        box = np.array(ranges, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(must + f". Got {show(ranges)}.") from None
    if box.shape != (d, 2):
        raise ParameterError(must + f". Got shape {box.shape}.")
    if not (np.abs(box) <= LARGEST).all() or not (box[:, 0] < box[:, 1]).all():
        raise ParameterError(must + f", finite and low < high. Got {show(box.tolist())}.")
    return box[:, 0].copy(), box[:, 1].copy()


def _as_rows(rows: Any, what: str) -> Any:
    if is_sparse(rows):
        return rows if isinstance(rows, SparseRows) else _as_sparse(rows, what)
    if np.ma.isMaskedArray(rows):
        raise DataError(f"The rows of {what} must not be masked.")
    try:
        array = np.asarray(rows)
        if array.dtype.kind in "biuO" or array.dtype == np.float16:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"The rows of {what} must be numbers: {error}.") from None
    if array.dtype not in (np.float32, np.float64):
        raise DataError(f"The rows of {what} must be real numbers. Got {array.dtype.name}.")
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(_shape_sentence(array.shape, what))
    return np.ascontiguousarray(array)


def _as_sparse(rows: Any, what: str) -> SparseRows:
    if rows.dtype.kind in "biu" or rows.dtype == np.float16:
        rows = rows.astype(np.float64)
    if rows.dtype not in (np.float32, np.float64):
        raise DataError(f"The rows of {what} must be real numbers. Got {rows.dtype.name}.")
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(_shape_sentence(rows.shape, what))
    return SparseRows(canonical(rows))


def _shape_sentence(shape: tuple[int, ...], what: str) -> str:
    return (
        f"The rows of {what} must be a 2-D array (rows, features) with at least one feature."
        f" Got shape {shape}."
    )


def _flatten(
    parts: Any, ids: Sequence[int] | None, features: tuple[int, int] | None
) -> tuple[Any, NDArray[np.int64]]:
    if not isinstance(parts, list | tuple) and not (
        isinstance(parts, np.ndarray) and parts.ndim == 3
    ):
        raise DataError(
            parameter("parts", "cluster")
            + " must be a list of (N_i, d) arrays, one per user, or (rows,"
            f" offsets); for one user pass [X]. Got {type(parts).__name__}."
        )
    try:
        arrays = [
            part if np.ma.isMaskedArray(part) or is_sparse(part) else np.asarray(part)
            for part in parts
        ]
    except (TypeError, ValueError) as error:
        raise DataError(f"The rows of a user must be a 2-D array: {error}.") from None
    # A user without rows may be [] or have any number of columns.
    named = list(enumerate(arrays) if ids is None else zip(ids, arrays, strict=True))
    nonempty = {
        i: _as_rows(part, f"user {i}")
        for i, part in named
        if part.ndim not in (1, 2) or part.shape[0]
    }
    if features is None:
        if not nonempty:
            raise DataError(NO_ROWS)
        features = next((i, part.shape[1]) for i, part in nonempty.items())
    first, d = features
    for i, part in nonempty.items():
        if part.shape[1] != d:
            raise DataError(
                f"All users must have the same features: user {first} has {d}, user {i} has"
                f" {part.shape[1]}."
            )
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(nonempty.get(i, ())) for i, _ in named], out=offsets[1:])
    return concatenate([*nonempty.values()] or [np.empty((0, d))]), offsets


def check_offsets(offsets: Any, n: int) -> NDArray[np.int64]:
    """Return the offsets of users' rows among n rows, as int64."""
    array = np.asarray(offsets)
    if (
        array.dtype.kind not in "iu"
        or len(array) < 2
        or array[0] != 0
        or array[-1] != n
        or np.any(np.diff(array) < 0)
    ):
        raise DataError(
            f"The offsets of `parts` must be whole numbers that increase from 0 to the {n} rows."
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def _check_values(rows: Any, name: Callable[[int], str]) -> None:
    """Raise if a value is NaN, infinite, or so large that its square is; name the first row."""
    # min and max propagate NaN, and need no temporary array
    limit = min(LARGEST, float(np.finfo(rows.dtype).max))
    values = arrays_of(rows)[0]
    if values.size and float(values.min()) >= -limit and float(values.max()) <= limit:
        return
    bad = ~(np.abs(values) <= limit)
    if bad.any():
        at = int(bad.argmax())
        row, column = divmod(at, rows.shape[1])
        if isinstance(rows, SparseRows):
            row = int(np.searchsorted(rows.csr.indptr, at, side="right")) - 1
            column = int(rows.csr.indices[at])
        raise DataError(
            f"{name(row)} must be finite and below {LARGEST:g} (no NaN, no infinity)."
            f" Got {values.flat[at]} in column {column}."
        )
