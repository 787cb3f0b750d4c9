"""One block per user in this process, message by message: the reference for all runtimes.

Users share nothing but the messages that they send; it is slow and plain on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peerclust.arrays import Array
from peerclust.graphs import Graph
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    HeardSum,
    Message,
    NetworkMax,
    ToNeighbors,
    reduce_messages,
)
from peerclust.ranks.distribution import Distribution
from peerclust.runtimes.protocol import Ballot, Delivered, Said, Traffic, message_bytes
from peerclust.runtimes.stopping import NEVER, Vote
from peerclust.users import Users


class Loopback:
    """The users of a graph, each a block of its own with an inbox.

    >>> from peerclust.graphs import ring
    >>> len(Loopback(ring(3)).blocks(Users(np.zeros((6, 1)), np.array([0, 2, 4, 6]))))
    3
    """

    def __init__(self, graph: Graph) -> None:
        self.distribution = Distribution.of_all(graph)
        self._neighbors = [graph.neighbors(i).tolist() for i in range(graph.m)]
        self._D = int(graph.diameter.value)

    def blocks(self, users: Users) -> list[Users]:
        """Return one block per user."""
        return [users.single_user(i) for i in range(users.m)]

    def deliver(self, said: Said) -> Delivered:
        """Deliver the messages one by one."""
        heard, sent = self._answer(said.messages)
        return Delivered(heard, sent, lambda: self._ballot(said.votes))

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _answer(self, said: Sequence[Message[Heard]]) -> tuple[Sequence[Heard], Traffic]:
        maxima = [message.v[0] for message in said if isinstance(message, NetworkMax)]
        if maxima:
            return self._maxima(maxima)
        return self._totals([message for message in said if isinstance(message, ToNeighbors)])

    def _send(self, messages: list[Array], size: int) -> tuple[list[list[Array]], Traffic]:
        """Deliver each user's message to its neighbors; inboxes are in ascending sender order."""
        inboxes: list[list[Array]] = [[] for _ in messages]
        sent = Traffic()
        for sender, message in enumerate(messages):
            for receiver in self._neighbors[sender]:
                inboxes[receiver].append(message.copy())
                sent += Traffic(1, size)
        return inboxes, sent

    def _totals(self, said: list[ToNeighbors[HeardSum]]) -> tuple[list[HeardSum], Traffic]:
        inboxes, sent = self._send([s.x[0] for s in said], message_bytes(said[0]))
        extra: list[list[Array]] = [[] for _ in said]
        maxima = [s.extra_max[0] for s in said if s.extra_max is not None]
        if maxima:
            extra, _ = self._send(maxima, 0)
        return [reduce_messages(*each) for each in zip(said, inboxes, extra, strict=True)], sent

    def _maxima(self, values: list[Array]) -> tuple[list[HeardMax], Traffic]:
        """Flood the maximum: after D exchanges it has reached every user."""
        traffic = Traffic()
        for _ in range(self._D):
            inboxes, sent = self._send(values, values[0].nbytes)
            traffic += sent
            values = [
                np.maximum.reduce([own, *inbox]) for own, inbox in zip(values, inboxes, strict=True)
            ]
        return [HeardMax(v) for v in values], traffic

    def _ballot(self, votes: Sequence[Vote]) -> Ballot:
        minima = []
        for near in self._neighbors:
            s = min((int(votes[j].s[0]) for j in near), default=NEVER)
            R = min((int(votes[j].R[0]) for j in near), default=NEVER)
            minima.append(Vote(np.array([s]), np.array([R])))
        return Ballot(votes, minima, self._D)
