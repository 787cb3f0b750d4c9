"""Double-double sums by chunk and cluster, as arrays; `loops.exact_sums` adds rows to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array


class Sums(NamedTuple):
    """Sums of w gamma and of w gamma y by chunk and cluster, two numbers each.

    hi0 and lo0 are (chunks, K), hi1 and lo1 (chunks, K, d).
    """

    hi0: Array
    lo0: Array
    hi1: Array
    lo1: Array


class RoundingMarks(NamedTuple):
    """The peaks of hi0 and hi1, and whether these sums were ever rounded; shaped as they are."""

    peak0: Array
    rounded0: NDArray[np.bool_]
    peak1: Array
    rounded1: NDArray[np.bool_]


class CachedSums(NamedTuple):
    """The sums that a cache keeps from one assignment to the next.

    `constant` are those of the rows with constant gamma (see `gamma_is_constant`), which are added
    and removed one by one; `marks` belong to them. `varying`, of the other rows, are computed each
    time; they are None if no gamma varies.
    """

    constant: Sums
    varying: Sums | None
    marks: RoundingMarks


def no_sums(chunks: int, K: int, d: int) -> Sums:
    """Return sums that are zero."""
    return Sums(*np.zeros((2, chunks, K)), *np.zeros((2, chunks, K, d)))


def no_marks(chunks: int, K: int, d: int) -> RoundingMarks:
    """Return the rounding marks of sums that are zero."""
    few, many = (chunks, K), (chunks, K, d)
    return RoundingMarks(
        np.zeros(few), np.zeros(few, np.bool_), np.zeros(many), np.zeros(many, np.bool_)
    )
