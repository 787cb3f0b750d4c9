"""Double-double sums to which rows are added, and from which they are removed, round after round.

A sum is two numbers: hi, the sum rounded to one number, and lo, the rounding error. An update is
exact or wrong by at most 2^-105 of the sum's peak, the largest |hi| so far. So after n updates a
sum is wrong by at most n 2^-105 of its peak. It is recomputed once it has shrunk below `SHRUNK`
times its peak, so it is wrong by at most n 2^-65 of itself. A sum that was never rounded is exact
and need not be recomputed.

The result is nearly always the exact sum rounded once, which does not depend on the order of the
rows. Where the exact sum is about halfway between two numbers, it may be the other one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.kernels.compiling import compiled
from peerclust.kernels.row_data import weight_of

SHRUNK = 2.0**-40


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
    time; there are none if no gamma varies.
    """

    constant: Sums
    varying: Sums
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


@compiled(inline="always")
def add(hi, lo, v):
    """Return hi + lo + v as (hi, lo), by Knuth's exact sum of two numbers, used twice."""
    s = hi + v
    b = s - hi
    low = lo + ((hi - (s - b)) + (v - b))
    top = s + low
    b = top - s
    return top, (s - (top - b)) + (low - b)


@compiled(inline="always")
def add_row(rows, row, w, t, k, sums):
    """Add a row with weight w to cluster k of chunk t."""
    hi0, lo0, hi1, lo1 = sums
    hi0[t, k], lo0[t, k] = add(hi0[t, k], lo0[t, k], w)
    for j in range(rows.shape[1]):
        hi1[t, k, j], lo1[t, k, j] = add(hi1[t, k, j], lo1[t, k, j], w * rows[row, j])


@compiled(nogil=True)
def add_row_call(rows, row, w, t, k, sums):
    """Do what `add_row` does, as a call: for loops where inlining would only slow compilation."""
    add_row(rows, row, w, t, k, sums)


@compiled(inline="always")
def _add_checked(hi, lo, v):
    """Return what `add` returns, and whether anything was rounded."""
    s = hi + v
    b = s - hi
    e = (hi - (s - b)) + (v - b)
    low = lo + e
    b = low - lo
    lost = (lo - (low - b)) + (e - b)
    top = s + low
    b = top - s
    return top, (s - (top - b)) + (low - b), lost != 0.0


@compiled(inline="always")
def update_row(rows, row, w, t, k, sums, marks):
    """Add a row to a cluster, or remove it if w < 0; return whether to recompute the sums."""
    hi0, lo0, hi1, lo1 = sums
    peak0, rounded0, peak1, rounded1 = marks
    hi0[t, k], lo0[t, k], rounded = _add_checked(hi0[t, k], lo0[t, k], w)
    rounded0[t, k] |= rounded
    peak0[t, k] = max(peak0[t, k], abs(hi0[t, k]))
    inaccurate = int(rounded0[t, k] and not abs(hi0[t, k]) >= SHRUNK * peak0[t, k])
    for j in range(rows.shape[1]):
        top, low, rounded = _add_checked(hi1[t, k, j], lo1[t, k, j], w * rows[row, j])
        hi1[t, k, j], lo1[t, k, j] = top, low
        rounded1[t, k, j] |= rounded
        size, peak = abs(top), peak1[t, k, j]
        peak1[t, k, j] = size if size > peak else peak
        inaccurate += rounded1[t, k, j] & (not size >= SHRUNK * peak)
    return inaccurate > 0


@compiled(nogil=True)
def update_rows(rows, moves, n, t, sums, marks, stale):
    """Call `update_row` for the first n of `moves`, in their order.

    These are (row, k, w), arrays of the rows, their clusters in chunk t and their weights.
    stale[k] is set for clusters whose sums must be recomputed. There is one call for many rows,
    since passing all sums takes about as long as updating those of one row.
    """
    row, k, w = moves
    for p in range(n):
        stale[k[p]] |= update_row(rows, row[p], w[p], t, k[p], sums, marks)


@compiled(inline="always")
def clear_marks(t, k, marks):
    """Reset the rounding marks of cluster k of chunk t, as for sums that are zero."""
    peak0, rounded0, peak1, rounded1 = marks
    peak0[t, k], rounded0[t, k] = 0.0, False
    for j in range(peak1.shape[2]):
        peak1[t, k, j], rounded1[t, k, j] = 0.0, False


@compiled(inline="always")
def zero(t, k, sums):
    """Set the sums of cluster k of chunk t to zero."""
    hi0, lo0, hi1, lo1 = sums
    hi0[t, k], lo0[t, k] = 0.0, 0.0
    for j in range(hi1.shape[2]):
        hi1[t, k, j], lo1[t, k, j] = 0.0, 0.0


@compiled(nogil=True)
def add_cluster(rows, weights, unit, factor, labels, in_sums, t, k, sums, marks):
    """Add the rows of cluster k of chunk t that are in the sums; `in_sums` is empty if all are."""
    for r in range(labels.size):
        if labels[r] == k and (in_sums.size == 0 or in_sums[r]):
            update_row(rows, r, factor * weight_of(weights, unit, r), t, k, sums, marks)


@compiled(nogil=True)
def exact_by_user(owner, hi, lo, total, low):
    """Add the chunks' sums hi + lo, (chunks, n), to their users' total + low, (users, n)."""
    for t in range(owner.size):
        i = owner[t]
        for e in range(hi.shape[1]):
            total[i, e], low[i, e] = add(total[i, e], low[i, e], hi[t, e])
            total[i, e], low[i, e] = add(total[i, e], low[i, e], lo[t, e])
