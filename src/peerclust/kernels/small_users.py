"""Loops over users with a handful of rows each, of which there may be millions.

Only the labels of their rows are stored: summing the rows again costs less than reading cached
sums. `row` is a tuple of d numbers, or an empty one. A loop is compiled for each length of it, so
that the number of features is a constant.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from peerclust.arrays import Array, Ints, Rows
from peerclust.kernels.compiling import compiled
from peerclust.kernels.distances import KMEANS, gamma_of
from peerclust.kernels.gradient_steps import step_size, sum_squares
from peerclust.kernels.row_data import weight_of


class SmallUsers(NamedTuple):
    """The users `members`, (n,), and what is fixed about them.

    User i has rows offsets[i] to offsets[i + 1] of the block; `row` is explained above. The other
    fields are those of `RowData`.
    """

    members: Ints
    offsets: Ints
    row: tuple[float, ...]
    rows: Rows
    weights: Array
    unit: float
    code: int
    parameter: float


@compiled(inline="always")
def _distance(rows, r, x, i, k, d):
    """Return the squared distance of a row to center k of user i."""
    r2 = 0.0
    for j in range(d):
        step = rows[r, j] - x[i, k, j]
        r2 += step * step
    return r2


@compiled(inline="always")
def _sum(users, i, x, labels, d, s0, s1):
    """Sum the rows of user i by their labels, in their order."""
    rows, weights, unit = users.rows, users.weights, users.unit
    code, parameter = users.code, users.parameter
    for k in range(x.shape[1]):
        s0[k] = 0.0
        for j in range(d):
            s1[k, j] = 0.0
    for r in range(users.offsets[i], users.offsets[i + 1]):
        k = labels[r]
        w = weight_of(weights, unit, r)
        if code != KMEANS:
            w *= gamma_of(code, parameter, _distance(rows, r, x, i, k, d))
        s0[k] += w
        for j in range(d):
            s1[k, j] += w * rows[r, j]


@compiled(nogil=True)
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


@compiled(nogil=True)
def sum_small(first, last, users, x, labels, s0, s1):
    """Sum the rows of members first to last by their current labels."""
    users = SmallUsers(*users)
    d = len(users.row) if len(users.row) > 0 else x.shape[2]
    for t in range(first, last):
        _sum(users, users.members[t], x, labels, d, s0[t], s1[t])


@compiled(nogil=True)
def small_gradient_step(first, last, users, x, labels, ratio, neighbors, step, stiffness, results):
    """Move the centers of users first to last as `gradient_step` does, to the last bit.

    Here x, total and out are (u, K, d), and all users of the block are members. H is the sum of
    w gamma times `ratio`.
    """
    users = SmallUsers(*users)
    offsets = users.offsets
    total, degree = neighbors
    out, residual, alphas = results
    rho, _, factor = step
    K, d = x.shape[1], len(users.row) if len(users.row) > 0 else x.shape[2]
    s0, s1, gradient, inverse_rho = np.empty(K), np.empty((K, d)), np.empty(d), 1.0 / rho
    nothing = np.zeros(d)
    for i in range(first, last):
        has_rows = offsets[i] < offsets[i + 1]
        if has_rows:
            _sum(users, i, x, labels, d, s0, s1)
        largest = 0.0
        for k in range(K):
            weight, weighted = (s0[k], s1[k]) if has_rows else (0.0, nothing)
            alpha = step_size(step, ratio * weight, degree[i])
            alphas[i, k] = alpha
            for j in range(d):
                local = weight * x[i, k, j] - weighted[j]
                difference = (degree[i] * x[i, k, j] - total[i, k, j]) * factor
                gradient[j] = local * inverse_rho + difference
            # In a loop of its own: a loop with more arrays would not be vectorized.
            for j in range(d):
                out[i, k, j] = x[i, k, j] - alpha * gradient[j]
            far = rho * math.sqrt(sum_squares(gradient)) / stiffness[i, k]
            if not far <= largest and not math.isnan(largest):
                largest = far
        residual[i] = largest
