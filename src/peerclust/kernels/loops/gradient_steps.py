"""Loops that move centers; `plain.centers` says what they compute. No row is read."""

from __future__ import annotations

import math

from peerclust.kernels.loops.compiling import compiled, inlined


@inlined
def sum_squares(v):
    """Return the sum of squares, as four partial sums that need not wait for each other.

    It is used for bounds and residuals, whose last bits do not matter.
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


@compiled()
def sum_neighbors(first, last, indptr, indices, x, total):
    """Sum x[j], (n,), over the neighbors j of users first to last, from zero, ascending."""
    for i in range(first, last):
        for e in range(x.shape[1]):
            total[i, e] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            for e in range(x.shape[1]):
                total[i, e] += x[indices[p], e]


@compiled()
def sum_halo(first, last, indptr, indices, own, messages, users, total):
    """Sum over neighbors of `users` first to last, some of which are on other ranks."""
    u, n = own.shape
    for t in range(first, last):
        i = users[t]
        if indptr[i] == indptr[i + 1]:
            for e in range(n):
                total[i, e] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j, from_zero = indices[p], p == indptr[i]
            message = own[j] if j < u else messages[j - u]
            if from_zero:
                for e in range(n):
                    total[i, e] = 0.0 + message[e]
            else:
                for e in range(n):
                    total[i, e] += message[e]


@compiled()
def sum_energies(first, last, indptr, indices, own, messages, users, total):
    """Sum ||x_i - x_j||^2 over the neighbors j of `users` first to last; see `sum_halo`."""
    u, n = own.shape
    for t in range(first, last):
        i = users[t]
        total[i, 0] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            for e in range(n):
                difference = own[i, e] - (own[j, e] if j < u else messages[j - u, e])
                total[i, 0] += difference * difference


@inlined
def step_size(step, H, degree):
    """Return the step of a center: the fixed alpha, or 1 / (H / rho + 2 c degree) if that is 0.

    The latter is the inverse of the curvature of a quadratic above J_rho: c degree |x|^2 - c <x,
    total> lies below twice its separable part. It is 0 for a center that nothing moves.
    """
    rho, alpha, factor = step
    if alpha > 0.0:
        return alpha
    curvature = H * (1.0 / rho) + 2.0 * factor * degree
    return 1.0 / curvature if curvature > 0.0 else 0.0


@compiled()
def gradient_step(first, last, x, s0, s1, H, neighbors, step, stiffness, results, scratch):
    """Move the centers x, (u, K d), of users first to last by one gradient step on J_rho."""
    total, degree = neighbors
    out, residual, alphas = results
    rho, _, factor = step
    n, K = x.shape[1], s0.shape[1]
    # A multiplication takes a tenth of the time of a division.
    inverse_rho = 1.0 / rho
    d = n // K
    gradient, cluster = scratch
    for i in range(first, last):
        for k in range(K):
            alphas[i, k] = step_size(step, H[i, k], degree[i])
        # One loop over all K d numbers: loops over a few features each would not be vectorized.
        for e in range(n):
            local = s0[i, cluster[e]] * x[i, e] - s1[i, e]
            difference = (degree[i] * x[i, e] - total[i, e]) * factor
            gradient[e] = local * inverse_rho + difference
            out[i, e] = x[i, e] - alphas[i, cluster[e]] * gradient[e]
        largest = 0.0
        for k in range(K):
            r2 = sum_squares(gradient[k * d : (k + 1) * d])
            far = rho * math.sqrt(r2) / stiffness[i, k]
            if not far <= largest and not math.isnan(largest):
                largest = far
        residual[i] = largest


@compiled()
def nesterov_extrapolate(first, last, y, stepped, x, t, softness, out, t_next, residual):
    """Extrapolate the centers of users first to last after a gradient step (Nesterov 1983)."""
    K, d = y.shape[1], y.shape[2]
    for i in range(first, last):
        largest = 0.0
        for k in range(K):
            uphill, length = 0.0, 0.0
            for j in range(d):
                step = stepped[i, k, j] - x[i, k, j]
                uphill += (y[i, k, j] - stepped[i, k, j]) * step
                length += step * step
            now = 1.0 if uphill > 0.0 else t[i, k]
            t_next[i, k] = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * now * now))
            momentum = (now - 1.0) / t_next[i, k]
            for j in range(d):
                out[i, k, j] = stepped[i, k, j] + momentum * (stepped[i, k, j] - x[i, k, j])
            shift = momentum * math.sqrt(length) * softness[i, k]
            if not shift <= largest and not math.isnan(largest):
                largest = shift
        residual[i] = largest


@compiled()
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
