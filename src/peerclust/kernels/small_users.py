"""Loops over users with a handful of rows each, of which there may be millions.

Only the labels of their rows are stored: summing the rows again costs less than reading cached
sums. `row` is a tuple of d numbers, or an empty one. A loop is compiled for each length of it, so
that the number of features is a constant.
"""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.distances import KMEANS, gamma_of
from peerclust.kernels.gradient_steps import sum_squares


@compiled(inline="always")
def _distance(rows, r, x, i, k, d):
    """Return the squared distance of a row to center k of user i."""
    r2 = 0.0
    for j in range(d):
        step = rows[r, j] - x[i, k, j]
        r2 += step * step
    return r2


@compiled(inline="always")
def _sum(rows, weights, unit, first, last, x, i, labels, code, parameter, d, s0, s1):
    """Sum the rows first to last of user i by their labels, in their order."""
    for k in range(x.shape[1]):
        s0[k] = 0.0
        for j in range(d):
            s1[k, j] = 0.0
    for r in range(first, last):
        k = labels[r]
        w = weights[r] if weights.size > 0 else unit
        if code != KMEANS:
            w *= gamma_of(code, parameter, _distance(rows, r, x, i, k, d))
        s0[k] += w
        for j in range(d):
            s1[k, j] += w * rows[r, j]


@compiled(nogil=True)
def assign_small(rows, offsets, members, first, last, x, row, labels):
    """Label the rows of the users `members`, first to last; return how many labels changed."""
    K, d = x.shape[1], len(row) if len(row) > 0 else x.shape[2]
    n_changed = 0
    for t in range(first, last):
        i = members[t]
        for r in range(offsets[i], offsets[i + 1]):
            best, label = np.inf, 0
            for k in range(K):
                r2 = _distance(rows, r, x, i, k, d)
                lower = r2 < best
                best, label = r2 if lower else best, k if lower else label
            n_changed += labels[r] != label
            labels[r] = label
    return n_changed


@compiled(nogil=True)
def sum_small(
    rows, weights, unit, offsets, members, first, last, x, code, parameter, row, labels, s0, s1
):
    """Sum the rows of the users `members`, first to last, by their current labels."""
    d = len(row) if len(row) > 0 else x.shape[2]
    for t in range(first, last):
        i = members[t]
        _sum(
            rows, weights, unit, offsets[i], offsets[i + 1], x, i, labels, code, parameter, d,
            s0[t], s1[t],
        )  # fmt: skip


@compiled(nogil=True)
def small_gradient_step(
    rows, weights, unit, offsets, first, last, x, code, parameter, row, labels,
    total, degree, rho, alpha, factor, out, size,
):  # fmt: skip
    """Move the centers of users first to last as `gradient_step` does, to the last bit.

    Here x, total and out are (u, K, d).
    """
    K, d = x.shape[1], len(row) if len(row) > 0 else x.shape[2]
    s0, s1, gradient, inverse_rho = np.empty(K), np.empty((K, d)), np.empty(d), 1.0 / rho
    nothing = np.zeros(d)
    for i in range(first, last):
        has_rows = offsets[i] < offsets[i + 1]
        if has_rows:
            _sum(
                rows, weights, unit, offsets[i], offsets[i + 1], x, i, labels, code, parameter, d,
                s0, s1,
            )  # fmt: skip
        largest = 0.0
        for k in range(K):
            weight, weighted = (s0[k], s1[k]) if has_rows else (0.0, nothing)
            for j in range(d):
                local = weight * x[i, k, j] - weighted[j]
                difference = (degree[i] * x[i, k, j] - total[i, k, j]) * factor
                gradient[j] = local * inverse_rho + difference
            # In a loop of its own: a loop with more arrays would not be vectorized.
            for j in range(d):
                out[i, k, j] = x[i, k, j] - alpha * gradient[j]
            r2 = sum_squares(gradient)
            if not r2 <= largest and not math.isnan(largest):
                largest = r2
        size[i] = math.sqrt(largest)
