"""The distribution of users over processes, and reductions over the users of all processes.

The bits of a reduction do not depend on the distribution. Sums are taken in ascending user number;
everything else is a maximum, or is gathered in the order of users first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Ints
from peerclust.graphs import Graph
from peerclust.metrics import MAX_USERS_PAIRWISE, Disagreement, bound_pairs, measure_pairs
from peerclust.ranks.group import ProcessGroup, SingleProcess


@dataclass(frozen=True, eq=False)
class Distribution:
    """The users of a graph over the ranks of a group; rank r has `members[r]`, ascending.

    Every method except `local` and `halo` is a collective call.

    >>> from peerclust.graphs import path
    >>> distribution = Distribution.of_all(path(3))
    >>> distribution.local.tolist()
    [0, 1, 2]
    >>> distribution.sum_over_users(np.array([[1.0], [2.0], [3.0]])).tolist()
    [6.0]
    """

    group: ProcessGroup
    graph: Graph
    members: Sequence[Ints]

    @classmethod
    def of_all(cls, graph: Graph) -> Distribution:
        """Return the distribution of a single process, which has all users."""
        return cls(SingleProcess(), graph, [np.arange(graph.m)])

    @property
    def local(self) -> Ints:
        """The numbers of this process's users."""
        return self.members[self.group.rank]

    @cached_property
    def halo(self) -> Halo:
        """The neighbors of this process's users, and the messages between processes."""
        return find_halo(self.graph, self.members, self.group.rank)

    def sum_over_users(self, own: Array) -> Array:
        """Return the sum over all users, (...), of values (u, ...) of this process's users."""
        flat = np.ascontiguousarray(own, dtype=np.float64).reshape(len(own), -1)
        if self.group.size == 1:
            return add_up(flat).reshape(own.shape[1:])
        # Each process sums some of the columns, for all users.
        ends = np.linspace(0, flat.shape[1], self.group.size + 1).astype(int)
        columns = [np.ascontiguousarray(flat[:, a:b]) for a, b in pairwise(ends)]
        flat = self._in_order(self.group.alltoall(columns))
        return np.concatenate(self.group.allgather(add_up(flat))).reshape(own.shape[1:])

    def mean(self, own: Array) -> Array:
        """Return the mean over all users, (...), of values (u, ...) of this process's users."""
        return self.sum_over_users(own) / self.graph.m

    def gather_users(self, own: NDArray[Any]) -> NDArray[Any]:
        """Return the values of all users, (m, ...), from those of this process, (u, ...)."""
        return self._in_order(self.group.allgather(own)) if self.group.size > 1 else own

    def gather_lists(self, own: Sequence[Any]) -> list[Any]:
        """Return the items of all users, from a list with one item per user of this process."""
        items = [each for part in self.group.allgather(list(own)) for each in part]
        return [items[i] for i in np.argsort(np.concatenate(self.members))]

    def max_over_ranks(self, own: Any) -> Any:
        """Return the elementwise maximum over all processes; NaN propagates."""
        return own if self.group.size == 1 else np.max(self.group.allgather(own), axis=0)

    def any_rank(self, own: bool) -> bool:
        """Return whether it is true in any process."""
        return own if self.group.size == 1 else any(self.group.allgather(own))

    def disagreement(self, x: Array) -> Disagreement:
        """Return the disagreement of the users' centers; see `metrics.disagreement`."""
        m, K = self.graph.m, x.shape[1]
        if m <= MAX_USERS_PAIRWISE:
            return measure_pairs(m, (self.gather_users(x[:, k]) for k in range(K)))
        return bound_pairs(-self.max_over_ranks(-x.min(axis=0)), self.max_over_ranks(x.max(axis=0)))

    def differences(self, x: Array) -> Array:
        """Return the sum over neighbors j of x_i - x_j for this process's users, (u, K, d)."""
        total = self._over_links(kernels.sum_halo, x, x.size // max(len(x), 1))
        return (self.halo.degree[:, None] * x.reshape(len(x), -1) - total).reshape(x.shape)

    def energy(self, x: Array) -> float:
        """Return <x, L x>, the sum over edges of ||x_i - x_j||^2."""
        # Each edge counts once at each of its ends.
        return 0.5 * float(self.gather_users(self._over_links(kernels.sum_energies, x, 1)).sum())

    def _over_links(self, loop: Callable[..., None], x: Array, width: int) -> Array:
        halo, flat = self.halo, np.ascontiguousarray(x).reshape(len(x), -1)
        received = flat[:0]
        if self.group.size > 1:
            received = np.concatenate(self.group.alltoall([flat[i] for i in halo.send]))
        out = np.empty((len(x), width))
        loop(0, len(x), halo.indptr, halo.indices, flat, received, np.arange(len(x)), out)
        return out

    def _in_order(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        values = np.concatenate(parts)
        ordered = np.empty_like(values)
        ordered[np.concatenate(self.members)] = values
        return ordered


def add_up(values: Array) -> Array:
    """Return the sum over users, (...), of values (m, ...), in ascending order.

    >>> add_up(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [4.0, 6.0]
    """
    total = np.zeros((1, *values.shape[1:]))
    kernels.by_user(np.zeros(len(values), np.int64), np.ascontiguousarray(values), total)
    summed: Array = total[0]
    return summed


@dataclass(frozen=True, eq=False)
class Halo:
    """The neighbors of one process's users, and the messages to and from other processes.

    Attributes
    ----------
    indptr, indices : int arrays
        User i of this process hears indices[indptr[i]:indptr[i + 1]], in ascending user number.
        Indices below u are users of this process; u + j is the j-th message from other processes.
    send : list of int arrays
        For each process, the users of this one whose messages it receives, in that order.
    recv : list of int arrays
        For each process, the numbers of its users whose messages this one receives.
    interior, boundary : int arrays
        The users all of whose neighbors are in this process, and the others.
    """

    indptr: Ints
    indices: NDArray[np.integer[Any]]
    send: list[Ints]
    recv: list[Ints]
    interior: Ints
    boundary: Ints

    @cached_property
    def degree(self) -> Array:
        """The number of neighbors of each user of this process, (u,)."""
        return np.diff(self.indptr).astype(np.float64)


def find_halo(graph: Graph, members: Sequence[Ints], rank: int) -> Halo:
    """Return the halo of one process, for a distribution of a graph's users."""
    if len(members) == 1:
        none = np.empty(0, np.int64)
        indptr = graph.indptr.astype(np.int64)
        return Halo(indptr, graph.indices, [none], [none], np.arange(graph.m), none)
    rank_of = _find_ranks(graph.m, members)
    own = members[rank]
    u, degree = len(own), np.diff(graph.indptr)[own].astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(degree)])
    # Positions of own users' neighbors in the graph's list of neighbors.
    at = np.repeat(graph.indptr[own] - indptr[:-1], degree) + np.arange(indptr[-1])
    near = graph.indices[at].astype(np.int64)
    receiver = np.repeat(np.arange(u), degree)
    send, recv = [], []
    place = np.empty(graph.m, np.int64)
    place[own] = np.arange(u)
    first = u
    for r in range(len(members)):
        there = (rank_of[near] == r) & (r != rank)
        send.append(np.unique(receiver[there]))
        recv.append(np.unique(near[there]))
        place[recv[-1]] = first + np.arange(len(recv[-1]))
        first += len(recv[-1])
    outer = np.zeros(u, bool)
    outer[receiver[rank_of[near] != rank]] = True
    return Halo(indptr, place[near], send, recv, np.flatnonzero(~outer), np.flatnonzero(outer))


