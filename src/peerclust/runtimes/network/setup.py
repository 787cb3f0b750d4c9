"""Drives programs before the first round, on the living graph: a runtime of a block of one user.

Whatever is lost on the way makes all peers begin again (`membership.Restart`), so what they end
with comes from one graph that all of them know. A barrier follows: who has passed it knows that
all others have come to the end of the agreement, so nobody can begin it again any more.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from peerclust.graphs import Graph
from peerclust.graphs.graph import build
from peerclust.programs.consensus import Average
from peerclust.programs.protocol import (
    HeardMax,
    HeardSum,
    NeighborSum,
    NetworkMax,
    Program,
    reduce_messages,
)
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Lost
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.views import Pair, living_part
from peerclust.runtimes.network.wire import TAG_BYTES, Kind
from peerclust.runtimes.protocol import OnRound, Run, Traffic
from peerclust.types import Array
from peerclust.users import Users

# No number that peers agree on is larger; sums and squares of such numbers are still finite.
LARGEST = 1e100

_ROUNDING = 1e-6


def living_graph(graph: Graph, members: tuple[int, ...], lost: list[Pair]) -> Graph:
    """Give the graph of some users without the lost links, numbered by their place among them.

    >>> from peerclust.graphs import ring
    >>> living_graph(ring(4), (0, 1, 3), [])
    <Graph living part: m=3, edges=2>
    """
    place = {i: k for k, i in enumerate(members)}
    gone = set(lost)
    edges = [
        (place[i], place[j])
        for i, j in graph.pairs
        if i in place and j in place and (i, j) not in gone
    ]
    if len(edges) == graph.edges:
        return graph
    u, v = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return build(u, v, len(members), "living part")


def agreement_tag(contract: Contract, lost: set[Pair], restarted: set[str]) -> bytes:
    """Give what tells the frames of one attempt at an agreement from those of another."""
    attempt = messages.pack(Lost(sorted(lost), sorted(restarted)))
    return hashlib.sha256(b"agreement" + contract.digest + attempt).digest()[:TAG_BYTES]


class Agreeing:
    """A runtime that runs a program with the neighbors, as a block of this peer alone."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.lost = sorted(node.lost)
        self.members = living_part(node.contract.graph, node.lost, node.number)
        self.graph = living_graph(node.contract.graph, self.members, self.lost)
        self._D = int(self.graph.diameter.value)
        tag = agreement_tag(node.contract, node.lost, node.restarted)
        node.begin_agreement(tag, self.members)

    def run(
        self,
        program: Program,
        users: Users,
        x: Array,
        *,
        rounds: int,
        threshold: float = -1.0,
        on_round: OnRound | None = None,
    ) -> Run:
        """Drive the program; see `Runtime.run`. Nobody stops early and nobody watches."""
        if threshold >= 0 or on_round is not None:
            raise NotImplementedError("an agreement runs all its rounds, unwatched")
        return self.node.loop.run_until_complete(self._drive(program, users, x, rounds))

    def pass_barrier(self) -> None:
        """Wait until every member has come to the end of the agreement."""
        self.node.settled = True
        self.node.loop.run_until_complete(self._pass_barrier())

    async def _drive(self, program: Program, users: Users, x: Array, rounds: int) -> Run:
        executor = self.node.loop.run_in_executor
        # A start may read all rows; the links are kept alive meanwhile.
        state: Any = await executor(None, program.start, users, x)
        before = self.node.at
        largest = np.abs(x[0])
        if isinstance(program, Average):
            largest = await self._maximum(largest)
        while state.round < rounds:
            said = program.say(state)
            heard: HeardSum | HeardMax
            if isinstance(said, NetworkMax):
                heard = HeardMax(await self._maximum(said.v[0]))
            else:
                heard = await self._total(program, state.round, said, largest)
            state = program.hear(users, state, heard)
        messages_sent = (self.node.at - before) * len(self.node.counted())
        return Run([state], rounds, False, Traffic(messages_sent, 0))

    async def _maximum(self, held: Array) -> Array:
        """Flood the maximum: after as many exchanges as the diameter everyone has it."""
        for _ in range(self._D):
            heard = await self.node.exchange(Kind.AGREE, held, _refuse_large)
            held = np.maximum.reduce([held, *(frame.payload for frame in heard.values())])
        return held

    async def _total(
        self, program: Any, round_: int, said: NeighborSum, largest: Array
    ) -> HeardSum:
        """Hear the neighbors' total; none may tell more than the program lets numbers grow."""
        limit = (
            largest * program.max_growth(round_, float(self.graph.degree.max())) * (1 + _ROUNDING)
        )

        def refuse(array: Array) -> str:
            return "" if (np.abs(array) <= limit).all() else "numbers larger than they can be"

        heard = await self.node.exchange(Kind.AGREE, said.x[0], refuse)
        return reduce_messages(said, [frame.payload for frame in heard.values()])

    async def _pass_barrier(self) -> None:
        for _ in self.members:
            await self.node.exchange(Kind.AGREE, np.zeros(1), _refuse_large)


def _refuse_large(array: Array) -> str:
    # Minus infinity says that a peer has nothing to offer.
    good = (np.abs(array) <= LARGEST) | np.isneginf(array)
    return "" if good.all() else f"numbers that are NaN, or of magnitude above {LARGEST:g}"
