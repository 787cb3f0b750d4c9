"""Loops over users with a handful of rows each, of which there may be millions.

Only the labels of their rows are stored: summing the rows again costs less than reading cached
sums. The fields of `SmallUsers` are arguments of their own; `row` has d numbers or none.
"""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.constants import KMEANS
from peerclust.kernels.loops.compiling import compiled, inlined
from peerclust.kernels.loops.distances import gamma_of, weight_of
from peerclust.kernels.loops.gradient_steps import step_size, sum_squares


@inlined
def _distance(rows, r, x, i, k, d):
    """Return the squared distance of a row to center k of user i."""
    r2 = 0.0
    for j in range(d):
        step = rows[r, j] - x[i, k, j]
        r2 += step * step
    return r2


@inlined
def _sum(users, i, x, labels, d, s0, s1):
    """Sum the rows of user i by their labels, in their order."""
    _, offsets, _, rows, weights, unit, code, parameter = users
    for k in range(x.shape[1]):
        s0[k] = 0.0
        for j in range(d):
            s1[k, j] = 0.0
    for r in range(offsets[i], offsets[i + 1]):
        k = labels[r]
        w = weight_of(weights, unit, r)
        if code != KMEANS:
            w *= gamma_of(code, parameter, _distance(rows, r, x, i, k, d))
        s0[k] += w
        for j in range(d):
            s1[k, j] += w * rows[r, j]


@compiled()
def assign_small(first, last, rows, offsets, members, x, row, labels):
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


@compiled()
def sum_small(first, last, users, x, labels, s0, s1):
    """Sum the rows of members first to last by their current labels."""
    d = len(users[2]) if len(users[2]) > 0 else x.shape[2]
    for t in range(first, last):
        _sum(users, users[0][t], x, labels, d, s0[t], s1[t])


@compiled()
def small_gradient_step(
    first, last, users, x, labels, ratio, neighbors, step, stiffness, results, scratch
):
    """Move the centers of users first to last as `gradient_step` does, to the last bit."""
    total, degree = neighbors
    out, residual, alphas = results
    s0, s1, gradient = scratch
    rho, _, factor = step
    K, d, inverse_rho = x.shape[1], len(users[2]) if len(users[2]) > 0 else x.shape[2], 1.0 / rho
    for i in range(first, last):
        _sum(users, i, x, labels, d, s0, s1)
        largest = 0.0
        for k in range(K):
            alpha = step_size(step, ratio * s0[k], degree[i])
            alphas[i, k] = alpha
            for j in range(d):
                local = s0[k] * x[i, k, j] - s1[k, j]
                difference = (degree[i] * x[i, k, j] - total[i, k, j]) * factor
                gradient[j] = local * inverse_rho + difference
            # In a loop of its own: a loop with more arrays would not be vectorized.
            for j in range(d):
                out[i, k, j] = x[i, k, j] - alpha * gradient[j]
            far = rho * math.sqrt(sum_squares(gradient)) / stiffness[i, k]
            if not far <= largest and not math.isnan(largest):
                largest = far
        residual[i] = largest
