"""One block per user in this process, message by message: the reference for all runtimes.

Users share nothing but the messages that they send; it is slow and plain on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.graphs import Graph
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    HeardSum,
    HeardTotal,
    Message,
    NetworkMax,
    NetworkSum,
    ToNeighbors,
    reduce_messages,
)
from peerclust.ranks.distribution import Distribution
from peerclust.runtimes.protocol import (
    Ballot,
    Delivered,
    Said,
    Traffic,
    agreed_ballot,
    message_bytes,
)
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
        self._tree = graph.tree

    def blocks(self, users: Users) -> list[Users]:
        """Return one block per user."""
        return [users.single_user(i) for i in range(users.m)]

    def deliver(self, said: Said) -> Delivered:
        """Deliver the messages one by one."""
        heard, sent = self._answer(said.messages)
        if isinstance(heard[0], HeardTotal):
            return Delivered(heard, sent, lambda: agreed_ballot(said.votes))
        return Delivered(heard, sent, lambda: self._ballot(said.votes))

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _answer(self, said: Sequence[Message[Heard]]) -> tuple[Sequence[Heard], Traffic]:
        maxima = [message.v[0] for message in said if isinstance(message, NetworkMax)]
        if maxima:
            return self._maxima(maxima)
        integers = [message.v[0] for message in said if isinstance(message, NetworkSum)]
        if integers:
            return self._network_sums(integers)
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

    def _network_sums(self, values: list[NDArray[np.uint64]]) -> tuple[list[HeardTotal], Traffic]:
        """Add the users' integers up the tree, then send the total down."""
        tree, traffic, one = self._tree, Traffic(), Traffic(1, values[0].nbytes)
        sums = [value.copy() for value in values]
        for level in range(tree.height, 0, -1):
            for user in np.flatnonzero(tree.depth == level).tolist():
                sums[tree.parent[user]] += sums[user]
                traffic += one
        for level in range(1, tree.height + 1):
            for user in np.flatnonzero(tree.depth == level).tolist():
                sums[user] = sums[tree.parent[user]].copy()
                traffic += one
        return [HeardTotal(each) for each in sums], traffic

    def _ballot(self, votes: Sequence[Vote]) -> Ballot:
        minima = []
        for near in self._neighbors:
            s = min((int(votes[j].s[0]) for j in near), default=NEVER)
            R = min((int(votes[j].R[0]) for j in near), default=NEVER)
            minima.append(Vote(np.array([s]), np.array([R])))
        return Ballot(votes, minima, self._D)
