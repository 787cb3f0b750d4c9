"""A runtime for the programs of the set-up, with this peer as a block of one user.

The loss of a link makes all peers restart the set-up (`RestartSetup`), so its results come from one
graph that all of them know. A barrier follows: a peer that has passed it knows that all others have
reached the end of the set-up, so none can restart it any more.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from peerclust.arrays import Array
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
from peerclust.runtimes.network.messages import LinkDown
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.views import Pair, reachable_peers
from peerclust.runtimes.network.wire import TAG_BYTES, Kind
from peerclust.runtimes.protocol import OnRound, Run, Traffic
from peerclust.users import Users

# The largest magnitude in a set-up; sums and squares of such numbers are still finite.
LARGEST = 1e100

_ROUNDING = 1e-6


def active_graph(graph: Graph, members: tuple[int, ...], lost: list[Pair]) -> Graph:
    """Return the graph of the members without the lost links; members are numbered from 0.

    >>> from peerclust.graphs import ring
    >>> active_graph(ring(4), (0, 1, 3), [])
    <Graph active links: m=3, edges=2>
    """
    index = {i: k for k, i in enumerate(members)}
    gone = set(lost)
    edges = [
        (index[i], index[j])
        for i, j in graph.pairs
        if i in index and j in index and (i, j) not in gone
    ]
    if len(edges) == graph.edges:
        return graph
    u, v = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return build(u, v, len(members), "active links")


def setup_tag(contract: Contract, lost: set[Pair], restarted: set[str]) -> bytes:
    """Return the tag of the frames of one attempt at the set-up."""
    attempt = messages.pack(LinkDown(sorted(lost), sorted(restarted)))
    return hashlib.sha256(b"agreement" + contract.digest + attempt).digest()[:TAG_BYTES]


class SetupRuntime:
    """A runtime that runs a program with the neighbors, with this peer as a block of one user."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.lost = sorted(node.lost)
        self.members = reachable_peers(node.contract.graph, node.lost, node.number)
        self.graph = active_graph(node.contract.graph, self.members, self.lost)
        self._D = int(self.graph.diameter.value)
        tag = setup_tag(node.contract, node.lost, node.restarted)
        node.start_setup(tag, self.members)

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
        """Run all rounds of the program; see `Runtime.run`."""
        if threshold >= 0 or on_round is not None:
            raise NotImplementedError("a set-up has neither a threshold nor a callback")
        return self.node.loop.run_until_complete(self._run(program, users, x, rounds))

    def pass_barrier(self) -> None:
        """Wait until every member has reached the end of the set-up."""
        self.node.setup_done = True
        self.node.loop.run_until_complete(self._pass_barrier())

    async def _run(self, program: Program, users: Users, x: Array, rounds: int) -> Run:
        executor = self.node.loop.run_in_executor
        # A start may read all rows; heartbeats go on meanwhile.
        state: Any = await executor(None, program.start, users, x)
        before = self.node.at
        largest = np.abs(x[0])
        if isinstance(program, Average):
            largest = await self._maximum(largest)
        while state.round < rounds:
            message = program.say(state)
            heard: HeardSum | HeardMax
            if isinstance(message, NetworkMax):
                heard = HeardMax(await self._maximum(message.v[0]))
            else:
                heard = await self._total(program, state.round, message, largest)
            state = program.hear(users, state, heard)
        messages_sent = (self.node.at - before) * len(self.node.active_links())
        return Run([state], rounds, False, Traffic(messages_sent, 0))

    async def _maximum(self, x: Array) -> Array:
        """Flood the maximum: after as many exchanges as the diameter, every member has it."""
        for _ in range(self._D):
            heard = await self.node.exchange(Kind.AGREE, x, _refuse_large)
            x = np.maximum.reduce([x, *(frame.payload for frame in heard.values())])
        return x

    async def _total(
        self, program: Any, round_: int, message: NeighborSum, largest: Array
    ) -> HeardSum:
        """Return the sum over neighbors; numbers above the program's maximum growth are refused."""
        limit = (
            largest * program.max_growth(round_, float(self.graph.degree.max())) * (1 + _ROUNDING)
        )

        def refuse(array: Array) -> str:
            return "" if (np.abs(array) <= limit).all() else "numbers larger than possible"

        heard = await self.node.exchange(Kind.AGREE, message.x[0], refuse)
        return reduce_messages(message, [frame.payload for frame in heard.values()])

    async def _pass_barrier(self) -> None:
        for _ in self.members:
            await self.node.exchange(Kind.AGREE, np.zeros(1), _refuse_large)


def _refuse_large(array: Array) -> str:
    # Minus infinity means that a peer has no value.
    valid = (np.abs(array) <= LARGEST) | np.isneginf(array)
    return "" if valid.all() else f"NaN, or a magnitude above {LARGEST:g}"
