"""One block of users per rank of an MPI job.

Each rank holds the rows of its own users. In an exchange the ranks send each other only the
messages of users that have neighbors on other ranks: the halo. They use a neighborhood collective
on a communicator with the topology of the graph between ranks, persistent where the MPI library
supports it. A message consists of what its user said and its two votes. Communication overlaps with
computation: messages are awaited only when the program reads what it heard, and users whose
neighbors are all on this rank are summed before that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Ints
from peerclust.kernels import buffers
from peerclust.kernels.threads import parallel_for
from peerclust.programs.protocol import (
    HeardMax,
    HeardSum,
    HeardValues,
    NeighborSum,
    NeighborValues,
    NetworkMax,
    Program,
)
from peerclust.ranks.distribution import Distribution, Halo
from peerclust.runtimes.loop import run_rounds
from peerclust.runtimes.protocol import OnCheckpoint, OnRound, Run, Snapshot, Traffic, message_bytes
from peerclust.runtimes.stopping import NEVER, Vote
from peerclust.users import Users

# Two integers go with each message.
_VOTES = 2


class MPIRuntime:
    """The users of this rank in a distribution, as one block."""

    def __init__(self, distribution: Distribution, comm: MPI.Intracomm) -> None:
        self.distribution, self.graph = distribution, distribution.graph
        self._comm, self._halo = comm, distribution.halo
        near = [r for r, users in enumerate(distribution.halo.send) if len(users)]
        self._neighborhood = comm.Create_dist_graph_adjacent(near, near)
        self._D = int(distribution.graph.diameter.value)
        self._exchanges: dict[int, HaloExchange] = {}
        self._last = self._exchange(_VOTES)

    def run(
        self,
        program: Program,
        users: Users,
        x: Array,
        *,
        rounds: int,
        threshold: float = -1.0,
        on_round: OnRound | None = None,
        on_checkpoint: OnCheckpoint | None = None,
        resume_from: Snapshot | None = None,
    ) -> Run:
        """Run the program; see `Runtime.run`. The users and x are those of this rank."""
        return run_rounds(
            program,
            [users],
            [x],
            deliver=self._deliver,
            neighbor_min=self._neighbor_min,
            D=self._D,
            rounds=rounds,
            threshold=threshold,
            on_round=on_round,
            on_checkpoint=on_checkpoint,
            resume_from=resume_from,
        )

    def _deliver(
        self, said: Sequence[NeighborSum | NetworkMax], votes: Sequence[Vote]
    ) -> tuple[list[HeardSum | HeardMax], Traffic]:
        links, message = 2 * self.graph.edges, said[0]
        self._last.wait()
        if isinstance(message, NetworkMax):
            v, nothing = message.v, np.empty((len(message.v), 0))
            self._last = self._exchange(_VOTES)
            self._last.send(nothing, nothing, votes[0])
            sent = Traffic(self._D * links, self._D * links * v[0].nbytes)
            return [HeardMax(self._max_over_users(v))], sent
        u, shape, extra_max = len(message.x), message.x.shape, message.extra_max
        x = np.ascontiguousarray(message.x).reshape(u, -1)
        extra = np.empty((u, 0)) if extra_max is None else extra_max.reshape(u, -1)
        exchange = self._last = self._exchange(x.shape[1] + extra.shape[1] + _VOTES)
        exchange.send(x, extra, votes[0])

        def receive() -> dict[str, Any]:
            total = buffers.empty(x.shape)
            self._sum(x, exchange, self._halo.interior, total)
            exchange.wait()
            self._sum(x, exchange, self._halo.boundary, total)
            heard: dict[str, Any] = {"total": total.reshape(shape)}
            if isinstance(message, NeighborValues):
                both = np.concatenate([x, exchange.received[:, : x.shape[1]]])
                heard["values"] = both[self._halo.indices].reshape(-1, *shape[1:])
            return heard

        known: dict[str, Any] = {
            "degree": self._halo.degree.reshape((u,) + (1,) * (len(shape) - 1)),
            "extra_max": None,
        }
        if extra_max is not None:
            exchange.wait()
            received = exchange.received[:, x.shape[1] : -_VOTES]
            largest = self._reduce(np.maximum, extra, received, -np.inf)
            known["extra_max"] = largest.reshape(extra_max.shape)
        heard: HeardSum
        if isinstance(message, NeighborValues):
            heard = _pending(PendingNeighborValues, receive, offsets=self._halo.indptr, **known)
        else:
            heard = _pending(PendingNeighborSum, receive, **known)
        return [heard], Traffic(links, links * message_bytes(message))

    def _sum(self, x: Array, exchange: HaloExchange, users: Ints, total: Array) -> None:
        if len(users) == 0:
            return
        indptr, indices, received = self._halo.indptr, self._halo.indices, exchange.received
        parallel_for(
            lambda first, last: kernels.sum_halo(
                indptr, indices, x, received, users, first, last, total
            ),
            len(users), len(users) * x.shape[1],
        )  # fmt: skip

    def _max_over_users(self, v: Array) -> Array:
        """Return the elementwise maximum over all users; NaN propagates."""
        own = v.max(axis=0)
        unknown = np.isnan(own)
        sent = np.stack([np.where(unknown, np.inf, own), unknown])
        largest = np.empty_like(sent)
        self._comm.Allreduce(sent, largest, MPI.MAX)
        return np.where(largest[1] > 0, np.nan, largest[0])

    def _neighbor_min(self, votes: Sequence[Vote]) -> list[Vote]:
        """Return the smallest s and R among each user's neighbors."""
        self._last.wait()
        own = np.stack([votes[0].s, votes[0].R], axis=1)
        received = self._last.received[:, -_VOTES:].view(np.int64)
        minima = self._reduce(np.minimum, own, received, NEVER)
        return [Vote(*np.ascontiguousarray(minima.T))]

    def _reduce(
        self, which: np.ufunc, own: NDArray[Any], received: NDArray[Any], alone: float
    ) -> NDArray[Any]:
        if self.graph.edges == 0:
            return np.full_like(own, alone)
        both = np.concatenate([own, received])
        reduced: NDArray[Any] = which.reduceat(
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
        self._request: Any = MPI.REQUEST_NULL
        try:
            self._request = neighborhood.Neighbor_alltoallv_init(*self._buffers)
            self._start = self._request.Start
        except NotImplementedError:
            self._start = self._start_once

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


class _Pending:
    """Fields that are received when `total` or `values` is first read."""

    def __getattr__(self, name: str) -> Any:
        receive = vars(self).pop("_receive", None)
        if receive is None:
            raise AttributeError(name)
        vars(self).update(receive())
        return getattr(self, name)


class PendingNeighborSum(_Pending, HeardSum):
    """A `HeardSum` whose total is received when it is first read."""


class PendingNeighborValues(_Pending, HeardValues):
    """A `HeardValues` whose total and values are received when first read."""


def _pending(kind: type[_Pending], receive: Callable[[], dict[str, Any]], **known: Any) -> Any:
    """Return an object of that kind with the known fields; `receive` returns the others."""
    pending = object.__new__(kind)
    vars(pending).update(known, _receive=receive)
    return pending
