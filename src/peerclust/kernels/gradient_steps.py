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
def sum_halo(indptr, indices, own, letters, users, first, last, total):
    """Add up, as `sum_neighbors`, what `users` first to last hear from here and from elsewhere.

    The neighbor j is own[j], (u, n), or from u on letters[j - u], whose first n numbers count.
    """
    u, n = own.shape
    for t in range(first, last):
        i = users[t]
        if indptr[i] == indptr[i + 1]:
            for e in range(n):
                total[i, e] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j, from_zero = indices[p], p == indptr[i]
            letter = own[j] if j < u else letters[j - u]
            if from_zero:
                for e in range(n):
                    total[i, e] = 0.0 + letter[e]
            else:
                for e in range(n):
                    total[i, e] += letter[e]


@compiled(nogil=True)
def sum_energies(indptr, indices, own, letters, users, first, last, total):
    """Add up ||x_i - x_j||^2 over the neighbors j of `users` first to last; see `sum_halo`."""
    u, n = own.shape
    for t in range(first, last):
        i = users[t]
        total[i, 0] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            j = indices[p]
            for e in range(n):
                apart = own[i, e] - (own[j, e] if j < u else letters[j - u, e])
                total[i, 0] += apart * apart


@compiled(nogil=True)
def gradient_step(x, s0, s1, total, degree, first, last, rho, alpha, factor, out, size):
    """Move the centers of users first to last by a step of gradient descent on J_rho.

    Centers x, (u, K d), are pulled by s0 x - s1; total and degree are those of the neighbors'
    centers: gradient = pull / rho + factor (degree x - total) and out = x - alpha gradient. Of the
    user's K gradients, size[i] is the largest norm, or NaN if one is.
    """
    n, K = x.shape[1], s0.shape[1]
    # A product takes a tenth of the time of a quotient.
    share = 1.0 / rho
    d = n // K
    gradient, cluster = np.empty(n), np.empty(n, np.int64)
    for e in range(n):
        cluster[e] = e // d
    for i in range(first, last):
        # In one stretch: loops over a few features each would be compiled to narrow instructions.
        for e in range(n):
            pull = s0[i, cluster[e]] * x[i, e] - s1[i, e]
            apart = (degree[i] * x[i, e] - total[i, e]) * factor
            gradient[e] = pull * share + apart
            out[i, e] = x[i, e] - alpha * gradient[e]
        largest = 0.0
        for k in range(K):
            r2 = sum_squares(gradient[k * d : (k + 1) * d])
            if not r2 <= largest and not math.isnan(largest):
                largest = r2
        size[i] = math.sqrt(largest)


@compiled(nogil=True)
def nesterov_extrapolate(y, stepped, x, t, first, last, out, later, far):
    """Carry the centers of users first to last on in the direction in which their steps went.

    A step led from y to stepped, the last one ended at x; all are (u, K, d). A center goes on by
    (t - 1) / later of stepped - x, t growing to `later`, (u, K), and begins anew, t = 1, if that
    leads uphill. far[i] is the longest way that a center of user i is carried.
    """
    K, d = y.shape[1], y.shape[2]
    for i in range(first, last):
        longest = 0.0
        for k in range(K):
            uphill, length = 0.0, 0.0
            for j in range(d):
                went = stepped[i, k, j] - x[i, k, j]
                uphill += (y[i, k, j] - stepped[i, k, j]) * went
                length += went * went
            now = 1.0 if uphill > 0.0 else t[i, k]
            later[i, k] = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * now * now))
            share = (now - 1.0) / later[i, k]
            for j in range(d):
                out[i, k, j] = stepped[i, k, j] + share * (stepped[i, k, j] - x[i, k, j])
            way = share * math.sqrt(length)
            if not way <= longest and not math.isnan(longest):
                longest = way
        far[i] = longest
