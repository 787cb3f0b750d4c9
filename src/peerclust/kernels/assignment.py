"""Loops that measure every row against the centers, without any cache: assignment and sums."""

from __future__ import annotations

import numba
import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.distances import (
    GIVEN,
    KMEANS,
    PAD,
    TILE,
    gamma_of,
    load_range,
    pairs,
    two_nearest,
)
from peerclust.kernels.exact_sums import add_row, zero
from peerclust.kernels.row_data import weight_of


@compiled(["float64(int64, float64, float64)"], using=numba.vectorize)
def gamma(code, parameter, r2):
    """Return gamma of a built-in loss for an array of squared distances."""
    return gamma_of(code, parameter, r2)


@compiled(nogil=True)
def assign(first, last, data, chunks, x, slope, offset, labels, sums, changed):
    """Assign the rows of chunks first to last to their nearest centers and sum them by label.

    With an empty `slope` the nearest center has the least ||x_i(k) - y||^2. Otherwise it has the
    least affine score offset_i(k) - <slope_i(k), y>, which is a Bregman divergence up to a term
    without k. In the `sums` of w gamma and w gamma y, gamma is taken at a row's own center. With
    code GIVEN nothing is summed.
    """
    rows, weights, unit, code, parameter = data
    owner, start, stop = chunks
    none = np.empty(0)
    tile = np.zeros((x.shape[2], TILE + PAD))
    score = np.zeros((4, TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    affine = slope.size > 0
    for t in range(first, last):
        i = owner[t]
        n_changed = 0
        for k in range(x.shape[1]):
            zero(t, k, sums)
        for begin in range(start[t], stop[t], TILE):
            n = min(TILE, stop[t] - begin)
            load_range(rows, begin, n, tile)
            two_nearest(
                tile, n, x[i], slope[i] if affine else x[i], offset[i] if affine else none,
                affine, score, best, second, label,
            )  # fmt: skip
            for r in range(n):
                row, k = begin + r, label[r]
                n_changed += labels[row] != k
                labels[row] = k
                if code != GIVEN:
                    w = weight_of(weights, unit, row) * gamma_of(code, parameter, best[r])
                    add_row(rows, row, w, t, k, sums)
        changed[t] = n_changed


@compiled(nogil=True)
def gradient(first, last, data, chunks, x, labels, given, sums):
    """Sum the rows of chunks first to last by their current labels, as `assign` does.

    With code GIVEN the gamma of each row is read from `given`.
    """
    rows, weights, unit, code, parameter = data
    owner, start, stop = chunks
    chosen, r2 = np.empty(TILE, np.int64), np.ones(TILE)
    for t in range(first, last):
        for k in range(x.shape[1]):
            zero(t, k, sums)
        for begin in range(start[t], stop[t], TILE):
            n = min(TILE, stop[t] - begin)
            if code not in (KMEANS, GIVEN):
                for r in range(n):
                    chosen[r] = begin + r
                pairs(rows, x[owner[t]], chosen, labels[begin:], n, r2)
            for r in range(n):
                row, k = begin + r, labels[begin + r]
                w = weight_of(weights, unit, row)
                w *= given[row] if code == GIVEN else gamma_of(code, parameter, r2[r])
                add_row(rows, row, w, t, k, sums)


@compiled(nogil=True)
def own_distance2(first, last, rows, chunks, x, labels, r2):
    """Write each row's squared distance to its own center to r2; r2[0] is the first row's."""
    owner, start, stop = chunks
    origin = start[first]
    chosen = np.empty(TILE, np.int64)
    for t in range(first, last):
        for begin in range(start[t], stop[t], TILE):
            n = min(TILE, stop[t] - begin)
            for r in range(n):
                chosen[r] = begin + r
            pairs(rows, x[owner[t]], chosen, labels[begin:], n, r2[begin - origin :])


@compiled(nogil=True)
def nearest(first, last, rows, x, slope, offset, labels, r2):
    """Write the nearest of one set of centers (K, d) and its score (see `assign`) of each row."""
    affine = slope.size > 0
    tile = np.zeros((x.shape[1], TILE + PAD))
    score = np.zeros((4, TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    for begin in range(first, last, TILE):
        n = min(TILE, last - begin)
        load_range(rows, begin, n, tile)
        two_nearest(tile, n, x, slope if affine else x, offset, affine, score, best, second, label)
        for r in range(n):
            labels[begin + r], r2[begin + r] = label[r], best[r]


@compiled(nogil=True)
def nearest_other(first, last, rows, chunks, x, slope, offset, labels, others):
    """Write the nearest center of each row but its own, by the scores of `assign`, to `others`.

    Of equally near centers the first is taken. Without any other center it is the row's own.
    """
    owner, start, stop = chunks
    none, affine = np.empty(0), slope.size > 0
    tile = np.zeros((x.shape[2], TILE + PAD))
    score = np.zeros((max(x.shape[1], 4), TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    for t in range(first, last):
        i = owner[t]
        for begin in range(start[t], stop[t], TILE):
            n = min(TILE, stop[t] - begin)
            load_range(rows, begin, n, tile)
            two_nearest(
                tile, n, x[i], slope[i] if affine else x[i], offset[i] if affine else none,
                affine, score, best, second, label,
            )  # fmt: skip
            for r in range(n):
                own = labels[begin + r]
                other, least = own, np.inf
                for k in range(x.shape[1]):
                    if k != own and score[k, r] < least:
                        other, least = k, score[k, r]
                others[begin + r] = other


@compiled(nogil=True)
def distances2(first, last, rows, x, r2):
    """Write the squared distances of rows first to last to each of the centers x, (N, K)."""
    K = x.shape[0]
    none = np.empty(0)
    tile = np.zeros((x.shape[1], TILE + PAD))
    score = np.zeros((max(K, 4), TILE))
    best, second, label = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE, np.int32)
    for begin in range(first, last, TILE):
        n = min(TILE, last - begin)
        load_range(rows, begin, n, tile)
        two_nearest(tile, n, x, x, none, False, score, best, second, label)
        for r in range(n):
            for k in range(K):
                r2[begin + r, k] = score[k, r]
