"""One block of all users in this process; a compiled loop sums over neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.graphs import Graph
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
from peerclust.runtimes.loop import run_rounds
from peerclust.runtimes.protocol import OnCheckpoint, OnRound, Run, Snapshot, Traffic, message_bytes
from peerclust.runtimes.stopping import NEVER, Vote
from peerclust.users import Users


class Simulator:
    """The users of a graph as one block.

    >>> from peerclust.graphs import path
    >>> from peerclust.programs.dgc import DGC
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> run = Simulator(path(2)).run(DGC(rho=1.0, alpha=0.3), users, np.zeros((2, 1, 1)), rounds=99)
    >>> run.x.ravel().round(6).tolist(), run.traffic.messages
    ([0.666667, 1.333333], 198)
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._D = int(graph.diameter.value)

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
        """Run the program; see `Runtime.run`."""

        def deliver(
            said: Sequence[NeighborSum | NetworkMax], _: Any
        ) -> tuple[list[HeardSum | HeardMax], Traffic]:
            heard, sent = self.deliver(said[0])
            return [heard], sent

        return run_rounds(
            program,
            [users],
            [x],
            deliver=deliver,
            neighbor_min=lambda votes: [self._neighbor_min(votes[0])],
            D=self._D,
            rounds=rounds,
            threshold=threshold,
            on_round=on_round,
            on_checkpoint=on_checkpoint,
            resume_from=resume_from,
        )

    def deliver(self, said: NeighborSum | NetworkMax) -> tuple[HeardSum | HeardMax, Traffic]:
        """Return what all users hear, and the traffic over the links."""
        links = 2 * self.graph.edges
        if isinstance(said, NetworkMax):
            size = said.v[0].nbytes
            return HeardMax(said.v.max(axis=0)), Traffic(self._D * links, self._D * links * size)
        u = len(said.x)
        x = np.ascontiguousarray(said.x).reshape(u, -1)
        total = buffers.empty(x.shape)
        indptr, indices = self.graph.indptr, self.graph.indices
        parallel_for(
            lambda first, last: kernels.sum_neighbors(indptr, indices, x, first, last, total),
            u, x.size,
        )  # fmt: skip
        degree = self.graph.degree.reshape((u,) + (1,) * (said.x.ndim - 1))
        extra = said.extra_max
        largest = None if extra is None else self._reduce(np.maximum, extra, -np.inf)
        heard = HeardSum(total.reshape(said.x.shape), degree, largest)
        if isinstance(said, NeighborValues):
            heard = HeardValues(
                **vars(heard), values=said.x[indices], offsets=indptr.astype(np.int64)
            )
        return heard, Traffic(links, links * message_bytes(said))

    def _neighbor_min(self, vote: Vote) -> Vote:
        """Return the smallest s and R among each user's neighbors."""
        return Vote(*(self._reduce(np.minimum, each, NEVER) for each in (vote.s, vote.R)))

    def _reduce(self, which: np.ufunc, values: NDArray[Any], alone: float) -> NDArray[Any]:
        """Return the minimum, or maximum, over each user's neighbors; `alone` if it has none."""
        if self.graph.edges == 0:
            return np.full_like(values, alone)
        reduced: NDArray[Any] = which.reduceat(
            values[self.graph.indices], self.graph.indptr[:-1], axis=0
        )
        return reduced
