"""What several tests compare with: bits, gradients by differences, and what users compute, plainly.

The functions of rows and centers say what `Users` must compute, each in a way of its own.
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import kl_div

from instances import spd
from peerclust.bregman import Bregman
from peerclust.losses import Fair, Huber, KMeans, Logistic


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


def largest_ratio(loss):
    """The largest h''(r) / gamma, by hand: 1 where gamma falls, else from the formulas of h."""
    if isinstance(loss, Logistic):
        # 1 + 2 t / (1 + exp(t)), whose maximum is where 1 + exp(t) = t exp(t).
        t = brentq(lambda t: 1 + math.exp(t) - t * math.exp(t), 1.0, 2.0, xtol=1e-15)
        return 1 + 2 * t / (1 + math.exp(t))
    return 3.0 if isinstance(loss, Fair) else 1.0


def eigenvalues(loss, distance, center):
    """The eigenvalues of A, or of the Hessian of a Bregman generator at a center."""
    if isinstance(loss, Bregman):
        return {
            "squared_euclidean": lambda: np.ones(len(center)),
            "squared_mahalanobis": lambda: np.sort(np.linalg.eigvals(spd(len(center))).real),
            "generalized_kl": lambda: np.sort(1 / center),
        }[loss.name]()
    A = getattr(distance, "A", None)
    return np.ones(len(center)) if A is None else np.sort(np.linalg.eigvals(A).real)


def by_cluster(rows, offsets, labels, x, w, loss, distance):
    """Each user's number and cluster, with the squares and weights of its rows."""
    for i, mine in of_each_user(rows, offsets):
        here = slice(offsets[i], offsets[i + 1])
        for k in range(x.shape[1]):
            held = labels[here] == k
            yield i, k, scores(mine[held], x[i, k : k + 1], loss, distance)[:, 0], w[here][held]


def plain_curvature(rows, offsets, labels, x, w, loss, distance):
    """The bound on the curvature in each center, cluster by cluster (see `Users.curvature`)."""
    out = np.zeros(x.shape[:2])
    for i, k, r2, mine in by_cluster(rows, offsets, labels, x, w, loss, distance):
        gamma = np.ones(len(r2)) if isinstance(loss, Bregman) else np.asarray(loss.gamma(r2))
        own = isinstance(loss, KMeans | Huber | Logistic | Fair | Bregman)
        total = math.fsum(mine * gamma) if own else loss.smoothness * math.fsum(mine)
        out[i, k] = largest_ratio(loss) * total * eigenvalues(loss, distance, x[i, k])[-1]
    return out


def plain_local_curvature(rows, offsets, labels, x, w, loss, distance):
    """The cautious curvature in each center, cluster by cluster (see `Users.local_curvature`)."""
    out = np.zeros(x.shape[:2])
    for i, k, r2, mine in by_cluster(rows, offsets, labels, x, w, loss, distance):
        W = math.fsum(mine)
        H = W
        if W > 0 and not isinstance(loss, Bregman):
            mean = np.array(math.fsum(mine * r2) / W)
            H = min(math.fsum(mine * np.asarray(loss.gamma(r2))), W * float(loss.gamma(mean)))
        out[i, k] = H * eigenvalues(loss, distance, x[i, k])[0]
    return out


def plain_cost(rows, offsets, labels, x, w, loss, distance):
    """Sum w f(x_i(label), y) over each user's rows."""
    out = np.zeros(len(x))
    for i, mine in of_each_user(rows, offsets):
        here = slice(offsets[i], offsets[i + 1])
        own = scores(mine, x[i], loss, distance)[np.arange(len(mine)), labels[here]]
        values = own if isinstance(loss, Bregman) else loss.value(own)
        out[i] = math.fsum(w[here] * values)
    return out
