"""Which users a process has, and what somebody sees who looks at the users of all processes.

What is looked at in common has the same bits however users are shared out: sums go from user to
user in ascending number, and everything else is a maximum, or is put in order first.
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
from peerclust.graphs import Graph
from peerclust.metrics import MAX_USERS_PAIRWISE, Disagreement, bound_pairs, measure_pairs
from peerclust.ranks.group import ProcessGroup, SingleProcess
from peerclust.types import Array, Ints


@dataclass(frozen=True, eq=False)
class Distribution:
    """The users `members[rank]` of a graph are this process's, in ascending number.

    Every method but `own` is called by all processes of the crew at once.

    >>> from peerclust.graphs import path
    >>> distribution = Distribution.of_all(path(3))
    >>> distribution.local.tolist(), distribution.sum_over_users(np.array([[1.0], [2.0], [3.0]])).tolist()
    ([0, 1, 2], [6.0])
    """

    group: ProcessGroup
    graph: Graph
    members: Sequence[Ints]

    @classmethod
    def of_all(cls, graph: Graph) -> Distribution:
        """Give the share of a process that has all users."""
        return cls(SingleProcess(), graph, [np.arange(graph.m)])

    @property
    def local(self) -> Ints:
        """The numbers of this process's users."""
        return self.members[self.group.rank]

    @cached_property
    def halo(self) -> Halo:
        """Whom this process's users hear."""
        return find_halo(self.graph, self.members, self.group.rank)

    def sum_over_users(self, own: Array) -> Array:
        """Give the sum over all users, (...), of what those of this process have, (u, ...)."""
        flat = np.ascontiguousarray(own, dtype=np.float64).reshape(len(own), -1)
        if self.group.size > 1:
            # Each process adds up some of the columns, for all users.
            ends = np.linspace(0, flat.shape[1], self.group.size + 1).astype(int)
            columns = [np.ascontiguousarray(flat[:, a:b]) for a, b in pairwise(ends)]
            flat = self._in_order(self.group.alltoall(columns))
        return np.concatenate(self.group.allgather(add_up(flat))).reshape(own.shape[1:])

    def mean(self, own: Array) -> Array:
        """Give the mean over all users, (...), of what those of this process have, (u, ...)."""
        return self.sum_over_users(own) / self.graph.m

    def gather_users(self, own: NDArray[Any]) -> NDArray[Any]:
        """Give what all users have, (m, ...), from what those of this process have, (u, ...)."""
        return self._in_order(self.group.allgather(own)) if self.group.size > 1 else own

    def gather_lists(self, own: Sequence[Any]) -> list[Any]:
        """Give a thing of each user, from those of this process's."""
        held = [each for part in self.group.allgather(list(own)) for each in part]
        return [held[i] for i in np.argsort(np.concatenate(self.members))]

    def max_over_ranks(self, own: Any) -> Any:
        """Give the elementwise maximum over all processes; NaN wins."""
        return np.max(self.group.allgather(own), axis=0)

    def any_rank(self, own: bool) -> bool:
        """Tell whether it is so in some process."""
        return any(self.group.allgather(own))

    def disagreement(self, x: Array) -> Disagreement:
        """Give how far the users' centers are apart; see `metrics.disagreement`."""
        m, K = self.graph.m, x.shape[1]
        if m <= MAX_USERS_PAIRWISE:
            return measure_pairs(m, (self.gather_users(x[:, k]) for k in range(K)))
        return bound_pairs(-self.max_over_ranks(-x.min(axis=0)), self.max_over_ranks(x.max(axis=0)))

    def differences(self, x: Array) -> Array:
        """Give the sum over neighbors j of x_i - x_j for this process's users, (u, K, d)."""
        total = self._over_links(kernels.sum_halo, x, x.size // max(len(x), 1))
        return (self.halo.degree[:, None] * x.reshape(len(x), -1) - total).reshape(x.shape)

    def energy(self, x: Array) -> float:
        """Give <x, L x>, the sum over edges of ||x_i - x_j||^2."""
        # Each edge is met from both of its ends.
        return 0.5 * float(self.gather_users(self._over_links(kernels.sum_energies, x, 1)).sum())

    def _over_links(self, loop: Callable[..., None], x: Array, width: int) -> Array:
        halo, flat = self.halo, np.ascontiguousarray(x).reshape(len(x), -1)
        letters = np.concatenate(self.group.alltoall([flat[i] for i in halo.send]))
        out = np.empty((len(x), width))
        loop(halo.indptr, halo.indices, flat, letters, np.arange(len(x)), 0, len(x), out)
        return out

    def _in_order(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        order = np.concatenate(self.members)
        held = np.concatenate(parts)
        ordered = np.empty_like(held)
        ordered[order] = held
        return ordered


def add_up(values: Array) -> Array:
    """Give the sum over users, (...), of values (m, ...), one after the other.

    >>> add_up(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [4.0, 6.0]
    """
    total = np.zeros((1, *values.shape[1:]))
    kernels.by_user(np.zeros(len(values), np.int64), np.ascontiguousarray(values), total)
    summed: Array = total[0]
    return summed


@dataclass(frozen=True, eq=False)
class Halo:
    """Whom the users of one process hear, and whom of them other processes are told of.

    Attributes
    ----------
    indptr, indices : int arrays
        User i of this process hears indices[indptr[i]:indptr[i + 1]], in ascending number: below u
        they are of this process, others are u + the place of a letter from elsewhere.
    send : list of int arrays
        For each process, which of this one's users it is told of; letters come in the same order.
    recv : list of int arrays
        For each process, the numbers of its users of whom this one is told.
    interior, boundary : int arrays
        The users all of whose neighbors are here, and the others.
    """

    indptr: Ints
    indices: NDArray[np.integer[Any]]
    send: list[Ints]
    recv: list[Ints]
    interior: Ints
    boundary: Ints

    @cached_property
    def degree(self) -> Array:
        """How many neighbors each user of this process has, (u,)."""
        return np.diff(self.indptr).astype(np.float64)


def find_halo(graph: Graph, members: Sequence[Ints], rank: int) -> Halo:
    """Give the links of one process, having shared out a graph's users."""
    if len(members) == 1:
        none = np.empty(0, np.int64)
        begins = graph.indptr.astype(np.int64)
        return Halo(begins, graph.indices, [none], [none], np.arange(graph.m), none)
    holder = _find_holders(graph.m, members)
    own = members[rank]
    u, degree = len(own), np.diff(graph.indptr)[own].astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(degree)])
    # Where in the graph's list of neighbors those of own users are.
    at = np.repeat(graph.indptr[own] - indptr[:-1], degree) + np.arange(indptr[-1])
    near = graph.indices[at].astype(np.int64)
    listener = np.repeat(np.arange(u), degree)
    send, recv = [], []
    place = np.empty(graph.m, np.int64)
    place[own] = np.arange(u)
    begin = u
    for r in range(len(members)):
        there = (holder[near] == r) & (r != rank)
        send.append(np.unique(listener[there]))
        recv.append(np.unique(near[there]))
        place[recv[-1]] = begin + np.arange(len(recv[-1]))
        begin += len(recv[-1])
    afar = np.zeros(u, bool)
    afar[listener[holder[near] != rank]] = True
    return Halo(indptr, place[near], send, recv, np.flatnonzero(~afar), np.flatnonzero(afar))


