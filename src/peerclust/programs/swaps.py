"""Swap search: which center of a converged run moves where, to leave a local minimum.

Users sum 2K numbers over the network (see `Users.swap_costs`): the cost E(k) of each cluster, and
the cost U(k) of removing its center. Center i moves beside center j for the pair of least

    U(i) - GAIN E(j),    among i != j and j not split since the last success,

if that is < 0, or if fewer than MIN_FAILURES moves have failed since then.

Then the run goes on. It succeeds if its cost is lower; otherwise the old centers return, and the
next pair is tried.

A new center cannot save more than E(j) in cluster j itself. But the clusters around it gain too as
all centers move on, so pairs up to U(i) = 2 E(j) are worth trying. To split a cluster a second time
is not: which center moves there matters little.

What follows from E, U, the centers and the seed alone is the same for all users.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from peerclust.arrays import Array
from peerclust.distances import Geometry
from peerclust.theory import Curvature

GAIN = 2.0

# The tolerance of the runs that are compared. A run after a move ends at ROUGH times that if its
# cost is then more than HOPELESS times the lowest one.
TOL = 5e-3
ROUGH = 4.0
HOPELESS = 1.01

# A search ends after this many moves in a row that were not kept, or this many in all. The first
# few are tried whatever their score.
MIN_FAILURES = 3
MAX_FAILURES = 8
MAX_MOVES = 100

# A move is kept if the cost fell by more than this fraction of it.
MIN_DROP = 1e-6

# Scores that differ by less than this share of the total cost are ties: rounding, such as that of
# weighted instead of repeated rows, must not decide between them.
TIE = 1e-9

# How far the two centers of a split cluster are from the old one, as a share of that one's distance
# to its nearest other center. A small share keeps the rows of other clusters where they are.
OFFSET = 1e-3

Swap = tuple[int, int]


def choose_swap(
    E: Array, U: Array, split: Collection[int] = (), *, regardless: bool = False
) -> Swap | None:
    """Return the next pair (i, j): center i moves beside center j; None if there is none to try.

    `E` and `U` are sums over all users, (K,), and `split` the j since the last success. Of tied
    pairs the one of the lowest i is taken, and of these the one of the lowest j. `regardless` is
    whether its score does not matter.

    >>> E, U = np.array([9.0, 1.0, 1.0]), np.array([80.0, 2.0, 3.0])
    >>> choose_swap(E, U), choose_swap(E, U, split=[0])
    ((1, 0), None)
    """
    score = U[:, None] - GAIN * E
    np.fill_diagonal(score, np.inf)
    score[:, list(split)] = np.inf
    least, tie = score.min(), TIE * E.sum()
    if not least < (np.inf if regardless else -tie):
        return None
    i, j = divmod(int((score <= least + tie).argmax()), len(E))
    return i, j


def split_curvature(curvature: Curvature, swap: Swap) -> Curvature:
    """Return about what the curvature is after a swap (i, j): that of j is halved, for each.

    A run that ends with it is checked with the true one.

    >>> before = Curvature(np.array([[1.0, 6.0]]), np.array([2.0, 8.0]), np.array([1.0, 0.5]))
    >>> [each.tolist() for each in split_curvature(before, (0, 1))]
    [[[3.0, 3.0]], [4.0, 4.0], [0.5, 0.5]]
    """
    i, j = swap
    own, mean, evenness = (each.copy() for each in curvature)
    for each in (own, mean):
        each[..., j] *= 0.5
        each[..., i] = each[..., j]
    evenness[i] = evenness[j]
    return Curvature(own, mean, evenness)


def split_center(x: Array, swap: Swap, geometry: Geometry, seed: int, step: int) -> Array:
    """Return the centers (K, d) after a swap (i, j): i and j on opposite sides of the old x(j).

    They are x(j) + v and x(j) - v, with v in a random direction that `seed` and `step` select, but
    no farther out than another center in any feature: beyond there may be no rows. In a geometry
    where not every point may be a center, v is halved until both may.

    >>> from peerclust.distances import Euclidean, Linear
    >>> x = np.array([[0.0], [1.0], [5.0]])
    >>> split = split_center(x, (0, 2), Linear(Euclidean()), seed=0, step=0)
    >>> sorted(split.ravel().tolist())
    [1.0, 4.996, 5.0]
    """
    i, j = swap
    far = np.linalg.norm(x - x[j], axis=1)
    # Without another center elsewhere the data's scale is unknown; any v splits the rows.
    scale = far[far > 0].min(initial=np.inf)
    scale = scale if np.isfinite(scale) else np.linalg.norm(x[j]) or 1.0
    stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(step,)))
    direction = stream.normal(size=x.shape[1])
    v = OFFSET * scale * direction / np.linalg.norm(direction)
    low, high = x.min(axis=0), x.max(axis=0)
    if (low == high).all():
        low, high = np.full_like(low, -np.inf), np.full_like(high, np.inf)
    pair = np.clip(np.stack([x[j] + v, x[j] - v]), low, high)
    while v.any() and not geometry.contains(pair):
        v = 0.5 * v
        pair = np.clip(np.stack([x[j] + v, x[j] - v]), low, high)
    moved = x.copy()
    moved[i], moved[j] = pair
    return moved
