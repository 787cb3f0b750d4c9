"""The compiled loops: arrays in, arrays out. No classes, no checks, no threads of their own.

Every loop that reads rows works on *tasks*: task t is the stretch of rows start[t] to stop[t] of
user owner[t], never longer than `SEGMENT` rows and always counted from the user's own first row.
A task sums into a place of its own, so what comes out depends neither on which users share a block
nor on how many threads share the tasks. All loops release the GIL.

No loop may reorder or fuse its floating-point operations (numba's `fastmath` stays off): a squared
distance is the plain sum over features, first to last, wherever it is computed.
"""

from __future__ import annotations

import math

import numba
import numpy as np

SEGMENT = 8192
TILE = 64
# A tile's lines are this much longer than a power of two, so that they do not share cache sets.
PAD = 8

KMEANS, HUBER, LOGISTIC, FAIR, GIVEN = 0, 1, 2, 3, 4


def compiled(*signatures, using=numba.njit, **options):
    """Compile a loop, and keep it on disk where a place for that can be found."""

    def compile_loop(loop):
        try:
            return using(*signatures, cache=True, **options)(loop)
        except RuntimeError:  # no folder that may be written to
            return using(*signatures, **options)(loop)

    return compile_loop


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
def _load(rows, first, n, tile):
    """Turn n rows into columns, so that the loops over them run over neighboring numbers."""
    for r in range(n):
        for j in range(rows.shape[1]):
            tile[j, r] = rows[first + r, j]


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
def _find_lowest(tile, n, x, slope, offset, affine, score, best, label):
    """Give each row's lowest score over the centers; of equal ones the first, as argmin does."""
    best[:] = np.inf
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
                best[r] = score[q, r] if lower else best[r]
                label[r] = k + q if lower else label[r]
        k += scored


@compiled(nogil=True)
def assign(
    rows, weights, unit, owner, start, stop, first, last, x, slope, offset, code, parameter,
    labels, s0, s1, changed,
):  # fmt: skip
    """Assign the rows of tasks first to last to their nearest centers and sum them up.

    With an empty `slope` nearest means the least ||x_i(k) - y||^2; else the least affine score
    offset_i(k) - <slope_i(k), y>, which is what a Bregman divergence comes to. A row counts with
    its weight (`unit` where there are no `weights`) times gamma at its own center:
    s0[t, k] = sum w gamma, s1[t, k] = sum w gamma y. With code GIVEN nothing is summed.
    """
    d = x.shape[2]
    none = np.empty(0)
    tile = np.zeros((d, TILE + PAD))
    score = np.zeros((4, TILE))
    best = np.zeros(TILE)
    label = np.zeros(TILE, np.int32)
    weighted = weights.size > 0
    affine = slope.size > 0
    for t in range(first, last):
        i = owner[t]
        moved = 0
        for begin in range(start[t], stop[t], TILE):
            n = min(TILE, stop[t] - begin)
            _load(rows, begin, n, tile)
            _find_lowest(
                tile, n, x[i], slope[i] if affine else x[i], offset[i] if affine else none,
                affine, score, best, label,
            )  # fmt: skip
            for r in range(n):
                row = begin + r
                k = label[r]
                if labels[row] != k:
                    labels[row] = k
                    moved += 1
                if code != GIVEN:
                    w = weights[row] if weighted else unit
                    w *= _gamma(code, parameter, best[r])
                    s0[t, k] += w
                    for j in range(d):
                        s1[t, k, j] += w * rows[row, j]
        changed[t] = moved


@compiled(nogil=True)
def pull(
    rows, weights, unit, owner, start, stop, first, last, x, labels, code, parameter, given, s0, s1
):
    """Sum the rows of tasks first to last into s0 and s1 by the labels they have.

    With code GIVEN the gamma of each row is read from `given`.
    """
    d = x.shape[2]
    weighted = weights.size > 0
    for t in range(first, last):
        i = owner[t]
        for row in range(start[t], stop[t]):
            k = labels[row]
            w = weights[row] if weighted else unit
            if code == GIVEN:
                w *= given[row]
            elif code != KMEANS:
                w *= _gamma(code, parameter, _distance(rows[row], x[i, k]))
            s0[t, k] += w
            for j in range(d):
                s1[t, k, j] += w * rows[row, j]


@compiled(nogil=True)
def own_r2(rows, owner, start, stop, first, last, x, labels, r2):
    """Give each row's squared distance to its own center; r2[0] is the first row's."""
    origin = start[first]
    for t in range(first, last):
        i = owner[t]
        for row in range(start[t], stop[t]):
            r2[row - origin] = _distance(rows[row], x[i, labels[row]])


@compiled(nogil=True)
def nearest(rows, first, last, x, slope, offset, labels, r2):
    """Give the nearest of one set of centers (K, d) and its score (see `assign`), row by row."""
    affine = slope.size > 0
    tile = np.zeros((x.shape[1], TILE + PAD))
    score = np.zeros((4, TILE))
    best = np.zeros(TILE)
    label = np.zeros(TILE, np.int32)
    for begin in range(first, last, TILE):
        n = min(TILE, last - begin)
        _load(rows, begin, n, tile)
        _find_lowest(tile, n, x, slope if affine else x, offset, affine, score, best, label)
        labels[begin : begin + n] = label[:n]
        r2[begin : begin + n] = best[:n]


@compiled(nogil=True)
def weighted_sum(values, weights, unit, owner, start, stop, first, last, out):
    """Add the weighted values of tasks first to last to out[user]; values[0] is the first row's."""
    origin = start[first]
    for t in range(first, last):
        total = 0.0
        for row in range(start[t], stop[t]):
            w = weights[row] if weights.size > 0 else unit
            total += w * values[row - origin]
        out[owner[t]] += total


@compiled(nogil=True)
def by_user(owner, parts, out):
    """Add the tasks' sums (tasks, K, ...) to out (users, K, ...), in ascending order."""
    flat, total = parts.reshape(parts.shape[0], -1), out.reshape(out.shape[0], -1)
    for t in range(owner.size):
        i = owner[t]
        for e in range(flat.shape[1]):
            total[i, e] += flat[t, e]


@compiled(nogil=True)
def times(v, matrix, out):
    """Multiply each row vector of v (n, d) by matrix[i % len(matrix)] (d, d), in a fixed order."""
    n, d = v.shape
    for i in range(n):
        a = matrix[i % matrix.shape[0]]
        for j in range(d):
            total = 0.0
            for e in range(d):
                total += v[i, e] * a[e, j]
            out[i, j] = total


@compiled(nogil=True)
def hashes(rows, out):
    """Give a 64-bit hash of each row's values: equal rows have equal hashes, whatever their order.

    Each value's bits (with -0.0 taken as 0.0) are mixed in by a splitmix64 step.
    """
    n, d = rows.shape
    value = np.zeros(1)
    bits = value.view(np.uint64)
    for r in range(n):
        h = np.uint64(0x9E3779B97F4A7C15)
        for j in range(d):
            value[0] = rows[r, j] + 0.0
            h = (h ^ bits[0]) * np.uint64(0xBF58476D1CE4E5B9)
            h = (h ^ (h >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
            h ^= h >> np.uint64(29)
        out[r] = h
