"""One block per user in this process, message by message: the reference for all runtimes.

Users share nothing but the messages that they send; it is slow and plain on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peerclust.arrays import Array
from peerclust.graphs import Graph
from peerclust.programs.protocol import (
    HeardMax,
    HeardSum,
    NeighborSum,
    NetworkMax,
    Program,
    reduce_messages,
)
from peerclust.runtimes.loop import run_rounds
from peerclust.runtimes.protocol import OnCheckpoint, OnRound, Run, Snapshot, Traffic, message_bytes
from peerclust.runtimes.stopping import NEVER, Vote
from peerclust.users import Users


class Loopback:
    """The users of a graph, each a block of its own with an inbox.

    >>> from peerclust.graphs import path
    >>> from peerclust.programs.dgc import DGC
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> run = Loopback(path(2)).run(DGC(rho=1.0, alpha=0.3), users, np.zeros((2, 1, 1)), rounds=99)
    >>> run.x.ravel().round(6).tolist(), run.traffic.messages
    ([0.666667, 1.333333], 198)
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._neighbors = [graph.neighbors(i).tolist() for i in range(graph.m)]
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
        return run_rounds(
            program,
            [users.single_user(i) for i in range(users.m)],
            [x[i : i + 1] for i in range(users.m)],
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
        self, said: Sequence[Any], _: Any
    ) -> tuple[Sequence[HeardSum | HeardMax], Traffic]:
        return self._maxima(said) if isinstance(said[0], NetworkMax) else self._totals(said)

    def _send(self, messages: list[Array], size: int) -> tuple[list[list[Array]], Traffic]:
        """Deliver each user's message to its neighbors; inboxes are in ascending sender order."""
        inboxes: list[list[Array]] = [[] for _ in messages]
        sent = Traffic()
        for sender, message in enumerate(messages):
            for receiver in self._neighbors[sender]:
                inboxes[receiver].append(message.copy())
                sent += Traffic(1, size)
        return inboxes, sent

    def _totals(self, said: Sequence[NeighborSum]) -> tuple[list[HeardSum], Traffic]:
        inboxes, sent = self._send([s.x[0] for s in said], message_bytes(said[0]))
        extra: list[list[Array]] = [[] for _ in said]
        if said[0].extra_max is not None:
            extra, _ = self._send([s.extra_max[0] for s in said], 0)  # type: ignore[index]
        return [reduce_messages(*each) for each in zip(said, inboxes, extra, strict=True)], sent

    def _maxima(self, said: Sequence[Any]) -> tuple[list[HeardMax], Traffic]:
        """Flood the maximum: after D exchanges it has reached every user."""
        values, traffic = [s.v[0] for s in said], Traffic()
        for _ in range(self._D):
            inboxes, sent = self._send(values, values[0].nbytes)
            traffic += sent
            values = [
                np.maximum.reduce([own, *inbox]) for own, inbox in zip(values, inboxes, strict=True)
            ]
        return [HeardMax(v) for v in values], traffic

    def _neighbor_min(self, votes: Sequence[Vote]) -> list[Vote]:
        minima = []
        for near in self._neighbors:
            s = min((int(votes[j].s[0]) for j in near), default=NEVER)
            R = min((int(votes[j].R[0]) for j in near), default=NEVER)
            minima.append(Vote(np.array([s]), np.array([R])))
        return minima
