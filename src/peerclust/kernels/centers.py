"""The loops that measure rows against centers.

They share a file: what is kept on disk is compiled again only when a loop's own file changes.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.drifts import EPS, TINY

SEGMENT = 8192
TILE = 64
# A tile's lines are this much longer than a power of two, so that they do not share cache sets.
PAD = 8

KMEANS, HUBER, LOGISTIC, FAIR, GIVEN = 0, 1, 2, 3, 4

# No distance up to this overflows when squared.
FAR = 1e154


@compiled(inline="always")
def _gamma(code, parameter, r2):
    """Give gamma of a built-in loss, where grad f = gamma (x - y); see `peerclust.losses`."""
    if code == HUBER:
        # r <= delta, said so that neither r2 = 0 nor an overflowing delta^2 matters
        r = math.sqrt(r2)
        return 1.0 if r <= parameter else parameter / r
    if code == LOGISTIC:
        return 2.0 / (1.0 + math.exp(-r2))
    if code == FAIR:
        return 4.0 * parameter * (r2 / (parameter + r2))
    return 1.0


@compiled(["float64(int64, float64, float64)"], using=numba.vectorize)
def gamma(code, parameter, r2):
    """Give gamma of a built-in loss for an array of squared distances."""
    return _gamma(code, parameter, r2)


@compiled(inline="always")
def _distance(row, center):
    """Give the squared distance of one row to a center."""
    total = 0.0
    for j in range(center.size):
        step = row[j] - center[j]
        total += step * step
    return total


@compiled(inline="always")
def _own(rows, first, n, x, labels, r2):
    """Give the squared distances of n rows to their own centers.

    Four at a time: an addition waits for the last one of its sum, but not for those of others.
    """
    for r in range(0, n - 3, 4):
        y, k = rows[first + r : first + r + 4], labels[first + r : first + r + 4]
        y0, y1, y2, y3 = y[0], y[1], y[2], y[3]
        c0, c1, c2, c3 = x[k[0]], x[k[1]], x[k[2]], x[k[3]]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(x.shape[1]):
            d0, d1, d2, d3 = y0[j] - c0[j], y1[j] - c1[j], y2[j] - c2[j], y3[j] - c3[j]
            s0 += d0 * d0
            s1 += d1 * d1
            s2 += d2 * d2
            s3 += d3 * d3
        r2[r], r2[r + 1], r2[r + 2], r2[r + 3] = s0, s1, s2, s3
    for r in range(n - n % 4, n):
        r2[r] = _distance(rows[first + r], x[labels[first + r]])


@compiled(inline="always")
def _load(rows, chosen, n, tile):
    """Turn n rows into columns, so that the loops over them run over neighboring numbers."""
    for r in range(n):
        row = chosen[r]
        for j in range(rows.shape[1]):
            tile[j, r] = rows[row, j]


@compiled(inline="always")
def _score_four(tile, n, x, k, score):
    """Give the squared distances of n rows to the centers k to k + 3: each row is read once."""
    s0, s1, s2, s3 = score[0], score[1], score[2], score[3]
    score[:] = 0.0
    for j in range(x.shape[1]):
        c0, c1, c2, c3 = x[k, j], x[k + 1, j], x[k + 2, j], x[k + 3, j]
        for r in range(n):
            y = tile[j, r]
            d0, d1, d2, d3 = y - c0, y - c1, y - c2, y - c3
            s0[r] += d0 * d0
            s1[r] += d1 * d1
            s2[r] += d2 * d2
            s3[r] += d3 * d3


@compiled(inline="always")
def _score_one(tile, n, center, score):
    """Give the squared distance of n rows to a center."""
    score[:] = 0.0
    for j in range(center.size):
        c = center[j]
        for r in range(n):
            step = tile[j, r] - c
            score[r] += step * step


@compiled(inline="always")
def _score_affine(tile, n, slope, offset, score):
    """Give offset - <slope, y> of n rows y."""
    score[:] = offset
    for j in range(slope.size):
        a = slope[j]
        for r in range(n):
            score[r] -= a * tile[j, r]


@compiled(inline="always")
def _find_lowest(tile, n, x, slope, offset, affine, score, best, second, label):
    """Give each row's lowest score, of equal ones the first as argmin does, and its second."""
    best[:] = np.inf
    second[:] = np.inf
    label[:] = 0
    k = 0
    while k < x.shape[0]:
        scored = 1
        if affine:
            _score_affine(tile, n, slope[k], offset[k], score[0])
        elif k + 4 <= x.shape[0]:
            _score_four(tile, n, x, k, score)
            scored = 4
        else:
            _score_one(tile, n, x[k], score[0])
        for q in range(scored):
            for r in range(n):
                lower = score[q, r] < best[r]
                beaten = best[r] if lower else score[q, r]
                second[r] = beaten if beaten < second[r] else second[r]
                best[r] = score[q, r] if lower else best[r]
                label[r] = k + q if lower else label[r]
        k += scored


@compiled(inline="always")
def _find_expired(labels, expiry, drift, first, last, chosen):
    """Choose the rows whose label may have changed; a NaN or an overflow is no reason to skip."""
    n = 0
    for row in range(first, last):
        chosen[n] = row
        if not drift[labels[row]] < expiry[row]:
            n += 1
    return n


@compiled(inline="always")
def _add(rows, row, w, k, s0, s1):
    s0[k] += w
    for j in range(rows.shape[1]):
        s1[k, j] += w * rows[row, j]