def distribute_users(graph: Graph, sizes: Sequence[int] | Ints, n: int) -> list[Ints]:
    """Give n processes the users of a graph, neighbors together, about as much to do for each.

    Users stand in line in the order of reverse Cuthill-McKee (E. Cuthill and J. McKee, "Reducing
    the bandwidth of sparse symmetric matrices", 1969; A. George, 1971), which keeps neighbors near
    each other, or by their numbers if that parts fewer; the line is cut where the sizes so far,
    counting each user as one more, are a multiple of 1/n of all.

    >>> from peerclust.graphs import ring
    >>> [part.tolist() for part in distribute_users(ring(6), [1] * 6, 2)]
    [[0, 1, 2], [3, 4, 5]]
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    load = np.asarray(sizes, np.float64) + 1.0
    rows = np.repeat(np.arange(graph.m), np.diff(graph.indptr))
    best: list[Ints] = []
    fewest = np.inf
    lines = [np.arange(graph.m)]
    if n > 1:
        lines.append(reverse_cuthill_mckee(graph.adjacency, symmetric_mode=True).astype(np.int64))
    for line in lines:
        parts = np.split(line, _cut(load[line], n))
        holder = _find_holders(graph.m, parts)
        parted = int((holder[rows] != holder[graph.indices]).sum())
        if parted < fewest:
            best, fewest = [np.sort(part) for part in parts], parted
    return best


def _find_holders(m: int, members: Sequence[Ints]) -> Ints:
    """Give the process that each of m users is in."""
    holder = np.empty(m, np.int64)
    for r, those in enumerate(members):
        holder[those] = r
    return holder


def _cut(load: Array, n: int) -> Ints:
    """Give the n - 1 places where a line is cut, so that no stretch is empty."""
    middle = np.cumsum(load) - 0.5 * load
    cuts: Ints = np.searchsorted(middle, load.sum() * np.arange(1, n) / n)
    # At least one user before each cut, and one for each process that follows.
    for r in range(n - 1):
        cuts[r] = max(cuts[r], (cuts[r - 1] if r else 0) + 1)
    for r in reversed(range(n - 1)):
        cuts[r] = min(cuts[r], (cuts[r + 1] if r < n - 2 else len(load)) - 1)
    return cuts
