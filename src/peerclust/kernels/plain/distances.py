"""Gamma, and the distances of rows to centers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from peerclust.arrays import Array
from peerclust.kernels.constants import (
    FAIR,
    HALVES,
    HUBER,
    LN2_HIGH,
    LN2_LOW,
    LOG2E,
    LOGISTIC,
    SERIES,
    SERIES_END,
)
from peerclust.kernels.plain.arrays import batches

# With fewer features a matrix product does not pay.
MIN_ROUGH = 4


def _exp_minus(t):
    """Return exp(-t) for t >= 0, or exp(-40) beyond 40 and for NaN."""
    t = np.where(t < 40.0, t, 40.0)
    whole = (t * LOG2E + 0.5).astype(np.uint64)
    n = whole.astype(np.float64)
    s = (n * LN2_HIGH - t) + n * LN2_LOW
    total = s * SERIES_END
    for c in SERIES:
        total = (total + c) * s
    return (1.0 + total) * HALVES[whole]


def gamma(code: int, parameter: float, r2: ArrayLike) -> Array:
    """Return gamma of a built-in loss for squared distances, where grad f = gamma (x - y)."""
    r2 = np.asarray(r2, dtype=np.float64)
    value: Array = np.ones(r2.shape)
    with np.errstate(all="ignore"):
        if code == HUBER:
            # r <= delta, not r2 <= delta^2, which may overflow; and no division by r = 0
            r = np.sqrt(r2)
            near = r <= parameter
            value = np.where(near, 1.0, parameter / np.where(near, 1.0, r))
        elif code == LOGISTIC:
            value = np.where(np.isnan(r2), r2, 2.0 / (1.0 + _exp_minus(r2)))
        elif code == FAIR:
            value = np.asarray(4.0 * parameter * (r2 / (parameter + r2)))
    return value[()]


def columns(rows):
    """Return rows (n, d) transposed, (d, n), in float64."""
    return np.ascontiguousarray(rows.T, dtype=np.float64)


def score_rows(y, x, slope, offset, sizes):
    """Return the scores of rows y (d, n) for the centers of their users, (K, n).

    These are the next sizes[i] rows for the centers x[i] of (b, K, d). A score is the squared
    distance, or offset[i, k] - <slope[i, k], y> if `slope` is not None.
    """
    affine = slope is not None
    by_feature = np.ascontiguousarray((slope if affine else x).transpose(2, 1, 0))
    one = len(x) == 1
    score = np.zeros((x.shape[1], y.shape[1]))
    if affine:
        score[:] = offset.T if one else np.repeat(offset.T, sizes, axis=1)
    for j in range(len(y)):
        c = by_feature[j] if one else np.repeat(by_feature[j], sizes, axis=1)
        if affine:
            score -= c * y[j]
        else:
            step = y[j] - c
            step *= step
            score += step
    return score


def find_lowest(score):
    """Return the label of each row's lowest score (K, n), the first of equal ones, and the score.

    A NaN is never the lowest; without any finite score the label is 0.
    """
    best, label = np.fmin.reduce(score, axis=0), np.zeros(score.shape[1], np.int32)
    for k in range(len(score) - 1, -1, -1):
        np.copyto(label, k, where=score[k] == best)
    none = ~(best < np.inf)
    if none.any():
        label[none], best[none] = 0, np.inf
    return label, best


def product_margin(d: int, reach: Array) -> Array:
    """Return by how much ||x||^2 - 2 <x, y> must differ for two centers x to tell the nearer one.

    `reach` is at least ||x|| + ||y||, and d the number of features. A sum of n products is wrong by
    less than n 2^-53 times the sum of their magnitudes; here are two such sums, with room for a few
    more operations, and for the rounding of the bound itself.
    """
    return np.asarray(2.0**-49 * (d + 8) * reach * reach + 1e-300)


def nearest_of_one(rows, x):
    """Return the label of the nearest of the centers x (K, d) for each of the rows (n, d).

    By ||x - y||^2 - ||y||^2 = ||x||^2 - 2 <x, y>, a matrix product, most labels are certain, up to
    a bound on the rounding errors of both sides. Only the other rows are measured.
    """
    (n, d), K = rows.shape, len(x)
    squares = (x * x).sum(axis=1)
    labels = np.empty(n, np.int32)
    # For larger products BLAS would wake threads, while other threads do the same.
    for here in batches(n, min(K * d // 8 + 1, 16)):
        y = np.asarray(rows[here], dtype=np.float64)
        score = x @ y.T
        score *= -2.0
        score += squares[:, None]
        label, best = find_lowest(score)
        score[label, np.arange(len(y))] = np.inf
        # Not more than sqrt(d) times the largest value.
        far = np.abs(y).max() * np.sqrt(d) + np.sqrt(squares.max())
        margin = product_margin(d, far)
        unsure = np.flatnonzero(~(score.min(axis=0) - best > margin))
        if len(unsure):
            exact = score_rows(columns(y[unsure]), x[None], None, None, None)
            label[unsure] = find_lowest(exact)[0]
        labels[here] = label
    return labels


def measure_pairs(rows, centers):
    """Return the squared distances of rows (n, d) to their own centers (n, d)."""
    step = rows - centers
    step *= step
    total = np.zeros(len(rows))
    for j in range(rows.shape[1]):
        total += step[:, j]
    return total
