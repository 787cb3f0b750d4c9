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
def descend(x, s0, s1, total, degree, first, last, rho, alpha, factor, out, size):
    """Move the centers of users first to last by a step of gradient descent on J_rho.

    Centers x, (u, K, d), are pulled by s0 x - s1; total and degree are those of the neighbors'
    centers: gradient = pull / rho + factor (degree x - total) and out = x - alpha gradient. Of the
    user's K gradients, size[i] is the largest norm, or NaN if one is.
    """
    gradient = np.empty(x.shape[2])
    for i in range(first, last):
        largest = 0.0
        for k in range(x.shape[1]):
            for j in range(x.shape[2]):
                pull = s0[i, k] * x[i, k, j] - s1[i, k, j]
                apart = (degree[i] * x[i, k, j] - total[i, k, j]) * factor
                gradient[j] = pull / rho + apart
                out[i, k, j] = x[i, k, j] - alpha * gradient[j]
            r2 = sum_squares(gradient)
            if not r2 <= largest and not math.isnan(largest):
                largest = r2
        size[i] = math.sqrt(largest)