def distribute_users(graph: Graph, sizes: Sequence[int] | Ints, n: int) -> list[Ints]:
    """Distribute the users of a graph over n processes, with few links between them and even load.

    Users are ordered by reverse Cuthill-McKee (E. Cuthill and J. McKee, "Reducing the bandwidth of
    sparse symmetric matrices", 1969; A. George, 1971), which places neighbors near each other, or
    by their numbers if that separates fewer of them. They are split into contiguous blocks of about
    equal load, one per process. The load of a user is its number of rows plus one.

    >>> from peerclust.graphs import ring
    >>> [part.tolist() for part in distribute_users(ring(6), [1] * 6, 2)]
    [[0, 1, 2], [3, 4, 5]]
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    load = np.asarray(sizes, np.float64) + 1.0
    rows = np.repeat(np.arange(graph.m), np.diff(graph.indptr))
    best: list[Ints] = []
    fewest = np.inf
    orders = [np.arange(graph.m)]
    if n > 1:
        orders.append(reverse_cuthill_mckee(graph.adjacency, symmetric_mode=True).astype(np.int64))
    for order in orders:
        parts = np.split(order, _find_cuts(load[order], n))
        rank_of = _find_ranks(graph.m, parts)
        separated = int((rank_of[rows] != rank_of[graph.indices]).sum())
        if separated < fewest:
            best, fewest = [np.sort(part) for part in parts], separated
    return best


def _find_ranks(m: int, members: Sequence[Ints]) -> Ints:
    """Return the rank of each of m users."""
    rank_of = np.empty(m, np.int64)
    for r, those in enumerate(members):
        rank_of[those] = r
    return rank_of


def _find_cuts(load: Array, n: int) -> Ints:
    """Return the n - 1 positions that split users into blocks of even load, none of them empty."""
    middle = np.cumsum(load) - 0.5 * load
    cuts: Ints = np.searchsorted(middle, load.sum() * np.arange(1, n) / n)
    # At least one user before each cut, and one for each process that follows.
    for r in range(n - 1):
        cuts[r] = max(cuts[r], (cuts[r - 1] if r else 0) + 1)
    for r in reversed(range(n - 1)):
        cuts[r] = min(cuts[r], (cuts[r + 1] if r < n - 2 else len(load)) - 1)
    return cuts
