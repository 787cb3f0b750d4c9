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

from peerclust.kernels.loops.compiling import compiled, inlined, inner
from peerclust.kernels.loops.distances import weight_of
from peerclust.kernels.plain import exact_sums

SHRUNK = 2.0**-40


add = inlined(exact_sums.add)


@inner()
def add_rows(rows, chosen, n, w, labels, t, sums):
    """Add the first n chosen rows, the p-th with weight w[p], to their clusters of chunk t.

    There is one call for many rows, since passing all sums takes about as long as adding a row.
    """
    hi0, lo0, hi1, lo1 = sums
    for p in range(n):
        row = chosen[p]
        k = labels[row]
        hi0[t, k], lo0[t, k] = add(hi0[t, k], lo0[t, k], w[p])
        y, top, low = rows[row], hi1[t, k], lo1[t, k]
        for j in range(y.size):
            top[j], low[j] = add(top[j], low[j], w[p] * y[j])


@inlined
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


@inlined
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


@inner()
def update_rows(rows, moves, n, t, sums, marks, stale):
    """Call `update_row` for the first n of `moves`, in their order.

    These are (row, k, w), arrays of the rows, their clusters in chunk t and their weights.
    stale[k] is set for clusters whose sums must be recomputed.
    """
    row, k, w = moves
    for p in range(n):
        stale[k[p]] |= update_row(rows, row[p], w[p], t, k[p], sums, marks)


@inner()
def clear(t, sums):
    """Set the sums of all clusters of chunk t to zero."""
    hi0, lo0, hi1, lo1 = sums
    for k in range(hi0.shape[1]):
        hi0[t, k], lo0[t, k] = 0.0, 0.0
        for j in range(hi1.shape[2]):
            hi1[t, k, j], lo1[t, k, j] = 0.0, 0.0


@inner()
def restart_cluster(t, k, sums, marks):
    """Set the sums of cluster k of chunk t to zero, and their rounding marks."""
    hi0, lo0, hi1, lo1 = sums
    peak0, rounded0, peak1, rounded1 = marks
    hi0[t, k], lo0[t, k], peak0[t, k], rounded0[t, k] = 0.0, 0.0, 0.0, False
    for j in range(hi1.shape[2]):
        hi1[t, k, j], lo1[t, k, j], peak1[t, k, j], rounded1[t, k, j] = 0.0, 0.0, 0.0, False


@inner()
def add_cluster(rows, weights, unit, factor, labels, in_sums, t, k, sums, marks, moves, stale):
    """Add the rows of cluster k of chunk t that are in the sums; `in_sums` is empty if all are."""
    row, to, w = moves
    n, size = 0, labels.size
    for r in range(size):
        if labels[r] == k and (in_sums.size == 0 or in_sums[r]):
            row[n], to[n], w[n] = r, k, factor * weight_of(weights, unit, r)
            n += 1
        if n == row.size or r == size - 1:
            update_rows(rows, moves, n, t, sums, marks, stale)
            n = 0


@compiled()
def exact_by_user(owner, hi, lo, total, low):
    """Add the chunks' sums hi + lo, (chunks, n), to their users' total + low, (users, n)."""
    for t in range(owner.size):
        i = owner[t]
        for e in range(hi.shape[1]):
            total[i, e], low[i, e] = add(total[i, e], low[i, e], hi[t, e])
            total[i, e], low[i, e] = add(total[i, e], low[i, e], lo[t, e])
