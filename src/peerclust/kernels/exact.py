"""Sums that rows enter and leave, for as many rounds as a run has.

A sum is two numbers: hi, which is the sum as rounded to one, and lo, what rounding took away. An
entry is wrong by at most 2^-105 of hi, so that n of them are by n 2^-105 times the largest hi that
was: for a hi that has not shrunk to less than `SHRUNK` of that, by n 2^-65 of itself. Whoever lets
rows leave adds a sum up anew once it has shrunk further. What comes out is, but for a chance of
about 2^-40, the exact sum rounded once: it does not depend on the order in which rows came.
"""

from __future__ import annotations

import numpy as np

from peerclust.kernels.compiling import compiled

SHRUNK = 2.0**-40
_ONE = np.ones(1)


@compiled(inline="always")
def _enter(y, w, hi, lo):
    """Add w y to the sums hi + lo."""
    for j in range(hi.size):
        v = w * y[j]
        old = hi[j]
        # Twice Knuth's sum of two numbers with what it rounds away.
        s = old + v
        b = s - old
        low = lo[j] + ((old - (s - b)) + (v - b))
        top = s + low
        b = top - s
        hi[j] = top
        lo[j] = (s - (top - b)) + (low - b)


@compiled(nogil=True)
def enter(y, w, k, sums):
    """Let a row y with weight w enter cluster k of the sums (hi0, lo0, hi1, lo1)."""
    hi0, lo0, hi1, lo1 = sums
    _enter(_ONE, w, hi0[k : k + 1], lo0[k : k + 1])
    _enter(y, w, hi1[k], lo1[k])


@compiled(nogil=True)
def move(y, w, k, sums, peak):
    """Let a row enter cluster k, or leave it if w < 0; tell whether to add that up anew.

    That is when its weight, or what is left of a feature, is little beside what came or left, or
    all features are little beside peak[k], which is at least half of the largest |hi1| that was.
    """
    enter(y, w, k, sums)
    top = sums[2][k]
    lost, large, larger = 0, 0, 0
    # Counted, not compared for the largest: that is compiled to wide instructions.
    for j in range(top.size):
        # Where nothing is left of a feature that few rows have, nothing was lost.
        lost += top[j] != 0.0 and not abs(top[j]) >= SHRUNK * abs(w * y[j])
        large += abs(top[j]) >= SHRUNK * peak[k]
        larger += abs(top[j]) > 2.0 * peak[k]
    if larger > 0:
        for j in range(top.size):
            peak[k] = max(peak[k], abs(top[j]))
    return lost > 0 or large == 0 or not sums[0][k] >= SHRUNK * abs(w)


@compiled(nogil=True)
def by_user_exactly(owner, hi, lo, total, low):
    """Add the tasks' sums hi + lo, (tasks, K, ...), to those of their users, total + low."""
    for t in range(owner.size):
        to, under = total[owner[t]].reshape(-1), low[owner[t]].reshape(-1)
        _enter(hi[t].reshape(-1), 1.0, to, under)
        _enter(lo[t].reshape(-1), 1.0, to, under)
