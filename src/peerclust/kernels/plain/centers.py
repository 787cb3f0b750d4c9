"""Functions that move centers: sums over neighbors, gradient step, extrapolation."""

from __future__ import annotations

import numpy as np

from peerclust.kernels.plain.arrays import batches, offsets_within


def sum_squares(v):
    """Return the sums of squares over the last axis, as four partial sums each."""
    lanes = [np.zeros(v.shape[:-1]) for _ in range(4)]
    end = v.shape[-1] - v.shape[-1] % 4
    for j in range(v.shape[-1]):
        lanes[j % 4 if j < end else 0] += v[..., j] * v[..., j]
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


def sum_neighbors(first, last, indptr, indices, x, total):
    """Sum x[j], (n,), over the neighbors j of users first to last, from zero, ascending."""
    none = x[:0]
    sum_halo(first, last, indptr, indices, x, none, np.arange(last), total)


def sum_halo(first, last, indptr, indices, own, messages, users, total):
    """Sum over neighbors as `sum_neighbors` does, for `users` first to last, some on other ranks.

    The value of neighbor j is own[j], (u, n), if j < u, else the first n numbers of
    messages[j - u].
    """
    n = own.shape[1]
    for some, user, values in _neighbors(first, last, indptr, indices, own, messages, users):
        index = (user * n)[:, None] + np.arange(n)
        sums = np.bincount(index.ravel(), weights=values.ravel(), minlength=len(some) * n)
        total[some, :n] = sums.reshape(-1, n)


def sum_energies(first, last, indptr, indices, own, messages, users, total):
    """Sum ||x_i - x_j||^2 over the neighbors j of `users` first to last; see `sum_halo`."""
    n = own.shape[1]
    for some, user, values in _neighbors(first, last, indptr, indices, own, messages, users):
        difference = own[some[user]] - values
        difference *= difference
        index = np.repeat(user, n)
        total[some, 0] = np.bincount(index, weights=difference.ravel(), minlength=len(some))


def _neighbors(first, last, indptr, indices, own, messages, users):
    """Yield some users at a time, for each of their edges the user's place, and what it hears."""
    u, n = own.shape
    width = int(indptr[-1]) // max(len(indptr) - 1, 1) + 1
    for here in batches(last - first, n * width):
        some = users[first + here.start : first + here.stop]
        degree = indptr[some + 1] - indptr[some]
        j = indices[np.repeat(indptr[some], degree) + offsets_within(degree)]
        if len(messages):
            values = np.empty((len(j), n))
            near = j < u
            values[near], values[~near] = own[j[near]], messages[j[~near] - u, :n]
        else:
            values = own[j]
        yield some, np.repeat(np.arange(len(some)), degree), values


def gradient_step(first, last, x, s0, s1, H, neighbors, step, stiffness, results):
    """Move the centers x, (u, K d), of users first to last by one gradient step on J_rho.

    The gradient of the local cost is s0 x - s1. `neighbors` are the sum of the neighbors' centers,
    `total`, and their number, `degree`. gradient = (s0 x - s1) / rho + c (degree x - total), and
    out = x - alpha gradient, where `step` is (rho, alpha, c). With an alpha of 0 each center has
    its own, 1 / (H / rho + 2 c degree), by the bound H on the curvature of the local cost; it is 0
    for a center that nothing moves. `results` are out, residual and the alphas, (u, K):
    residual[i] is the largest of rho ||gradient|| / stiffness over user i's K centers, or NaN.
    """
    total, degree = neighbors
    out, residual, alphas = results
    rho, alpha, factor = step
    inverse_rho, K = 1.0 / rho, s0.shape[1]
    for here in batches(last - first, x.shape[1]):
        at = slice(first + here.start, first + here.stop)
        here_x, own = x[at].reshape(-1, K, x.shape[1] // K), degree[at, None]
        if alpha > 0.0:
            alphas[at] = alpha
        else:
            curvature = H[at] * inverse_rho + 2.0 * factor * own
            alphas[at] = np.where(curvature > 0.0, 1.0 / curvature, 0.0)
        local = s0[at, :, None] * here_x - s1[at].reshape(here_x.shape)
        difference = (own[..., None] * here_x - total[at].reshape(here_x.shape)) * factor
        gradient = local * inverse_rho + difference
        moved = here_x - alphas[at, :, None] * gradient
        out[at] = moved.reshape(-1, x.shape[1])
        far = rho * np.sqrt(sum_squares(gradient)) / stiffness[at]
        residual[at] = far.max(axis=1, initial=0.0)


def nesterov_extrapolate(first, last, y, stepped, x, t, softness, out, t_next, residual):
    """Extrapolate the centers of users first to last after a gradient step (Nesterov 1983).

    The step went from y to `stepped`, the previous one to x; all are (u, K, d). Then
    t_next = (1 + sqrt(1 + 4 t^2)) / 2, (u, K), and out = stepped + (t - 1) / t_next (stepped - x).
    A center whose stepped - x points uphill restarts with t = 1 (O'Donoghue and Candès 2015).
    residual[i] is the largest distance by which a center of user i is extrapolated, times its
    softness, (u, K).
    """
    for here in batches(last - first, y[0].size):
        at = slice(first + here.start, first + here.stop)
        step = stepped[at] - x[at]
        back = (y[at] - stepped[at]) * step
        squares = step * step
        uphill, length = np.zeros((2, *t[at].shape))
        for j in range(y.shape[2]):
            uphill += back[..., j]
            length += squares[..., j]
        now = np.where(uphill > 0.0, 1.0, t[at])
        t_next[at] = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * now * now))
        momentum = (now - 1.0) / t_next[at]
        out[at] = stepped[at] + momentum[..., None] * step
        shift = momentum * np.sqrt(length) * softness[at]
        residual[at] = shift.max(axis=1, initial=0.0)
