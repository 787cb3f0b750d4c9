"""CORESET-KM and CORESET-MED: K-means and K-median on a small weighted summary of all rows.

M.-F. Balcan, S. Ehrlich and Y. Liang, "Distributed k-means and k-median clustering on general
topologies", NIPS 2013. Each user i finds K centers B_i of its own rows P_i and sends their cost to
all users. With m_p = cost(p, B_i) it then draws, with replacement, t_i of its rows,

    t_i = t cost(P_i, B_i) / sum_j cost(P_j, B_j),    row q with probability m_q / cost(P_i, B_i),
    w_q = sum_j cost(P_j, B_j) / (t m_q)          for each row q that was drawn,
    w_b = |P_b| - sum of w_q over the q in P_b    for each center b in B_i, P_b its cluster,

and sends these rows and centers with their weights to all users. Each user solves the weighted
problem on the union, with the same random numbers, so all have the same centers.

| symbol             | here                                                  |
|--------------------|-------------------------------------------------------|
| t                  | `size`                                                |
| t_i                | returned by `apportion`                               |
| B_i, P_b           | `Local.centers`, `Local.labels`                       |
| m_p, cost(P_i, B_i)| `Local.cost`, its sum                                 |
| w_q, w_b           | `Portion.weights`, the drawn rows first               |

Choices that the paper leaves open: B_i is a k-means++ draw and a few steps of alternation (see
`weighted_kmeans`); a user with at most K distinct rows takes these, at no cost. t_i is rounded up
or down at random so that the t_i add up to t and the coreset's cost, at any centers, is unbiased.
That needs weights of either sign, and as w_b is about 0 on average, half of them are negative. A
solver cannot use those: they count as 0, so the coreset weighs somewhat more than N.

Messages are flooded: each user passes each message once to all neighbors, so it crosses every link
in both directions. All of it is counted: a cost is one number, a point d + 1 numbers of 8 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.baselines.decentralized import flood
from peerclust.baselines.protocol import Outcome, Task, make_outcome
from peerclust.baselines.weighted_kmeans import cost, descend, draw, solve
from peerclust.graphs import Graph
from peerclust.runtimes.protocol import OnRound, Traffic
from peerclust.users import Users
from peerclust.validation import check_count

# Steps of alternation to find a user's own centers.
LOCAL_STEPS = 10
# Drawn rows per local center, unless `size` is given.
PER_CENTER = 10
# Random streams that starts do not use (see `initialize`): two per user, and two common to all
# users, which are those of a user after the last.
_CENTERS, _ROWS, _SHARES, _SOLVE = range(1 << 21, (1 << 21) + 4)


@dataclass(frozen=True, eq=False)
class Local:
    """One user's rows (n, d), its centers (k, d), and each row's center and cost, both (n,)."""

    rows: Array
    centers: Array
    labels: NDArray[np.int32]
    cost: Array


@dataclass(frozen=True, eq=False)
class Portion:
    """One user's part of the coreset: points (n, d) and their weights (n,), before clipping."""

    points: Array
    weights: Array

    @property
    def bytes(self) -> int:
        """The size of the message that carries it."""
        return self.points.nbytes + self.weights.nbytes


