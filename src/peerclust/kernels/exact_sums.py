"""Sums that rows enter and leave, for as many rounds as a run has.

A sum is two numbers: hi, which is the sum as rounded to one, and lo, what rounding took away. An
entry is exact or wrong by at most 2^-105 of the largest |hi| that was, the sum's peak. So after n
entries a sum is wrong by at most n 2^-105 of its peak, and, as it is added up anew once it has
shrunk to less than `SHRUNK` of that, by n 2^-65 of itself. A sum that was never rounded is exact,
and need not be.

What comes out is nearly always the exact sum rounded once, which does not depend on the order in
which rows came; where that lies halfway between two numbers it may be a neighbor of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.types import Array

SHRUNK = 2.0**-40


class Sums(NamedTuple):
    """Sums of w gamma and of w gamma y by task and cluster, two numbers each.

    hi0 and lo0 are (tasks, K), hi1 and lo1 (tasks, K, d).
    """

    hi0: Array
    lo0: Array
    hi1: Array
    lo1: Array


def no_sums(tasks: int, K: int, d: int) -> Sums:
    """Return sums that are zero."""
    return Sums(*np.zeros((2, tasks, K)), *np.zeros((2, tasks, K, d)))


@compiled(inline="always")
def add(hi, lo, v):
    """Give hi + lo + v: twice Knuth's sum of two numbers with what it rounds away."""
    s = hi + v
    b = s - hi
    low = lo + ((hi - (s - b)) + (v - b))
    top = s + low
    b = top - s
    return top, (s - (top - b)) + (low - b)


@compiled(inline="always")
def add_row(rows, row, w, t, k, sums):
    """Let a row with weight w enter cluster k of task t; `sums` are (hi0, lo0, hi1, lo1)."""
    hi0, lo0, hi1, lo1 = sums
    hi0[t, k], lo0[t, k] = add(hi0[t, k], lo0[t, k], w)
    for j in range(rows.shape[1]):
        hi1[t, k, j], lo1[t, k, j] = add(hi1[t, k, j], lo1[t, k, j], w * rows[row, j])


@compiled(nogil=True)
def add_row_call(rows, row, w, t, k, sums):
    """Do what `add_row` does, where a call costs little beside it and is compiled sooner."""
    add_row(rows, row, w, t, k, sums)


@compiled(inline="always")
def _add_watched(hi, lo, v):
    """Give what `add` gives, and whether anything was rounded away."""
    s = hi + v
    b = s - hi
    e = (hi - (s - b)) + (v - b)
    low = lo + e
    b = low - lo
    path = (lo - (low - b)) + (e - b)
    top = s + low
    b = top - s
    return top, (s - (top - b)) + (low - b), path != 0.0


@compiled(nogil=True)
def update_row(rows, row, w, t, k, sums, rounding_marks):
    """Let a row enter a cluster, or leave it if w < 0; tell whether to add that up anew.

    `rounding_marks` are (peak0, rounded0, peak1, rounded1): the peaks of hi0 and hi1, and whether they were
    ever rounded.
    """
    hi0, lo0, hi1, lo1 = sums
    peak0, rounded0, peak1, rounded1 = rounding_marks
    hi0[t, k], lo0[t, k], rounded = _add_watched(hi0[t, k], lo0[t, k], w)
    rounded0[t, k] |= rounded
    peak0[t, k] = max(peak0[t, k], abs(hi0[t, k]))
    worn = int(rounded0[t, k] and not abs(hi0[t, k]) >= SHRUNK * peak0[t, k])
    for j in range(rows.shape[1]):
        top, low, rounded = _add_watched(hi1[t, k, j], lo1[t, k, j], w * rows[row, j])
        hi1[t, k, j], lo1[t, k, j] = top, low
        rounded1[t, k, j] |= rounded
        size, peak = abs(top), peak1[t, k, j]
        peak1[t, k, j] = size if size > peak else peak
        worn += rounded1[t, k, j] & (not size >= SHRUNK * peak)
    return worn > 0


@compiled(inline="always")
def clear_marks(t, k, rounding_marks):
    """Set the marks of cluster k of task t as for sums that are zero."""
    peak0, rounded0, peak1, rounded1 = rounding_marks
    peak0[t, k], rounded0[t, k] = 0.0, False
    for j in range(peak1.shape[2]):
        peak1[t, k, j], rounded1[t, k, j] = 0.0, False


@compiled(inline="always")
def zero(t, k, sums):
    """Set the sums of cluster k of task t to zero."""
    hi0, lo0, hi1, lo1 = sums
    hi0[t, k], lo0[t, k] = 0.0, 0.0
    for j in range(hi1.shape[2]):
        hi1[t, k, j], lo1[t, k, j] = 0.0, 0.0


@compiled(nogil=True)
def by_user_exactly(owner, hi, lo, total, low):
    """Add the tasks' sums hi + lo, (tasks, n), to those of their users, total + low, (users, n)."""
    for t in range(owner.size):
        i = owner[t]
        for e in range(hi.shape[1]):
            total[i, e], low[i, e] = add(total[i, e], low[i, e], hi[t, e])
            total[i, e], low[i, e] = add(total[i, e], low[i, e], lo[t, e])
