"""Loops over plain arrays, without centers: sums, products, hashes, gather and scatter."""

from __future__ import annotations

import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.row_data import weight_of


@compiled(nogil=True)
def weighted_sum(first, last, values, weights, unit, chunks, out):
    """Add the weighted values of chunks first to last to out[user]; values start at their first."""
    owner, start, stop = chunks
    origin = start[first]
    for t in range(first, last):
        total = 0.0
        for row in range(start[t], stop[t]):
            total += weight_of(weights, unit, row) * values[row - origin]
        out[owner[t]] += total


@compiled(nogil=True)
def all_in_box(x, low, high):
    """Return whether all rows of x (n, d) are in the box from low to high; NaN is outside."""
    for i in range(x.shape[0]):
        # No early exit within a row: only a loop without one is vectorized.
        inside = 0
        for j in range(x.shape[1]):
            inside += (low[j] <= x[i, j]) & (x[i, j] <= high[j])
        if inside < x.shape[1]:
            return False
    return True


@compiled(nogil=True)
def by_user(owner, parts, out):
    """Add the sums of chunks (chunks, K, ...) to out (users, K, ...), in ascending order."""
    flat, total = parts.reshape(parts.shape[0], -1), out.reshape(out.shape[0], -1)
    for t in range(owner.size):
        i = owner[t]
        for e in range(flat.shape[1]):
            total[i, e] += flat[t, e]


@compiled(nogil=True)
def matvec(v, matrix, out):
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
    """Write a 64-bit hash of each row's values to `out`: equal rows have equal hashes.

    A hash does not depend on where the row is. Each value's bits (with -0.0 taken as 0.0) are
    mixed in by a splitmix64 step.
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


@compiled(nogil=True)
def take(values, order, out):
    """Set out[i] = values[order[i]]; numpy would first convert a 32-bit `order` to 64 bits."""
    for i in range(order.size):
        out[i] = values[order[i]]


@compiled(nogil=True)
def scatter(values, order, out):
    """Set out[order[i]] = values[i]."""
    for i in range(order.size):
        out[order[i]] = values[i]