@dataclass(frozen=True)
class Coreset:
    """K-means, or K-median, on a coreset.

    Parameters
    ----------
    median : bool
        Whether the cost is the distance (K-median) or its square (K-means).
    size : int, optional
        t, the number of rows drawn in total. By default 10 for each of the m K local centers, but
        at most half of the rows. The theorem for K-means asks for a multiple of m K log(m K) plus
        a term that depends on the accuracy; with 10, counting the negative w_b as 0 adds about a
        fifth to the weight of the Iris data or of Gaussian clusters.

    Examples
    --------
    >>> from peerclust import graphs
    >>> rows = np.array([[0.0], [1.0], [9.0], [0.5], [9.5], [10.0]])
    >>> task = Task(rows, np.array([0, 3, 6]), graphs.path(2), start=np.zeros((2, 2, 1)),
    ...             pooled_start=np.zeros((2, 1)), rho=1.0, rounds=1)
    >>> Coreset(size=4).fit(task).labels.tolist() in ([0, 0, 1, 0, 1, 1], [1, 1, 0, 1, 0, 0])
    True
    """

    median: bool = False
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            check_count(self.size, "size", "Coreset")

    def fit(self, task: Task, on_round: OnRound | None = None) -> Outcome:  # noqa: ARG002
        """Cluster the task's rows in 2 rounds, each a flood; `on_round` is not called.

        The task's seed is used, its starts are not.
        """
        users = Users(task.rows, task.offsets)
        t = self.size or max(1, min(PER_CENTER * users.m * task.K, len(task.rows) // 2))
        begin = perf_counter()
        portions = build(users, task.K, t, median=self.median, seed=task.seed)
        points = np.concatenate([portion.points for portion in portions])
        weights = np.maximum(np.concatenate([portion.weights for portion in portions]), 0.0)
        rng = _common_generator(users, task.seed, _SOLVE)
        found = solve(points, weights, task.K, median=self.median, rng=rng)
        # With fewer distinct points than centers, some points are repeated.
        x = users.broadcast_centers(found[np.arange(task.K) % len(found)])
        seconds = perf_counter() - begin
        return make_outcome(users, x, 2, seconds, traffic(task.graph, portions))


def _common_generator(users: Users, seed: int, step: int) -> np.random.Generator:
    """Return a random stream that is common to all users."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(users.m, step)))


def build(users: Users, K: int, t: int, *, median: bool, seed: int) -> list[Portion]:
    """Return each user's portion of a coreset with t drawn rows."""
    local = [_approximate(users, i, K, median, seed) for i in range(users.m)]
    costs = np.array([each.cost.sum() for each in local])
    u = _common_generator(users, seed, _SHARES).random()
    shares = apportion(costs, t, u)
    return [
        _sample(each, int(shares[i]), costs.sum() / t, users.generator(i, seed, _ROWS))
        for i, each in enumerate(local)
    ]


def apportion(costs: Array, t: int, u: float) -> NDArray[np.int64]:
    """Return shares of t in proportion to the costs, (m,): whole numbers that add up to t.

    Each share is rounded up or down; for u uniform in [0, 1) it is unbiased. If all costs are 0, so
    are the shares.

    >>> apportion(np.array([1.0, 0.0, 2.0]), 2, 0.5).tolist()
    [1, 0, 1]
    """
    ends = np.cumsum(costs)
    if ends[-1] == 0.0:
        return np.zeros(len(costs), np.int64)
    marks = np.minimum(np.floor(t * (ends / ends[-1]) + u), t).astype(np.int64)
    return np.asarray(np.diff(marks, prepend=0))


def traffic(graph: Graph, portions: Sequence[Portion]) -> Traffic:
    """Return the traffic of flooding each user's cost and portion; empty portions are sent too."""
    sent = Traffic()
    for portion in portions:
        sent += flood(graph, 8) + flood(graph, portion.bytes)
    return sent


def _approximate(users: Users, i: int, K: int, median: bool, seed: int) -> Local:
    """Compute user i's own centers."""
    here = slice(users.offsets[i], users.offsets[i + 1])
    rows = np.asarray(users.rows[here], dtype=np.float64)
    unit = np.ones(len(rows))
    rng = users.generator(i, seed, _CENTERS)
    start = draw(rows, unit, K, median=median, rng=rng)
    centers = descend(rows, unit, start, median=median, steps=LOCAL_STEPS)
    return Local(rows, centers, *cost(rows, centers, median=median))


def _sample(local: Local, t_i: int, scale: float, rng: np.random.Generator) -> Portion:
    """Draw t_i rows and weigh them and the centers; `scale` is the cost of all users over t."""
    chosen = np.zeros(0, np.int64)
    if t_i:
        chosen = rng.choice(len(local.rows), size=t_i, p=local.cost / local.cost.sum())
    w_q = scale / local.cost[chosen]
    k = len(local.centers)
    sizes = np.bincount(local.labels, minlength=k)
    w_b = sizes - np.bincount(local.labels[chosen], weights=w_q, minlength=k)
    points = np.concatenate([local.rows[chosen], local.centers])
    return Portion(points, np.concatenate([w_q, w_b]))
