"""Distances of rows to centers, gamma, weights and slack."""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.constants import (
    EPS,
    FAIR,
    FAR,
    FLAT,
    FLAT2,
    HALVES,
    HUBER,
    KMEANS,
    LN2_HIGH,
    LN2_LOW,
    LOG2E,
    LOGISTIC,
    SERIES,
    SERIES_END,
    TINY,
)
from peerclust.kernels.loops.compiling import inlined, inner


@inlined
def weight_of(weights, unit, row):
    """Return the weight of a row."""
    return weights[row] if weights.size > 0 else unit


@inlined
def _exp_minus(t):
    """Return exp(-t) for t >= 0, or exp(-40) beyond 40, in operations that can be vectorized.

    t = n log 2 - s with |s| <= log(2) / 2, and exp(s) by its series.
    """
    t = t if t < 40.0 else 40.0
    n = np.uint64(t * LOG2E + 0.5)
    s = (n * LN2_HIGH - t) + n * LN2_LOW
    total = s * SERIES_END
    for c in SERIES:
        total = (total + c) * s
    return (1.0 + total) * HALVES[n]


@inlined
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


@inner()
def weigh(weights, unit, code, parameter, n, r2):
    """Replace n squared distances by weight times gamma; `parameter` is None if gamma is 1.

    With code GIVEN they are gamma already.
    """
    if parameter is None:
        for r in range(n):
            r2[r] = weights[r] if weights.size > 0 else unit
    else:
        if code == FAIR:
            for r in range(n):
                r2[r] = gamma_of(FAIR, parameter, r2[r])
        elif code == LOGISTIC:
            for r in range(n):
                r2[r] = gamma_of(LOGISTIC, parameter, r2[r])
        elif code == HUBER:
            for r in range(n):
                r2[r] = gamma_of(HUBER, parameter, r2[r])
        elif code == KMEANS:
            for r in range(n):
                r2[r] = 1.0
        for r in range(n):
            r2[r] *= weights[r] if weights.size > 0 else unit


@inlined
def gamma_is_constant(code, parameter, r2):
    """Return whether gamma is constant around this distance; see `constant_gamma`."""
    if code == HUBER:
        return math.sqrt(r2) <= parameter
    if code == LOGISTIC:
        return r2 >= FLAT2
    return code == KMEANS


@inlined
def constant_gamma(code):
    """Return the value of gamma where it is constant."""
    return 2.0 if code == LOGISTIC else 1.0


@inlined
def slack_of_label(near, other, d):
    """Return how far centers may move before a row's label can change.

    `near` and `other` are the row's distances to its own and the nearest other center. A distance
    is computed to within (d / 4 + 1) EPS of itself, now and whenever it is compared.
    """
    other = min(other, FAR)
    return (other - near) - ((2 * d + 16) * EPS * (near + other) + TINY)


@inlined
def slack_of_gamma(code, parameter, near, d):
    """Return how far centers may move before `gamma_is_constant` can change, for such a row."""
    margin = (2 * d + 16) * EPS
    if code == HUBER and near <= parameter:
        return (parameter - near) - (margin * (near + parameter) + TINY)
    if code == LOGISTIC and near >= FLAT * (1.0 - 1e-9):
        return (near - FLAT) - (margin * (near + FLAT) + TINY)
    return FAR


@inlined
def distance(row, center):
    """Return the squared distance of one row to a center."""
    total = 0.0
    for j in range(center.size):
        step = row[j] - center[j]
        total += step * step
    return total


@inner()
def pairs(rows, x, chosen, labels, n, r2):
    """Write the squared distances of the first n chosen rows to their own centers to r2.

    Four at a time: an addition must wait for the previous one of its own sum only.
    """
    p = 0
    while p + 4 <= n:
        y0, y1 = rows[chosen[p]], rows[chosen[p + 1]]
        y2, y3 = rows[chosen[p + 2]], rows[chosen[p + 3]]
        c0, c1 = x[labels[chosen[p]]], x[labels[chosen[p + 1]]]
        c2, c3 = x[labels[chosen[p + 2]]], x[labels[chosen[p + 3]]]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(x.shape[1]):
            d0, d1, d2, d3 = y0[j] - c0[j], y1[j] - c1[j], y2[j] - c2[j], y3[j] - c3[j]
            s0 += d0 * d0
            s1 += d1 * d1
            s2 += d2 * d2
            s3 += d3 * d3
        r2[p], r2[p + 1], r2[p + 2], r2[p + 3] = s0, s1, s2, s3
        p += 4
    while p < n:
        r2[p] = distance(rows[chosen[p]], x[labels[chosen[p]]])
        p += 1


@inner()
def load(rows, chosen, n, tile):
    """Transpose n chosen rows into `tile`, so that loops over rows access contiguous memory."""
    for r in range(n):
        row = chosen[r]
        for j in range(rows.shape[1]):
            tile[j, r] = rows[row, j]


@inlined
def _score_four(tile, n, x, k, score):
    """Write the squared distances of n rows to the centers k to k + 3, reading each row once."""
    s0, s1, s2, s3 = score[0], score[1], score[2], score[3]
    for r in range(n):
        s0[r], s1[r], s2[r], s3[r] = 0.0, 0.0, 0.0, 0.0
    for j in range(x.shape[1]):
        c0, c1, c2, c3 = x[k, j], x[k + 1, j], x[k + 2, j], x[k + 3, j]
        for r in range(n):
            y = tile[j, r]
            d0, d1, d2, d3 = y - c0, y - c1, y - c2, y - c3
            s0[r] += d0 * d0
            s1[r] += d1 * d1
            s2[r] += d2 * d2
            s3[r] += d3 * d3


@inner()
def two_nearest(tile, n, x, slope, offset, score, best, second, label):
    """Write each row's lowest score, its label, and its second lowest score.

    Scores are squared distances, or offset[k] - <slope[k], y> if `slope` is not None. Of equal
    scores the first is taken, as argmin does. `score`, (4, TILE) or larger, holds all scores
    afterwards if it has a line for each center.
    """
    for r in range(n):
        best[r], second[r], label[r] = np.inf, np.inf, 0
    k = 0
    while k < x.shape[0]:
        scored = 1
        here = score[k if score.shape[0] >= x.shape[0] else 0 :]
        line = here[0]
        if slope is not None:
            for r in range(n):
                line[r] = offset[k]
            for j in range(x.shape[1]):
                c = slope[k, j]
                for r in range(n):
                    line[r] -= c * tile[j, r]
        elif k + 4 <= x.shape[0]:
            _score_four(tile, n, x, k, here)
            scored = 4
        else:
            for r in range(n):
                line[r] = 0.0
            for j in range(x.shape[1]):
                c = x[k, j]
                for r in range(n):
                    step = tile[j, r] - c
                    line[r] += step * step
        for q in range(scored):
            line = here[q]
            for r in range(n):
                lower = line[r] < best[r]
                beaten = best[r] if lower else line[r]
                second[r] = beaten if beaten < second[r] else second[r]
                best[r] = line[r] if lower else best[r]
                label[r] = k + q if lower else label[r]
        k += scored
