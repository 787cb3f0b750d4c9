"""What several tests compare with: bits, gradients by differences, and what users compute, plainly.

The functions of rows and centers say what `Users` must compute, each in a way of its own.
"""

import math

import numpy as np
from scipy.special import kl_div

from instances import spd
from peerclust.bregman import Bregman


def same(a, b):
    """Equal to the last bit, shape and type."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    np.testing.assert_array_equal(a, b)
    assert a.tobytes() == b.tobytes()


def slope(f, x, step):
    """The gradient of f at x by central differences of fourth order."""
    out = np.empty_like(x)
    for j in range(x.size):
        e = np.zeros_like(x)
        e[j] = step
        out[j] = (f(x - 2 * e) - 8 * f(x - e) + 8 * f(x + e) - f(x + 2 * e)) / (12 * step)
    return out


def of_each_user(rows, offsets):
    """Each user's number and its rows in double precision."""
    for i in range(len(offsets) - 1):
        yield i, rows[offsets[i] : offsets[i + 1]].astype(np.float64)


def squares(rows, x):
    """Squared distances (N, K), added up feature by feature from the first, in plain numpy."""
    total = np.zeros((len(rows), len(x)))
    for j in range(x.shape[1]):
        step = rows[:, j, None].astype(np.float64) - x[:, j]
        total += step * step
    return total


def scores(rows, x, loss, distance):
    """What nearest means, (N, K), each in a way of its own."""
    if not isinstance(loss, Bregman):
        A = getattr(distance, "A", None)
        if A is None:
            return squares(rows, x)
        gap = rows[:, None] - x
        return np.einsum("rki,ij,rkj->rk", gap, A, gap)
    gap = rows[:, None] - x
    return {
        "squared_euclidean": lambda: 0.5 * np.einsum("rki,rki->rk", gap, gap),
        "squared_mahalanobis": lambda: 0.5 * np.einsum("rki,ij,rkj->rk", gap, spd(x.shape[1]), gap),
        "generalized_kl": lambda: kl_div(rows[:, None], x).sum(axis=2),
    }[loss.name]()


def plain_gradient(rows, offsets, labels, x, w, loss, distance):
    """Sum w grad f(x_i(label), y) row by row, and the sum of the sizes of what is added."""
    out, size = np.zeros_like(x), np.zeros(x.shape[:2])
    A = np.asarray(getattr(distance, "A", np.eye(x.shape[2])))
    for i, mine in of_each_user(rows, offsets):
        for r, y in enumerate(mine):
            row = offsets[i] + r
            k = labels[row]
            gap = x[i, k] - y
            if isinstance(loss, Bregman):
                H = np.broadcast_to(loss.hessian(x[i, k]), (len(gap), len(gap)))
                pull = H @ gap
            else:
                pull = float(loss.gamma(gap @ A @ gap)) * (A @ gap)
            out[i, k] += w[row] * pull
            size[i, k] += w[row] * np.linalg.norm(pull)
    return out, size


def plain_cost(rows, offsets, labels, x, w, loss, distance):
    """Sum w f(x_i(label), y) over each user's rows."""
    out = np.zeros(len(x))
    for i, mine in of_each_user(rows, offsets):
        here = slice(offsets[i], offsets[i + 1])
        own = scores(mine, x[i], loss, distance)[np.arange(len(mine)), labels[here]]
        values = own if isinstance(loss, Bregman) else loss.value(own)
        out[i] = math.fsum(w[here] * values)
    return out
