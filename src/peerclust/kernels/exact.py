"""Sums that rows enter and leave, for as many rounds as a run has.

A sum is two numbers: hi, which is the sum as rounded to one, and lo, what rounding took away. An
entry is wrong by at most 2^-105 of hi, so that n of them are by n 2^-105 times the largest hi that
was: for a hi that has not shrunk to less than `SHRUNK` of that, by n 2^-65 of itself. Whoever lets
rows leave adds a sum up anew once its largest feature has shrunk further. What comes out is nearly
always the exact sum rounded once, which does not depend on the order in which rows came; where that
lies halfway between two numbers, or features of a cluster differ by many powers of ten, it may be a
neighbor of it.
"""

from __future__ import annotations

from peerclust.kernels.compiling import compiled

SHRUNK = 2.0**-40


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
def enter(rows, row, w, t, k, sums):
    """Let a row with weight w enter cluster k of task t; `sums` are (hi0, lo0, hi1, lo1)."""
    hi0, lo0, hi1, lo1 = sums
    hi0[t, k], lo0[t, k] = add(hi0[t, k], lo0[t, k], w)
    for j in range(rows.shape[1]):
        hi1[t, k, j], lo1[t, k, j] = add(hi1[t, k, j], lo1[t, k, j], w * rows[row, j])


@compiled(nogil=True)
def join(rows, row, w, t, k, sums):
    """Do what `enter` does, where a call costs little beside it and is compiled sooner."""
    enter(rows, row, w, t, k, sums)


@compiled(nogil=True)
def move(rows, row, w, t, k, sums, peak):
    """Let a row enter a cluster, or leave it if w < 0; tell whether to add that up anew.

    That is when its weight, or what is left of a feature, is little beside what came or left, or
    all features are little beside peak[t, k], at least half of the largest |hi1| that was.
    """
    enter(rows, row, w, t, k, sums)
    hi0, _, hi1, _ = sums
    lost, large, larger = 0, 0, 0
    # Counted, not compared for the largest: that is compiled to wide instructions.
    for j in range(rows.shape[1]):
        top = hi1[t, k, j]
        # Where nothing is left of a feature that few rows have, nothing was lost.
        lost += top != 0.0 and not abs(top) >= SHRUNK * abs(w * rows[row, j])
        large += abs(top) >= SHRUNK * peak[t, k]
        larger += abs(top) > 2.0 * peak[t, k]
    if larger > 0:
        peak[t, k] = find_peak(t, k, sums)
    return lost > 0 or large == 0 or not hi0[t, k] >= SHRUNK * abs(w)


@compiled(inline="always")
def find_peak(t, k, sums):
    """Give the largest |hi1| of cluster k of task t."""
    peak = 0.0
    for j in range(sums[2].shape[2]):
        peak = max(peak, abs(sums[2][t, k, j]))
    return peak


@compiled(inline="always")
def clear(t, k, sums):
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
