"""Weighted K-means and K-median of one set of points, by alternation; no users, no network.

    minimize over x    sum_p w_p cost(p, x),    cost(p, x) = min_k ||p - x(k)||^z,

with z = 2 for K-means and z = 1 for K-median. A start is drawn as in k-means++, in proportion to
w_p cost(p, x). Each step then assigns every point to its nearest center and moves the centers:

    x(k) <- (1 - s) T(k) + s x(k),    T(k) = sum_{p in C(k)} v_p p / sum_{p in C(k)} v_p,

For K-means v = w and s = 0, Lloyd's algorithm. For K-median v_p = w_p / ||p - x(k)|| over the
points that are not at x(k), and s = min(1, E / ||sum v_p (p - x(k))||) with E the weight of those
that are: Weiszfeld's step toward the geometric median as Y. Vardi and C.-H. Zhang, PNAS 97(4),
2000, modify it. Neither step raises the cost. A cluster without weight keeps its center.

| symbol            | here                           |
|-------------------|--------------------------------|
| p, w_p            | `points[p]`, `weights[p]`      |
| x(k)              | `x[k]`                         |
| z = 1             | `median`                       |
| cost(p, x), C(k)  | returned by `cost`             |
| v, s              | `pull`, `stay`                 |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from peerclust.arrays import Array
from peerclust.distances import Euclidean, Linear
from peerclust.users.nearest import nearest

# Alternation ends when a step lowers the cost by less than this fraction.
TOLERANCE = 1e-10


def cost(points: Array, x: Array, *, median: bool) -> tuple[NDArray[np.int32], Array]:
    """Return each point's nearest center among x (k, d), and its cost, both (n,).

    >>> label, each = cost(np.array([[0.0], [3.0]]), np.array([[0.0], [5.0]]), median=False)
    >>> label.tolist(), each.tolist()
    ([0, 1], [0.0, 4.0])
    """
    labels, r2 = nearest(points, x, Linear(Euclidean()))
    return labels, np.sqrt(r2) if median else r2


def draw(points: Array, weights: Array, K: int, *, median: bool, rng: np.random.Generator) -> Array:
    """Draw K distinct points, or all distinct points with weight if there are fewer."""
    chosen: list[int] = []
    mass = weights
    while len(chosen) < K and mass.any():
        chosen.append(int(rng.choice(len(points), p=mass / mass.sum())))
        mass = weights * cost(points, points[chosen], median=median)[1]
    return points[chosen]


def descend(points: Array, weights: Array, x: Array, *, median: bool, steps: int) -> Array:
    """Return the centers (k, d) after at most `steps` steps from x; fewer if the cost settles.

    >>> points, x = np.array([[0.0], [2.0], [10.0]]), np.array([[0.0], [10.0]])
    >>> descend(points, np.array([3.0, 1.0, 1.0]), x, median=False, steps=9).tolist()
    [[0.5], [10.0]]
    """
    last = np.inf
    for _ in range(steps):
        labels, each = cost(points, x, median=median)
        total = float(weights @ each)
        if total == 0.0 or total > (1.0 - TOLERANCE) * last:
            break
        last, x = total, _move(points, weights, x, labels, each, median)
    return x


def solve(
    points: Array,
    weights: Array,
    K: int,
    *,
    median: bool,
    rng: np.random.Generator,
    starts: int = 10,
    steps: int = 300,
) -> Array:
    """Return the best centers of several starts, (K, d), or fewer if there are fewer points.

    >>> points = np.array([[0.0], [1.0], [3.0], [9.0], [9.0]])
    >>> rng = np.random.default_rng(0)
    >>> sorted(solve(points, np.ones(5), 2, median=True, rng=rng).ravel().round(6).tolist())
    [1.0, 9.0]
    """
    best, least = points[:0], np.inf
    for _ in range(starts):
        start = draw(points, weights, K, median=median, rng=rng)
        x = descend(points, weights, start, median=median, steps=steps)
        total = float(weights @ cost(points, x, median=median)[1])
        if total < least:
            best, least = x, total
    return best


def _move(
    points: Array, weights: Array, x: Array, labels: NDArray[np.int32], each: Array, median: bool
) -> Array:
    """Return the centers after one step."""
    pull, at_center = weights, np.zeros(len(x))
    if median:
        pull = np.divide(weights, each, out=np.zeros_like(each), where=each > 0)
        at_center += np.bincount(labels, weights=weights * (each == 0), minlength=len(x))
    rows = np.arange(len(points))
    clusters = csr_array((pull, (labels, rows)), shape=(len(x), len(points)))
    S0, S1 = clusters.sum(axis=1)[:, None], clusters @ points
    T = np.divide(S1, S0, out=x.copy(), where=S0 > 0)
    force = np.sqrt(((S1 - S0 * x) ** 2).sum(axis=1))
    stay = np.divide(at_center, force, out=np.ones_like(force), where=force > at_center)[:, None]
    return np.asarray((1.0 - stay) * T + stay * x)