@compiled(inline="always")
def _sum_rows(
    rows, weights, unit, first, last, x, labels, code, parameter, given, wanted, chosen, r2, s0, s1
):
    """Sum the rows first to last anew by the labels they have, into the wanted clusters only."""
    for k in range(x.shape[0]):
        if wanted[k]:
            s0[k], s1[k] = 0.0, 0.0
    for begin in range(first, last, TILE):
        n = min(TILE, last - begin)
        if code not in (KMEANS, GIVEN):
            _own(rows, begin, n, x, labels, r2)
        # Chosen first, then summed: no branch could be foreseen.
        count = 0
        for r in range(n):
            chosen[count] = r
            count += wanted[labels[begin + r]]
        for r in chosen[:count]:
            row = begin + r
            w = weights[row] if weights.size > 0 else unit
            w *= given[row] if code == GIVEN else _gamma(code, parameter, r2[r])
            _add(rows, row, w, labels[row], s0, s1)


@compiled(nogil=True)
def assign(
    rows, weights, unit, owner, start, stop, first, last, x, slope, offset, code, parameter,
    fresh, drift, expiry, labels, s0, s1, changed, looked,
):  # fmt: skip
    """Assign the rows of tasks first to last to their nearest centers and sum them up.

    With an empty `slope` nearest means the least ||x_i(k) - y||^2; else the least affine score
    offset_i(k) - <slope_i(k), y>, which is what a Bregman divergence comes to. A row counts with
    its weight (`unit` where there are no `weights`) times gamma at its own center:
    s0[t, k] = sum w gamma, s1[t, k] = sum w gamma y. With code GIVEN nothing is summed.

    Unless the assignment is `fresh`, rows that `drift` (see `add_drifts`) has not yet brought to
    their `expiry` keep their labels unread, and what `s0` and `s1` hold is that of the labels.
    """
    d, none = x.shape[2], np.empty(0)
    tile = np.empty((0, TILE + PAD))
    score = np.zeros((4, TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    chosen = np.empty(SEGMENT, np.int64)
    wanted = np.zeros(x.shape[1], np.bool_)
    affine = slope.size > 0
    # A distance is measured to within (d / 4 + 1) EPS of itself, now and whenever it is compared.
    slack = (2 * d + 16) * EPS
    for t in range(first, last):
        i = owner[t]
        count = size = stop[t] - start[t]
        if not fresh:
            count = _find_expired(labels, expiry, drift[i], start[t], stop[t], chosen)
        # To read all takes little longer than to read most, and sums up on the way.
        whole = fresh or 2 * count > size
        if whole:
            count = size
            chosen[:size] = np.arange(start[t], stop[t])
            s0[t], s1[t] = 0.0, 0.0
        wanted[:] = code not in (KMEANS, GIVEN)
        moved = 0
        if count > 0 and tile.size == 0:
            tile = np.zeros((d, TILE + PAD))
        for begin in range(0, count, TILE):
            n = min(TILE, count - begin)
            _load(rows, chosen[begin:], n, tile)
            _find_lowest(
                tile, n, x[i], slope[i] if affine else x[i], offset[i] if affine else none,
                affine, score, best, second, label,
            )  # fmt: skip
            for r in range(n):
                row, k = chosen[begin + r], label[r]
                if labels[row] != k:
                    if not whole and code != GIVEN:
                        wanted[k] = wanted[labels[row]] = True
                    labels[row] = k
                    moved += 1
                if not affine:
                    near, other = math.sqrt(best[r]), min(math.sqrt(second[r]), FAR)
                    gap = (other - near) - (slack * (near + other) + TINY)
                    expiry[row] = gap + drift[i, k] * (1.0 - 4.0 * EPS)
                if whole and code != GIVEN:
                    w = weights[row] if weights.size > 0 else unit
                    w *= _gamma(code, parameter, best[r])
                    _add(rows, row, w, k, s0[t], s1[t])
        if not whole and wanted.any():
            _sum_rows(
                rows, weights, unit, start[t], stop[t], x[i], labels, code, parameter, none,
                wanted, chosen, best, s0[t], s1[t],
            )  # fmt: skip
        changed[t] = moved
        looked[t] = count


@compiled(nogil=True)
def pull(
    rows, weights, unit, owner, start, stop, first, last, x, labels, code, parameter, given, s0, s1
):
    """Sum the rows of tasks first to last into s0 and s1 by the labels they have.

    With code GIVEN the gamma of each row is read from `given`.
    """
    wanted = np.ones(x.shape[1], np.bool_)
    chosen, r2 = np.empty(TILE, np.int64), np.zeros(TILE)
    for t in range(first, last):
        _sum_rows(
            rows, weights, unit, start[t], stop[t], x[owner[t]], labels, code, parameter, given,
            wanted, chosen, r2, s0[t], s1[t],
        )  # fmt: skip


@compiled(nogil=True)
def own_r2(rows, owner, start, stop, first, last, x, labels, r2):
    """Give each row's squared distance to its own center; r2[0] is the first row's."""
    origin = start[first]
    for t in range(first, last):
        _own(rows, start[t], stop[t] - start[t], x[owner[t]], labels, r2[start[t] - origin :])


@compiled(nogil=True)
def nearest(rows, first, last, x, slope, offset, labels, r2):
    """Give the nearest of one set of centers (K, d) and its score (see `assign`), row by row."""
    affine = slope.size > 0
    tile = np.zeros((x.shape[1], TILE + PAD))
    score = np.zeros((4, TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    for begin in range(first, last, TILE):
        n = min(TILE, last - begin)
        _load(rows, np.arange(begin, begin + n), n, tile)
        _find_lowest(tile, n, x, slope if affine else x, offset, affine, score, best, second, label)
        labels[begin : begin + n] = label[:n]
        r2[begin : begin + n] = best[:n]
