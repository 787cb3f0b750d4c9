"""The loops that move centers; no row is read here."""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.compiling import compiled


@compiled(inline="always")
def sum_squares(v):
    """Give the sum of squares; four sums at a time, as an addition waits for the last of its own.

    It goes into bounds and residuals, whose last bits do not matter.
    """
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    end = v.size - v.size % 4
    for j in range(0, end, 4):
        a += v[j] * v[j]
        b += v[j + 1] * v[j + 1]
        c += v[j + 2] * v[j + 2]
        d += v[j + 3] * v[j + 3]
    for j in range(end, v.size):
        a += v[j] * v[j]
    return (a + b) + (c + d)


@compiled(nogil=True)
def sum_neighbors(indptr, indices, x, first, last, total):
    """Add up x[j], (n,), of the neighbors j of users first to last, from zero, ascending."""
    for i in range(first, last):
        for e in range(x.shape[1]):
            total[i, e] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            for e in range(x.shape[1]):
                total[i, e] += x[indices[p], e]


@compiled(nogil=True)
def descend(x, s0, s1, total, degree, first, last, rho, alpha, factor, out, size):
    """Move the centers of users first to last by a step of gradient descent on J_rho.

    Centers x, (u, K d), are pulled by s0 x - s1; total and degree are those of the neighbors'
    centers: gradient = pull / rho + factor (degree x - total) and out = x - alpha gradient. Of the
    user's K gradients, size[i] is the largest norm, or NaN if one is.
    """
    n, K = x.shape[1], s0.shape[1]
    d = n // K
    gradient, cluster = np.empty(n), np.empty(n, np.int64)
    for e in range(n):
        cluster[e] = e // d
    for i in range(first, last):
        # In one stretch: loops over a few features each would be compiled to narrow instructions.
        for e in range(n):
            pull = s0[i, cluster[e]] * x[i, e] - s1[i, e]
            apart = (degree[i] * x[i, e] - total[i, e]) * factor
            gradient[e] = pull / rho + apart
            out[i, e] = x[i, e] - alpha * gradient[e]
        largest = 0.0
        for k in range(K):
            r2 = sum_squares(gradient[k * d : (k + 1) * d])
            if not r2 <= largest and not math.isnan(largest):
                largest = r2
        size[i] = math.sqrt(largest)
