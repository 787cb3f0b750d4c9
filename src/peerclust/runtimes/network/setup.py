"""A runtime for the programs of the set-up, with this peer as a block of one user.

The loss of a link makes all peers restart the set-up (`RestartSetup`), so its results come from one
graph that all of them know. A barrier follows: a peer that has passed it knows that all others have
reached the end of the set-up, so none can restart it any longer.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from peerclust.programs.protocol import HeardTotal, ToNeighbors, reduce_messages
from peerclust.ranks.distribution import Distribution
from peerclust.ranks.group import SingleProcess
from peerclust.runtimes.network.collectives import (
    LivingGraph,
    active_graph,
    reduce_over_network,
    refuse_large,
)
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.lockstep import Check
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.session import Stopping
from peerclust.runtimes.network.statements import digest_processes
from peerclust.runtimes.network.states import RunEvent
from peerclust.runtimes.network.views import Pair
from peerclust.runtimes.network.wire import TAG_BYTES, Kind
from peerclust.runtimes.protocol import Ballot, Delivered, Said, Traffic, agreed_ballot
from peerclust.runtimes.stopping import NEVER, Vote
from peerclust.users import Users

T = TypeVar("T")


def setup_tag(contract: Contract, lost: set[Pair], processes: str) -> bytes:
    """Return the tag of the frames of one attempt at the set-up, by certain processes."""
    attempt = repr((sorted(lost), processes)).encode()
    return hashlib.sha256(b"agreement" + contract.digest + attempt).digest()[:TAG_BYTES]


class SetupRuntime:
    """A runtime that delivers to the neighbors, with this peer as a block of one user.

    Programs run in a thread (`in_thread`), so that heartbeats go on in the event loop.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._session, self._lockstep = node, node.session, node.lockstep
        session, contract = node.session, node.session.contract
        lost, self.members = session.loop.run_until_complete(node.attempts.meet_members())
        self.lost = sorted(lost)
        known = node.flooding.gossip.processes
        self.processes = digest_processes(contract, [known[i] for i in self.members])
        graph = active_graph(contract.graph, self.members, self.lost)
        me = np.array([self.members.index(session.number)])
        self.distribution = Distribution(SingleProcess(), graph, [me])
        self._living = LivingGraph(graph, self.members, session.number)
        self._check: Check = refuse_large
        node.attempts.start(setup_tag(contract, lost, self.processes), self.members)
        node.membership.sync_phases()

    def in_thread(self, call: Callable[[], T]) -> T:
        """Return the result of a call that runs programs on this runtime."""
        return self._session.loop.run_until_complete(self._node.in_thread(call))

    def blocks(self, users: Users) -> list[Users]:
        """Return one block of this peer's user; the bounds of its rows limit what others send."""
        if users.bounds is not None:
            self._check = users.bounds.refuse
        return [users]

    def deliver(self, said: Said) -> Delivered:
        """Exchange with the neighbors, in the event loop, while this thread waits."""
        return asyncio.run_coroutine_threadsafe(self._deliver(said), self._session.loop).result()

    def close(self) -> None:
        """Do nothing: the node stays open."""

    def pass_barrier(self, results: bytes) -> None:
        """Wait until every member has reached the end of the set-up.

        `results` is a digest of its results. Raise Stopping if a neighbor has others: then some
        peer has sent different numbers to different peers, and nobody can tell which one.
        """
        self._session.move(RunEvent.COMPLETE)
        self._session.loop.run_until_complete(self._compare(results))

    async def _compare(self, results: bytes) -> None:
        mine, session = np.frombuffer(results, np.uint8).astype(float), self._session
        # As many exchanges as members, as in every barrier (`collectives`).
        for _ in self.members:
            frames = await self._lockstep.exchange(Kind.AGREE, mine, refuse_large)
            others = [i for i, frame in frames.items() if not np.array_equal(frame.array, mine)]
            if others:
                names = ", ".join(session.contract.names[i] for i in others)
                raise Stopping(
                    f"the set-up gave {session.name} other results than {names}: a site sent them"
                    " different numbers, or their machines compute differently"
                )

    async def _deliver(self, said: Said) -> Delivered:
        message, vote, session = said.messages[0], said.votes[0], self._session
        if not isinstance(message, ToNeighbors):
            before = session.at
            heard = await reduce_over_network(message, self._living, self._lockstep)
            sent = Traffic((session.at - before) * len(session.active_links()), 0)
            if isinstance(heard, HeardTotal):
                return Delivered([heard], sent, lambda: agreed_ballot(said.votes))
            return Delivered([heard], sent)
        frames = await self._lockstep.exchange(
            Kind.ROUND,
            message.x[0],
            self._check,
            s=int(vote.s[0]),
            R=int(vote.R[0]),
            extra_max=None if message.extra_max is None else message.extra_max[0],
        )
        near = list(frames.values())
        extra_max = [frame.extra_max for frame in near if frame.extra_max is not None]
        reduced = reduce_messages(message, [frame.array for frame in near], extra_max)
        s = min((frame.s for frame in near), default=NEVER)
        R = min((frame.R for frame in near), default=NEVER)
        least = Vote(np.array([s]), np.array([R]))
        ballot = Ballot(said.votes, [least], self._living.D)
        return Delivered([reduced], Traffic(len(near), 0), lambda: ballot)
