"""One block of all users in this process; a compiled loop sums over neighbors."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.graphs import Graph
from peerclust.kernels import buffers
from peerclust.kernels.threads import parallel_for
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    HeardSum,
    HeardTotal,
    HeardValues,
    Message,
    NeighborValues,
    NetworkMax,
    NetworkSum,
    ToNeighbors,
)
from peerclust.ranks.distribution import Distribution
from peerclust.runtimes.protocol import (
    Ballot,
    Delivered,
    Said,
    Traffic,
    agreed_ballot,
    message_bytes,
    sum_traffic,
)
from peerclust.runtimes.stopping import NEVER, Vote
from peerclust.users import Users

T = TypeVar("T", np.float64, np.int64)


class Simulator:
    """The users of a graph as one block.

    >>> from peerclust.graphs import ring
    >>> len(Simulator(ring(3)).blocks(Users(np.zeros((6, 1)), np.array([0, 2, 4, 6]))))
    1
    """

    def __init__(self, graph: Graph) -> None:
        self._graph, self._links = graph, 2 * graph.edges
        self._D = int(graph.diameter.value)
        self.distribution = Distribution.of_all(graph)

    def blocks(self, users: Users) -> list[Users]:
        """Return one block of all users."""
        return [users]

    def deliver(self, said: Said) -> Delivered:
        """Deliver the messages of all users at once."""
        heard, sent = self._answer(said.messages[0])
        if isinstance(heard, HeardTotal):
            return Delivered([heard], sent, lambda: agreed_ballot(said.votes))
        return Delivered([heard], sent, lambda: self._ballot(said.votes[0]))

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _answer(self, said: Message[Heard]) -> tuple[Heard, Traffic]:
        """Return what all users hear, and the traffic over the links."""
        graph, links = self._graph, self._links
        if isinstance(said, NetworkMax):
            size = said.v[0].nbytes
            return HeardMax(said.v.max(axis=0)), Traffic(self._D * links, self._D * links * size)
        if isinstance(said, NetworkSum):
            return HeardTotal(said.v.sum(axis=0)), sum_traffic(said, graph.m)
        assert isinstance(said, ToNeighbors)
        u = len(said.x)
        x = np.ascontiguousarray(said.x).reshape(u, -1)
        total = buffers.empty(x.shape)
        indptr, indices = graph.indptr, graph.indices
        parallel_for(kernels.sum_neighbors, u, x.size, indptr, indices, x, total)
        degree = graph.degree.reshape((u,) + (1,) * (said.x.ndim - 1))
        extra = said.extra_max
        largest = None if extra is None else self._reduce(np.maximum, extra, -np.inf)
        heard = HeardSum(total.reshape(said.x.shape), degree, largest)
        if isinstance(said, NeighborValues):
            heard = HeardValues(
                **vars(heard), values=said.x[indices], offsets=indptr.astype(np.int64)
            )
        return heard, Traffic(links, links * message_bytes(said))

    def _ballot(self, vote: Vote) -> Ballot:
        """Return the users' votes, and the smallest among each user's neighbors."""
        s, R = (self._reduce(np.minimum, each, NEVER) for each in (vote.s, vote.R))
        return Ballot([vote], [Vote(s, R)], self._D)

    def _reduce(self, which: np.ufunc, values: NDArray[T], alone: float) -> NDArray[T]:
        """Return the minimum, or maximum, over each user's neighbors; `alone` if it has none."""
        if self._links == 0:
            return np.full_like(values, alone)
        reduced: NDArray[T] = which.reduceat(
            values[self._graph.indices], self._graph.indptr[:-1], axis=0
        )
        return reduced
