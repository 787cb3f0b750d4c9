"""Drives a block of users a rank.

Each rank holds the rows of its own users. In an exchange the ranks send each other only the letters
of users who have neighbors elsewhere, by a neighborhood collective on a communicator that has the
shape of the graph between ranks, persistent where the MPI library has such. A letter is what its
user said and its two votes. While letters travel, the users read their rows: what was heard is
waited for when the program asks for it, and users whose neighbors are all here are summed before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from peerclust import kernels
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
from peerclust.types import Array
from peerclust.users import Users

# Two whole numbers go with each letter.
_VOTES = 2


class MPIRuntime:
    """The users of a share, as a block of this rank."""

    def __init__(self, distribution: Distribution, comm: MPI.Intracomm) -> None:
        self.distribution, self.graph = distribution, distribution.graph
        self._comm, self._halo = comm, distribution.halo
        near = [r for r, told in enumerate(distribution.halo.send) if len(told)]
        self._around = comm.Create_dist_graph_adjacent(near, near)
        self._D = int(distribution.graph.diameter.value)
        self._posts: dict[int, HaloExchange] = {}
        self._post = self._find_post(_VOTES)

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
        """Drive the program; see `Runtime.run`. Users and x are this rank's."""
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
        links, told = 2 * self.graph.edges, said[0]
        self._post.wait()
        if isinstance(told, NetworkMax):
            nothing = np.empty((len(told.v), 0))
            self._post = self._find_post(_VOTES)
            self._post.send(nothing, nothing, votes[0])
            size = told.v[0].nbytes
            return [HeardMax(self._most(told.v))], Traffic(self._D * links, self._D * links * size)
        u = len(told.x)
        x = np.ascontiguousarray(told.x).reshape(u, -1)
        most = np.empty((u, 0)) if told.extra_max is None else told.extra_max.reshape(u, -1)
        post = self._post = self._find_post(x.shape[1] + most.shape[1] + _VOTES)
        post.send(x, most, votes[0])

        def listen() -> dict[str, Any]:
            total = buffers.empty(x.shape)
            self._sum(x, post, self._halo.interior, total)
            post.wait()
            self._sum(x, post, self._halo.boundary, total)
            heard: dict[str, Any] = {"total": total.reshape(told.x.shape)}
            if isinstance(told, NeighborValues):
                both = np.concatenate([x, post.letters[:, : x.shape[1]]])
                each = both[self._halo.indices]
                heard["each"] = each.reshape(len(each), *told.x.shape[1:])
            return heard

        known: dict[str, Any] = {
            "degree": self._halo.degree.reshape((u,) + (1,) * (told.x.ndim - 1))
        }
        known["most"] = None
        if told.extra_max is not None:
            post.wait()
            letters = post.letters[:, x.shape[1] : -_VOTES]
            largest = self._reduce(np.maximum, most, letters, -np.inf)
            known["most"] = largest.reshape(told.extra_max.shape)
        if isinstance(told, NeighborValues):
            heard = _later(_LateEach, listen, offsets=self._halo.indptr, **known)
        else:
            heard = _later(_LateSum, listen, **known)
        return [heard], Traffic(links, links * message_bytes(told))

    def _sum(self, x: Array, post: HaloExchange, users: NDArray[np.int64], total: Array) -> None:
        if len(users) == 0:
            return
        indptr, indices, letters = self._halo.indptr, self._halo.indices, post.letters
        parallel_for(
            lambda first, last: kernels.sum_halo(
                indptr, indices, x, letters, users, first, last, total
            ),
            len(users), len(users) * x.shape[1],
        )  # fmt: skip

    def _most(self, v: Array) -> Array:
        """Give the elementwise maximum over all users; NaN wins."""
        own = v.max(axis=0)
        unknown = np.isnan(own)
        told = np.stack([np.where(unknown, np.inf, own), unknown])
        heard = np.empty_like(told)
        self._comm.Allreduce(told, heard, MPI.MAX)
        return np.where(heard[1] > 0, np.nan, heard[0])

    def _neighbor_min(self, votes: Sequence[Vote]) -> list[Vote]:
        """Give the least s and R among each user's neighbors."""
        post = self._post
        post.wait()
        own = np.stack([votes[0].s, votes[0].R], axis=1)
        least = self._reduce(np.minimum, own, post.letters[:, -_VOTES:].view(np.int64), NEVER)
        return [Vote(*np.ascontiguousarray(least.T))]

    def _reduce(
        self, which: np.ufunc, own: NDArray[Any], letters: NDArray[Any], alone: float
    ) -> NDArray[Any]:
        if self.graph.edges == 0:
            return np.full_like(own, alone)
        both = np.concatenate([own, letters])
        reduced: NDArray[Any] = which.reduceat(
            both[self._halo.indices], self._halo.indptr[:-1], axis=0
        )
        return reduced

    def close(self) -> None:
        """Free what MPI holds for this runtime; all ranks do so at once."""
        for post in self._posts.values():
            post.close()
        self._around.Free()

    def _find_post(self, width: int) -> HaloExchange:
        if width not in self._posts:
            self._posts[width] = HaloExchange(self._around, self._halo, width)
        return self._posts[width]


class HaloExchange:
    """Letters of so many numbers to and from other ranks, in the same place each time."""

    def __init__(self, around: MPI.Distgraphcomm, halo: Halo, width: int) -> None:
        self._index = np.concatenate(halo.send)
        self._out = np.empty((len(self._index), width))
        self.letters = np.empty((sum(map(len, halo.recv)), width))
        self._votes = self._out[:, -_VOTES:].view(np.int64)
        sent, heard = (
            [width * len(each) for each in lists if len(each)] for lists in (halo.send, halo.recv)
        )
        places = [self._out, (sent, None), MPI.DOUBLE], [self.letters, (heard, None), MPI.DOUBLE]
        self._around, self._places = around, places
        self._request: Any = MPI.REQUEST_NULL
        try:
            self._request = around.Neighbor_alltoallv_init(*places)
            self._start = self._request.Start
        except NotImplementedError:
            self._start = self._begin

    def _begin(self) -> None:
        """Send where the MPI library has no persistent collectives."""
        self._request = self._around.Ineighbor_alltoallv(*self._places)

    def send(self, x: Array, most: Array, votes: Vote) -> None:
        """Let the letters of those who have neighbors elsewhere go."""
        n = x.shape[1]
        self._out[:, :n] = x[self._index]
        if most.shape[1]:
            self._out[:, n:-_VOTES] = most[self._index]
        self._votes[:, 0], self._votes[:, 1] = votes.s[self._index], votes.R[self._index]
        self._start()

    def wait(self) -> None:
        """Wait until what was sent has arrived; there may be nothing to wait for."""
        self._request.Wait()

    def close(self) -> None:
        """Free the request if it is persistent; others are gone after an exchange."""
        self.wait()
        if self._request != MPI.REQUEST_NULL:
            self._request.Free()


class _Late:
    """What is heard, waited for when `total` or `each` is asked for."""

    def __getattr__(self, name: str) -> Any:
        listen = vars(self).pop("_listen", None)
        if listen is None:
            raise AttributeError(name)
        vars(self).update(listen())
        return getattr(self, name)


class _LateSum(_Late, HeardSum):
    """A `HeardSum` that is waited for."""


class _LateEach(_Late, HeardValues):
    """A `HeardValues` that is waited for."""


def _later(kind: type[_Late], listen: Callable[[], dict[str, Any]], **known: Any) -> Any:
    """Give a thing of that kind with the fields that are known; `listen` gives the others."""
    late = object.__new__(kind)
    vars(late).update(known, _listen=listen)
    return late
