"""What the peers of a run agree on between and in its rounds, whoever of them is connected.

An agreement is a program that ends after a few exchanges of its own (`lockstep`): a certificate, or
a sum. It begins again if the network changes meanwhile, and ends with a barrier (`membership`). The
messages of some solvers are agreements too, without a barrier: sums or maxima over the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.certificate import Certify, CertifyState
from peerclust.programs.limits import Limits
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    HeardTotal,
    Message,
    NetworkMax,
    State,
    ToNeighbors,
    reduce_messages,
)
from peerclust.programs.swaps import MAX_MOVES
from peerclust.runtimes.convergence import Task
from peerclust.runtimes.loop import advance, begin, converse
from peerclust.runtimes.network.collectives import (
    LivingGraph,
    active_graph,
    pass_barrier,
    reduce_over_network,
)
from peerclust.runtimes.network.lockstep import Called, Check
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.session import ViewChanged
from peerclust.runtimes.network.states import RunEvent
from peerclust.runtimes.network.wire import Kind
from peerclust.runtimes.protocol import Delivered, Run, Said, Snapshot
from peerclust.users import Users


class NetworkChanged(Exception):  # noqa: N818 - an event, not an error
    """The network of an agreement is not the one of the set-up, or was not all the time."""


class Place(NamedTuple):
    """Where a peer is in the plan of a run; a number that it does not know is 0.

    `limit` is the maximum number of rounds, those of earlier runs of the plan included.
    `search_from` is the round in which the search began; `moves` are its moves so far, `kept` those
    that were kept.
    """

    round: int = 0
    limit: int = 0
    search_from: int = 0
    moves: int = 0
    kept: int = 0


class Agreements:
    """The agreements of one peer with the others; `check` refuses arrays of its neighbors."""

    def __init__(self, node: Node, users: Users, check: Check) -> None:
        self._node, self._session, self._membership = node, node.session, node.membership
        self._lockstep, self._users, self._check = node.lockstep, users, check
        # The graph of the last agreement, with the checksum of its views.
        self._living: tuple[int, LivingGraph] | None = None

    @property
    def members(self) -> Sequence[int]:
        """The peers of the last agreement."""
        assert self._living is not None
        return self._living[1].members

    async def run(self, task: Task) -> Run[State]:
        """Run the program of a task with all peers of the set-up."""
        while True:
            with suppress(ViewChanged, Called):
                living = self._begin()
                if self._membership.views.checksum:
                    raise NetworkChanged
                run = await self._converse(task, living)
                await self._end(living)
                return run

    async def certify(self, certify: Certify, x: Array, mine: Place) -> tuple[CertifyState, Place]:
        """Certify the centers of all peers that are connected, and agree on the latest place."""
        while True:
            with suppress(ViewChanged, Called):
                living = self._begin()
                # The graph is no longer the one that all agreed on.
                certify = replace(certify, lambda_2=living.graph.lambda_2.value)
                run = await self._converse(Task(certify, x, certify.rounds), living)
                latest = await self._find_latest(mine, living)
                await self._end(living)
                return cast("CertifyState", run.states[0]), latest

    async def reduce(self, message: Message[Heard]) -> HeardMax | HeardTotal:
        """Return the maximum or sum over the network that a round begins with."""
        while True:
            with suppress(ViewChanged, Called):
                heard = await reduce_over_network(message, self._begin(), self._lockstep)
                self._membership.end_agreement()
                return heard

    def _begin(self) -> LivingGraph:
        """Begin an agreement; return the graph of its members."""
        session, membership = self._session, self._membership
        members = membership.begin_agreement()
        assert session.agreement is not None
        view = session.agreement.view
        if self._living is None or self._living[0] != view:
            lost = membership.views.lost_links(members)
            graph = active_graph(session.contract.graph, members, lost)
            self._living = view, LivingGraph(graph, members, session.number)
        return self._living[1]

    async def _end(self, living: LivingGraph) -> None:
        """Wait until all have the result."""
        self._session.move(RunEvent.COMPLETE)
        await pass_barrier(living, self._lockstep)
        self._membership.end_agreement()

    async def _converse(self, task: Task, living: LivingGraph) -> Run[State]:
        assert not isinstance(task.start, Snapshot)
        start = begin(task.program, [self._users], [task.start])
        conversation = converse(task.program, [self._users], start, rounds=task.rounds)
        at = advance(conversation)
        while isinstance(at, Said):
            delivered = Delivered([await self._answer(at.messages[0], living)])
            # Some steps read all rows, and heartbeats must go on.
            at = await self._node.in_thread(partial(advance, conversation, delivered))
        return at

    async def _answer(self, message: Message[Heard], living: LivingGraph) -> Heard:
        if not isinstance(message, ToNeighbors):
            return await reduce_over_network(message, living, self._lockstep)
        frames = await self._lockstep.exchange(Kind.AGREE, message.x[0], self._check)
        return reduce_messages(message, [frame.array for frame in frames.values()])

    async def _find_latest(self, mine: Place, living: LivingGraph) -> Place:
        """Return the largest numbers that a peer knows."""
        contract = self._session.contract
        last, moves = contract.max_round, MAX_MOVES if contract.searches else 0
        limits = Limits.of(("round", 3, 0, last), ("number of moves", 2, 0, moves))
        said = NetworkMax(np.array([mine], dtype=float), limits)
        heard = await reduce_over_network(said, living, self._lockstep)
        latest = Place(*(int(each) for each in heard.v))
        # If nobody is left that knows the limit, only that of all runs together holds.
        return latest._replace(limit=latest.limit or last)
