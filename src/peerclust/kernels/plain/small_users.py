"""Functions of users with a handful of rows each, of which there may be millions."""

from __future__ import annotations

import numpy as np

from peerclust.kernels.arguments import SmallUsers
from peerclust.kernels.constants import KMEANS
from peerclust.kernels.plain.arrays import batches, offsets_within
from peerclust.kernels.plain.centers import gradient_step
from peerclust.kernels.plain.distances import (
    columns,
    find_lowest,
    gamma,
    measure_pairs,
    score_rows,
)


def assign_small(first, last, rows, offsets, members, x, row, labels):
    """Label the rows of the users `members`, first to last; return how many labels changed."""
    n_changed = 0
    for users, sizes, which in _some_rows(first, last, offsets, members, x[0].size):
        score = score_rows(columns(rows[which]), x[users], None, None, sizes)
        label, _ = find_lowest(score)
        n_changed += int(np.count_nonzero(labels[which] != label))
        labels[which] = label
    return n_changed


def sum_small(first, last, users, x, labels, s0, s1):
    """Sum the rows of members first to last by their current labels."""
    given = SmallUsers(*users)
    K, d = x.shape[1:]
    at = first
    for members, sizes, which in _some_rows(first, last, given.offsets, given.members, K * d):
        rows, k = given.rows[which], labels[which]
        w = given.weights[which] if given.weights.size else np.full(len(which), given.unit)
        if given.code != KMEANS:
            r2 = measure_pairs(rows, x[np.repeat(members, sizes), k])
            w = w * gamma(given.code, given.parameter, r2)
        cells = np.repeat(np.arange(len(members)) * K, sizes) + k
        n, end = len(members) * K, at + len(members)
        s0[at:end] = np.bincount(cells, weights=w, minlength=n).reshape(-1, K)
        index = (cells * d)[:, None] + np.arange(d)
        values = (w[:, None] * rows).ravel()
        s1[at:end] = np.bincount(index.ravel(), weights=values, minlength=n * d).reshape(-1, K, d)
        at = end


def small_gradient_step(first, last, users, x, labels, ratio, neighbors, step, stiffness, results):
    """Move the centers of users first to last as `gradient_step` does, to the last bit.

    Here x, total and out are (u, K, d), and all users of the block are members. H is the sum of
    w gamma times `ratio`.
    """
    u, K = x.shape[:2]
    (total, degree), (out, residual, alphas) = neighbors, results
    s0, s1 = np.zeros((u, K)), np.zeros(x.shape)
    sum_small(first, last, users, x, labels, s0, s1)
    gradient_step(
        first, last, x.reshape(u, -1), s0, s1.reshape(u, -1), ratio * s0,
        (total.reshape(u, -1), degree), step, stiffness, (out.reshape(u, -1), residual, alphas),
    )  # fmt: skip


def _some_rows(first, last, offsets, members, size):
    """Yield some users of `members` at a time, their numbers of rows, and the rows' indices."""
    for here in batches(last - first, 4 * size):
        users = members[first + here.start : first + here.stop]
        sizes = offsets[users + 1] - offsets[users]
        yield users, sizes, np.repeat(offsets[users], sizes) + offsets_within(sizes)
