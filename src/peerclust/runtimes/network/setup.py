"""A runtime for the programs of the set-up, with this peer as a block of one user.

The loss of a link makes all peers restart the set-up (`RestartSetup`), so its results come from one
graph that all of them know. A barrier follows: a peer that has passed it knows that all others have
reached the end of the set-up, so none can restart it any more.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import numpy as np

from peerclust.arrays import Array
from peerclust.graphs import Graph
from peerclust.graphs.graph import build
from peerclust.programs.consensus import growth
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    Message,
    NetworkMax,
    ToNeighbors,
    reduce_messages,
)
from peerclust.ranks.distribution import Distribution
from peerclust.ranks.group import SingleProcess
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.lockstep import Check
from peerclust.runtimes.network.messages import LinkDown
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.views import Pair, reachable_peers
from peerclust.runtimes.network.wire import TAG_BYTES, Kind
from peerclust.runtimes.protocol import Delivered, Said, Traffic
from peerclust.users import Users

# The largest magnitude in a set-up; sums and squares of such numbers are still finite.
LARGEST = 1e100

_ROUNDING = 1e-6

T = TypeVar("T")


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


async def answer(
    said: Message[Heard], D: int, exchange: Callable[[Array], Awaitable[list[Array]]]
) -> Heard:
    """Return what a block of one user hears; `exchange` sends an array and returns the neighbors'.

    A maximum is flooded: after as many exchanges as the diameter D, every member has it.
    """
    if isinstance(said, NetworkMax):
        largest = said.v[0]
        for _ in range(D):
            largest = np.maximum.reduce([largest, *await exchange(largest)])
        return HeardMax(largest)
    assert isinstance(said, ToNeighbors)
    return reduce_messages(said, await exchange(said.x[0]))


class SetupRuntime:
    """A runtime that delivers to the neighbors, with this peer as a block of one user.

    Programs run in a thread (`in_thread`), so that heartbeats go on in the event loop.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.lost = sorted(node.lost)
        self.members = reachable_peers(node.contract.graph, node.lost, node.number)
        graph = active_graph(node.contract.graph, self.members, self.lost)
        me = np.array([self.members.index(node.number)])
        self.distribution = Distribution(SingleProcess(), graph, [me])
        self._D = int(graph.diameter.value)
        # The largest magnitude with which any peer started to average.
        self._largest = np.empty(0)
        tag = setup_tag(node.contract, node.lost, node.restarted)
        node.start_setup(tag, self.members)

    def in_thread(self, call: Callable[[], T]) -> T:
        """Return the result of a call that runs programs on this runtime."""
        return self.node.loop.run_until_complete(self.node.loop.run_in_executor(None, call))

    def blocks(self, users: Users) -> list[Users]:
        """Return one block of this peer's user."""
        return [users]

    def deliver(self, said: Said) -> Delivered:
        """Exchange with the neighbors, in the event loop, while this thread waits."""
        return asyncio.run_coroutine_threadsafe(self._deliver(said), self.node.loop).result()

    def close(self) -> None:
        """Do nothing: the node stays open."""

    def pass_barrier(self) -> None:
        """Wait until every member has reached the end of the set-up."""
        self.node.setup_done = True
        self.node.loop.run_until_complete(self._pass_barrier())

    async def _deliver(self, said: Said) -> Delivered:
        message, before = said.messages[0], self.node.at
        check: Check = _refuse_large
        if isinstance(message, ToNeighbors):
            check = await self._limit_growth(message.x[0], said.states[0].round)
        heard = await answer(message, self._D, lambda array: self._exchange(array, check))
        sent = (self.node.at - before) * len(self.node.active_links())
        return Delivered([heard], Traffic(sent, 0))

    async def _exchange(self, array: Array, check: Check) -> list[Array]:
        heard = await self.node.exchange(Kind.AGREE, array, check)
        return [frame.array for frame in heard.values()]

    async def _limit_growth(self, x: Array, round_: int) -> Check:
        """Return the check of an average in a round: numbers that cannot be reached are refused.

        A set-up averages with the factors of the graph; its peers first agree on the largest
        magnitude.
        """
        graph = self.distribution.graph
        if round_ == 0:
            largest = await answer(
                NetworkMax(np.abs(x)[None]), self._D, lambda v: self._exchange(v, _refuse_large)
            )
            assert isinstance(largest, HeardMax)
            self._largest = largest.v
        factor = growth(graph.averaging_factors[:round_], float(graph.degree.max()))
        limit = self._largest * factor * (1 + _ROUNDING)

        def refuse(array: Array) -> str:
            return "" if (np.abs(array) <= limit).all() else "numbers larger than possible"

        return refuse

    async def _pass_barrier(self) -> None:
        for _ in self.members:
            await self._exchange(np.zeros(1), _refuse_large)


def _refuse_large(array: Array) -> str:
    # Minus infinity means that a peer has no value.
    valid = (np.abs(array) <= LARGEST) | np.isneginf(array)
    return "" if valid.all() else f"NaN, or a magnitude above {LARGEST:g}"
