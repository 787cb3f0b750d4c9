"""One block of users per rank of an MPI job.

Each rank holds the rows of its own users. In an exchange the ranks send each other only the
messages of users that have neighbors on other ranks: the halo. They use a neighborhood collective
on a communicator with the topology of the graph between ranks, persistent where the MPI library
supports it. A message consists of what its user said and its two votes. Communication overlaps with
computation: messages are awaited only when the program reads what it heard, and users whose
neighbors are all on this rank are summed before that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Ints
from peerclust.kernels import buffers
from peerclust.kernels.threads import parallel_for
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    HeardSum,
    HeardTotal,
    HeardValues,
    NeighborValues,
    NetworkMax,
    NetworkSum,
    ToNeighbors,
)
from peerclust.ranks.distribution import Distribution, Halo
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

# Two integers go with each message.
_VOTES = 2

T = TypeVar("T", np.float64, np.int64)


class MPIRuntime:
    """The users of this rank in a distribution, as one block."""

    def __init__(self, distribution: Distribution, comm: MPI.Intracomm) -> None:
        self.distribution, self._graph = distribution, distribution.graph
        self._comm, self._halo = comm, distribution.halo
        near = [r for r, users in enumerate(distribution.halo.send) if len(users)]
        self._neighborhood = comm.Create_dist_graph_adjacent(near, near)
        self._D = int(distribution.graph.diameter.value)
        self._exchanges: dict[int, HaloExchange] = {}
        self._last = self._exchange(_VOTES)

    def blocks(self, users: Users) -> list[Users]:
        """Return one block of this rank's users."""
        return [users]

    def deliver(self, said: Said) -> Delivered:
        """Start to send the messages; they are awaited when what is heard is read."""
        links, message, vote = 2 * self._graph.edges, said.messages[0], said.votes[0]
        self._last.wait()
        heard: Heard
        if isinstance(message, NetworkSum):
            heard = HeardTotal(self._sum_over_users(message.v))
            sent = sum_traffic(message, self._graph.m)
            return Delivered([heard], sent, lambda: agreed_ballot(said.votes))
        if isinstance(message, NetworkMax):
            v, nothing = message.v, np.empty((len(message.v), 0))
            self._last = self._exchange(_VOTES)
            self._last.send(nothing, nothing, vote)
            sent = Traffic(self._D * links, self._D * links * v[0].nbytes)
            heard = HeardMax(self._max_over_users(v))
        else:
            assert isinstance(message, ToNeighbors)
            sent = Traffic(links, links * message_bytes(message))
            heard = self._send(message, vote)
        return Delivered([heard], sent, lambda: self._ballot(vote))

    def _send(self, message: ToNeighbors[HeardSum], vote: Vote) -> HeardSum:
        """Start to send to the neighbors; return what will be heard."""
        u, shape, extra_max = len(message.x), message.x.shape, message.extra_max
        x = np.ascontiguousarray(message.x).reshape(u, -1)
        extra = np.empty((u, 0)) if extra_max is None else extra_max.reshape(u, -1)
        exchange = self._last = self._exchange(x.shape[1] + extra.shape[1] + _VOTES)
        exchange.send(x, extra, vote)

        def receive_total() -> Array:
            total = buffers.empty(x.shape)
            self._sum(x, exchange, self._halo.interior, total)
            exchange.wait()
            self._sum(x, exchange, self._halo.boundary, total)
            return total.reshape(shape)

        def receive_values() -> Array:
            exchange.wait()
            both = np.concatenate([x, exchange.received[:, : x.shape[1]]])
            values: Array = both[self._halo.indices]
            return values.reshape(-1, *shape[1:])

        degree, largest = self._halo.degree.reshape((u,) + (1,) * (len(shape) - 1)), None
        if extra_max is not None:
            exchange.wait()
            received = exchange.received[:, x.shape[1] : -_VOTES]
            largest = self._reduce(np.maximum, extra, received, -np.inf).reshape(extra_max.shape)
        if isinstance(message, NeighborValues):
            pending = PendingValues.make(degree, largest, receive_total)
            return pending.with_values(receive_values, self._halo.indptr)
        return PendingSum.make(degree, largest, receive_total)

    def _sum(self, x: Array, exchange: HaloExchange, users: Ints, total: Array) -> None:
        if len(users) == 0:
            return
        links = self._halo.indptr, self._halo.indices
        work = len(users) * x.shape[1]
        parallel_for(kernels.sum_halo, len(users), work, *links, x, exchange.received, users, total)

    def _max_over_users(self, v: Array) -> Array:
        """Return the elementwise maximum over all users; NaN propagates."""
        own = v.max(axis=0)
        unknown = np.isnan(own)
        sent = np.stack([np.where(unknown, np.inf, own), unknown])
        largest = np.empty_like(sent)
        self._comm.Allreduce(sent, largest, MPI.MAX)
        return np.where(largest[1] > 0, np.nan, largest[0])

    def _sum_over_users(self, v: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the sum over all users modulo 2^64; of integers, it is the same in any order."""
        own: NDArray[np.uint64] = v.sum(axis=0)
        total = np.empty_like(own)
        self._comm.Allreduce(own, total, MPI.SUM)
        return total

    def _ballot(self, vote: Vote) -> Ballot:
        """Return the users' votes, and the smallest among each user's neighbors."""
        self._last.wait()
        own = np.stack([vote.s, vote.R], axis=1)
        received = self._last.received[:, -_VOTES:].view(np.int64)
        s, R = np.ascontiguousarray(self._reduce(np.minimum, own, received, NEVER).T)
        return Ballot([vote], [Vote(s, R)], self._D)

    def _reduce(
        self, which: np.ufunc, own: NDArray[T], received: NDArray[T], alone: float
    ) -> NDArray[T]:
        if self._graph.edges == 0:
            return np.full_like(own, alone)
        both = np.concatenate([own, received])
        reduced: NDArray[T] = which.reduceat(
            both[self._halo.indices], self._halo.indptr[:-1], axis=0
        )
        return reduced

    def close(self) -> None:
        """Free the MPI resources of this runtime; a collective call."""
        for exchange in self._exchanges.values():
            exchange.close()
        self._neighborhood.Free()

    def _exchange(self, width: int) -> HaloExchange:
        if width not in self._exchanges:
            self._exchanges[width] = HaloExchange(self._neighborhood, self._halo, width)
        return self._exchanges[width]


class HaloExchange:
    """Messages of `width` numbers to and from other ranks, in buffers that are used again."""

    def __init__(self, neighborhood: MPI.Distgraphcomm, halo: Halo, width: int) -> None:
        self._index = np.concatenate(halo.send)
        self._out = np.empty((len(self._index), width))
        self.received = np.empty((sum(map(len, halo.recv)), width))
        self._votes = self._out[:, -_VOTES:].view(np.int64)
        out, in_ = (
            [width * len(each) for each in lists if len(each)] for lists in (halo.send, halo.recv)
        )
        self._buffers = (
            [self._out, (out, None), MPI.DOUBLE], [self.received, (in_, None), MPI.DOUBLE]
        )  # fmt: skip
        self._neighborhood = neighborhood
        self._request = MPI.REQUEST_NULL
        self._start = self._start_once
        with suppress(NotImplementedError):
            persistent = neighborhood.Neighbor_alltoallv_init(*self._buffers)
            self._request, self._start = persistent, persistent.Start

    def _start_once(self) -> None:
        """Start an exchange where the MPI library has no persistent collectives."""
        self._request = self._neighborhood.Ineighbor_alltoallv(*self._buffers)

    def send(self, x: Array, extra: Array, votes: Vote) -> None:
        """Start to send the messages of users that have neighbors on other ranks."""
        n = x.shape[1]
        self._out[:, :n] = x[self._index]
        if extra.shape[1]:
            self._out[:, n:-_VOTES] = extra[self._index]
        self._votes[:, 0], self._votes[:, 1] = votes.s[self._index], votes.R[self._index]
        self._start()

    def wait(self) -> None:
        """Wait until all messages have arrived; return at once if none are under way."""
        self._request.Wait()

    def close(self) -> None:
        """Free the request if it is persistent; others are freed by an exchange."""
        self.wait()
        if self._request != MPI.REQUEST_NULL:
            self._request.Free()


class PendingSum(HeardSum):
    """A `HeardSum` whose total is received when it is first read."""

    _receive_total: Callable[[], Array]

    @classmethod
    def make(cls, degree: Array, extra_max: Array | None, receive: Callable[[], Array]) -> Self:
        """Return what will be heard; `receive` returns the total."""
        made = object.__new__(cls)
        vars(made).update(degree=degree, extra_max=extra_max, _receive_total=receive)
        return made

    @cached_property
    def total(self) -> Array:
        """The neighbors' total."""
        return self._receive_total()


class PendingValues(PendingSum, HeardValues):
    """A `HeardValues` whose total and values are received when they are first read."""

    _receive_values: Callable[[], Array]

    def with_values(self, receive: Callable[[], Array], offsets: Ints) -> Self:
        """Set how the values are received; return self."""
        vars(self).update(offsets=offsets, _receive_values=receive)
        return self

    @cached_property
    def values(self) -> Array:
        """Every neighbor's own x."""
        return self._receive_values()
