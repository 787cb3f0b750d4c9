"""Checks of what a caller gives, called by the public doors only; the rooms behind them trust.

A check returns the value in the form the rooms use, or raises with one sentence: which parameter
of what, what it must be, what came.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from peerclust.errors import DataError, ParameterError


def check_number(
    value: Any, name: str, of: str, *, at_least: float = -math.inf, above: float = -math.inf
) -> float:
    """Return `value` as a finite float within its range.

    >>> check_number(10, "rho", "cluster", at_least=1)
    10.0
    """
    good = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not (good and value >= at_least and value > above):
        bound = f" >= {at_least:g}" if at_least > -math.inf else ""
        bound = f" > {above:g}" if above > -math.inf else bound
        raise ParameterError(f"`{name}` of {of} must be a number{bound}. Got {value!r}.")
    return float(value)


def check_count(value: Any, name: str, of: str, *, at_least: int = 1) -> int:
    """Return `value` as an int within its range.

    >>> check_count(3, "n_clusters", "cluster")
    3
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < at_least:
        raise ParameterError(
            f"`{name}` of {of} must be a whole number >= {at_least}. Got {value!r}."
        )
    return int(value)


def check_name(value: str, known: Iterable[str], name: str, of: str) -> str:
    """Return `value` if it is known; else say which known name is nearest.

    >>> check_name("huber", ["kmeans", "huber"], "loss", "cluster")
    'huber'
    """
    names = list(known)
    if value in names:
        return value
    near = difflib.get_close_matches(str(value).lower(), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ParameterError(
        f"`{name}` of {of} must be one of {', '.join(map(repr, names))}. Got {value!r}.{hint}"
    )


def check_rows(rows: Any, what: str) -> np.ndarray:
    """Return `rows` as a finite (N, d) array of float32 or float64 in C order, copied only if it is not.

    `what` names the rows in the message, such as "user 3" or "the file a.csv".
    """
    try:
        array = np.asarray(rows)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"The rows of {what} must be numbers. {error}.") from None
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            f"The rows of {what} must be a 2-D array (rows, features) with at least one feature."
            f" Got shape {array.shape}."
        )
    check_finite(array, what)
    return np.ascontiguousarray(array)


def check_finite(rows: np.ndarray, what: str) -> None:
    """Raise if a row has a NaN or an infinite value, naming the first such row."""
    # A sum is NaN or infinite if a term is; only then (or on overflow) are the rows looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(rows.sum()):
            return
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        column = int((~np.isfinite(rows[row])).argmax())
        raise DataError(
            f"The rows of {what} must be finite. Row {row} has {rows[row, column]}"
            f" in column {column}."
        )
