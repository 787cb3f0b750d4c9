"""Distances of rows to centers, gamma and slack: helpers that are inlined into the loops."""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.center_drift import EPS, TINY
from peerclust.kernels.compiling import compiled

# The number of rows that are measured together.
TILE = 64
# Lines of a tile are longer than a power of two by this much, so that they do not share cache sets.
PAD = 8

KMEANS, HUBER, LOGISTIC, FAIR, GIVEN = 0, 1, 2, 3, 4
# Losses whose gamma may change while the label does not, and those for which that depends on the
# row: it is constant for some rows and varies for others.
VARYING = (HUBER, LOGISTIC, FAIR)
MIXED = (HUBER, LOGISTIC)

# No distance up to this overflows when squared.
FAR = 1e154

# From this distance on gamma of the logistic loss is 2: exp(-37) < 2^-53.
FLAT2 = 37.0
FLAT = math.sqrt(FLAT2)
_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.693147180369123816, 1.90821492927058770e-10
_HALVES = 0.5 ** np.arange(64.0)
# 1 / 12!, 1 / 11!, ... 1 / 1!
_SERIES = tuple(1.0 / math.factorial(n) for n in range(12, 0, -1))


@compiled(inline="always")
def _exp_minus(t):
    """Return exp(-t) for t >= 0, or exp(-40) beyond 40, in operations that can be vectorized.

    t = n log 2 - s with |s| <= log(2) / 2, and exp(s) by its series.
    """
    t = t if t < 40.0 else 40.0
    n = np.uint64(t * _LOG2E + 0.5)
    s = (n * _LN2_HIGH - t) + n * _LN2_LOW
    total = s * (1.0 / 6227020800.0)
    for c in _SERIES:
        total = (total + c) * s
    return (1.0 + total) * _HALVES[n]


@compiled(inline="always")
def gamma_of(code, parameter, r2):
    """Return gamma of a built-in loss, where grad f = gamma (x - y); see `peerclust.losses`."""
    if code == HUBER:
        # r <= delta, not r2 <= delta^2, which may overflow; and no division by r = 0
        r = math.sqrt(r2)
        return 1.0 if r <= parameter else parameter / r
    if code == LOGISTIC:
        return 2.0 / (1.0 + _exp_minus(r2)) if r2 == r2 else r2
    if code == FAIR:
        return 4.0 * parameter * (r2 / (parameter + r2))
    return 1.0


@compiled(inline="always")
def gamma_is_constant(code, parameter, r2):
    """Return whether gamma is constant around this distance; see `constant_gamma`."""
    if code == HUBER:
        return math.sqrt(r2) <= parameter
    if code == LOGISTIC:
        return r2 >= FLAT2
    return code == KMEANS


@compiled(inline="always")
def constant_gamma(code):
    """Return the value of gamma where it is constant."""
    return 2.0 if code == LOGISTIC else 1.0


@compiled(inline="always")
def label_slack(code, parameter, near, other, d):
    """Return how far centers may move before a row's label, or `gamma_is_constant`, can change.

    `near` and `other` are the row's distances to its own and the nearest other center. A distance
    is computed to within (d / 4 + 1) EPS of itself, now and whenever it is compared.
    """
    other = min(other, FAR)
    margin = (2 * d + 16) * EPS
    slack = (other - near) - (margin * (near + other) + TINY)
    if code == HUBER and near <= parameter:
        slack = min(slack, (parameter - near) - (margin * (near + parameter) + TINY))
    elif code == LOGISTIC and near >= FLAT * (1.0 - 1e-9):
        slack = min(slack, (near - FLAT) - (margin * (near + FLAT) + TINY))
    return slack


@compiled(inline="always")
def distance(row, center):
    """Return the squared distance of one row to a center."""
    total = 0.0
    for j in range(center.size):
        step = row[j] - center[j]
        total += step * step
    return total


@compiled(nogil=True)
def pairs(rows, x, row, k, n, r2):
    """Write the squared distances of n rows row[p] to their centers k[p] to r2.

    Four at a time: an addition must wait for the previous one of its own sum only.
    """
    for p in range(0, n - 3, 4):
        y0, y1, y2, y3 = rows[row[p]], rows[row[p + 1]], rows[row[p + 2]], rows[row[p + 3]]
        c0, c1, c2, c3 = x[k[p]], x[k[p + 1]], x[k[p + 2]], x[k[p + 3]]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(x.shape[1]):
            d0, d1, d2, d3 = y0[j] - c0[j], y1[j] - c1[j], y2[j] - c2[j], y3[j] - c3[j]
            s0 += d0 * d0
            s1 += d1 * d1
            s2 += d2 * d2
            s3 += d3 * d3
        r2[p], r2[p + 1], r2[p + 2], r2[p + 3] = s0, s1, s2, s3
    for p in range(n - n % 4, n):
        r2[p] = distance(rows[row[p]], x[k[p]])


@compiled(inline="always")
def load(rows, chosen, n, tile):
    """Transpose n chosen rows into `tile`, so that loops over rows access contiguous memory."""
    for r in range(n):
        row = chosen[r]
        for j in range(rows.shape[1]):
            tile[j, r] = rows[row, j]


@compiled(inline="always")
def load_range(rows, begin, n, tile):
    """Do what `load` does for n consecutive rows."""
    for r in range(n):
        for j in range(rows.shape[1]):
            tile[j, r] = rows[begin + r, j]


@compiled(inline="always")
def _score_four(tile, n, x, k, score):
    """Write the squared distances of n rows to the centers k to k + 3, reading each row once."""
    s0, s1, s2, s3 = score[0], score[1], score[2], score[3]
    s0[:], s1[:], s2[:], s3[:] = 0.0, 0.0, 0.0, 0.0
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
    """Write the squared distances of n rows to a center to `score`."""
    score[:] = 0.0
    for j in range(center.size):
        c = center[j]
        for r in range(n):
            step = tile[j, r] - c
            score[r] += step * step


@compiled(inline="always")
def _score_affine(tile, n, slope, offset, score):
    """Write offset - <slope, y> of n rows y to `score`."""
    score[:] = offset
    for j in range(slope.size):
        a = slope[j]
        for r in range(n):
            score[r] -= a * tile[j, r]


@compiled(nogil=True)
def two_nearest(tile, n, x, slope, offset, affine, score, best, second, label):
    """Write each row's lowest score, its label, and its second lowest score.

    Of equal scores the first is taken, as argmin does. `score`, (4, TILE) or larger, holds all
    scores afterwards if it has a line for each center.
    """
    best[:] = np.inf
    second[:] = np.inf
    label[:] = 0
    k = 0
    while k < x.shape[0]:
        scored = 1
        here = score[k:] if score.shape[0] >= x.shape[0] else score
        if affine:
            _score_affine(tile, n, slope[k], offset[k], here[0])
        elif k + 4 <= x.shape[0]:
            _score_four(tile, n, x, k, here)
            scored = 4
        else:
            _score_one(tile, n, x[k], here[0])
        for q in range(scored):
            for r in range(n):
                lower = here[q, r] < best[r]
                beaten = best[r] if lower else here[q, r]
                second[r] = beaten if beaten < second[r] else second[r]
                best[r] = here[q, r] if lower else best[r]
                label[r] = k + q if lower else label[r]
        k += scored
