"""The plan of a run over the network, with this peer as a block of one user.

The loop over rounds is that of every runtime (`runtimes.loop`), and the plan is that of `cluster`
(`runtimes.convergence`). Here, however, the set of neighbors may change between rounds. It is
recorded (`journal`) before anything that depends on it is sent, so that a run can be replayed to
the last bit. Tasks that are not solvers are agreements of all peers that are connected to this one;
they begin again if that changes (`membership`).

Once the network has changed, the plan is given up at the next agreement: costs of different
networks cannot be compared, and a peer that joined late does not know where in the plan the others
are. From then on, the solver runs until a certificate shows that it has converged, and with every
certificate the peers agree on the `Place` where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

import numpy as np

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.programs.certificate import Found
from peerclust.programs.protocol import HeardSum, State, ToNeighbors, reduce_messages
from peerclust.runtimes.convergence import FIRST_WAIT, CheckedRun, Plan, Task, next_task
from peerclust.runtimes.loop import Conversation, advance, begin, converse
from peerclust.runtimes.network import wire
from peerclust.runtimes.network.agreements import Agreements, NetworkChanged
from peerclust.runtimes.network.collectives import LARGEST
from peerclust.runtimes.network.journal import Journal
from peerclust.runtimes.network.lockstep import Called, Check
from peerclust.runtimes.network.messages import Record
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.plan import Place, RunPlan
from peerclust.runtimes.network.record import Span
from peerclust.runtimes.network.states import RunEvent
from peerclust.runtimes.network.wire import Codes, Frame, Kind
from peerclust.runtimes.protocol import (
    Ballot,
    Delivered,
    Run,
    Said,
    Snapshot,
    Traffic,
    agreed_ballot,
)
from peerclust.runtimes.stopping import NEVER, Vote, first_vote
from peerclust.theory import Curvature

# If a step took longer than this, in seconds, the next one runs in a thread, so that heartbeats go
# on. The first step does so if there are more than this many values in the rows.
_LONG_STEP = 0.02
_MANY_VALUES = 1_000_000


class IsolatedError(Exception):
    """No neighbor could be reached for longer than `join_timeout`."""


class _Jumped(Exception):  # noqa: N818 - an event, not an error
    """The run continues from a later round."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a run: the state, and what the peers that were connected found together.

    `residual` is the site's own at the start of its last round, over the data's spread. `stopped`
    is whether the peers ended the run, rather than the maximum number of rounds. `seconds` is the
    duration of this process's rounds.
    """

    state: State
    residual: float
    stopped: bool
    seconds: float
    found: Found
    place: Place


class RoundLoop:
    """The runs of one peer, from centers x, (1, K, d), at a round.

    `curvature` is what all agreed on before the run; this site's own is computed from x. `state` is
    the state after the last exchange.
    """

    def __init__(
        self,
        node: Node,
        plan: RunPlan,
        x: Array,
        round_: int,
        *,
        curvature: Curvature,
        check: Check,
        journal: Journal,
        on_round: Callable[[State], None] = lambda _: None,
    ) -> None:
        self._node, self._session, self._membership = node, node.session, node.membership
        self._contract, self._lockstep = node.session.contract, node.lockstep
        self.plan, self._users = plan, plan.users
        self._check, self._journal, self._on_round = check, journal, on_round
        self._curvature = curvature
        self._agreements = Agreements(node, plan.users, check)
        self._keep(begin(plan.program, [plan.users], [x], round_))
        # The checksum of the views in which votes are cast, and the diameter of this component.
        self._view, self._D = -1, 0
        # The duration of the last step; the first one reads all rows.
        self._step_seconds = np.inf if plan.users.rows.size > _MANY_VALUES else 0.0

    def run(self, make: Callable[[Snapshot[State]], Plan[CheckedRun]]) -> Outcome:
        """Carry out a plan from the start; it returns the run whose end is the result.

        A peer that joins late is not heard before the round to which it jumps.
        """
        if not self.plan.late:
            self._journal.start(self.state.round, self.state.x[0])
        return self._session.loop.run_until_complete(self._run(make))

    def _keep(self, snapshot: Snapshot[State]) -> None:
        """Keep the state and the votes between two rounds."""
        self._snapshot, self.state = snapshot, snapshot.states[0]

    async def _run(self, make: Callable[[Snapshot[State]], Plan[CheckedRun]]) -> Outcome:
        begun = perf_counter()
        run, found = await self._carry_out(make)
        rounds = self.state.round
        state = run.states[0].at_round(rounds)
        if not np.array_equal(state.x, self.state.x):
            # The result is that of an earlier run.
            self._journal.start(rounds, state.x[0])
        self._journal.end(self._session.at, rounds, state.x[0])
        # After a change of the network, others may have been a round ahead.
        place = self.plan.place._replace(round=max(rounds, self.plan.place.round))
        state = state.at_round(place.round)
        self._keep(replace(self._snapshot, states=[state]))
        residual = min(state.max_residual / self.plan.spread, LARGEST)  # an unknown one is larger
        return Outcome(state, residual, run.stopped, perf_counter() - begun, found, place)

    async def sign_record(
        self, outcome: Outcome, make: Callable[[Sequence[int], list[list[Span]]], Record]
    ) -> Record:
        """Sign the joint record of the run, and end it.

        `make` returns it, from the members of the last agreement and the rounds of every peer.
        """
        self._session.move(RunEvent.SIGN)
        rounds, members = outcome.state.round, self._agreements.members
        record = await self._node.signing.sign(members, rounds, partial(make, members))
        self._membership.end_run(rounds)
        return record

    async def _carry_out(
        self, make: Callable[[Snapshot[State]], Plan[CheckedRun]]
    ) -> tuple[Run[State], Found]:
        """Carry out the plan of the run, as long as the network does not change."""
        # Some of its steps read all rows, and heartbeats must go on.
        in_thread = self._node.in_thread
        plan = make(await in_thread(self._first_snapshot))
        task = await in_thread(partial(next_task, plan))
        try:
            while isinstance(task, Task):
                carry_out = self._run_rounds if task.iterates else self._agreements.run
                run = await carry_out(task)
                task = await in_thread(partial(next_task, plan, run))
        except NetworkChanged:
            return await self._finish()
        return task.result.run, task.result.found

    async def _finish(self) -> tuple[Run[State], Found]:
        """Run until a certificate of the peers that are left shows that they have converged.

        All that is decided here follows from what they agree on, so all decide the same.
        """
        plan, wait = self.plan, FIRST_WAIT
        while True:
            mine = plan.place._replace(round=self.state.round)
            end, place = await self._agreements.certify(plan.certify, self.state.x, mine)
            found, plan.place = plan.certify.read(end), place
            stopped = found.residual <= plan.threshold
            if stopped or place.round >= place.limit:
                return Run([self.state], place.round, stopped, Traffic()), found
            state = self.state.with_stiffness(end.stiffness)
            start = Snapshot([state], [first_vote(1)], Traffic(), vote_from=place.round + wait)
            task = Task(plan.program, start, place.limit, plan.threshold, iterates=True)
            await self._run_rounds(task)
            wait *= 2

    def _first_snapshot(self) -> Snapshot[State]:
        """Return the start, with the stiffness of this site's centers."""
        state, users = self.state, self._users
        H = users.local_curvature(users.assign(state.x), state.x)
        stiffness = self._curvature._replace(own=H).stiffness(self.plan.certify.penalty_curvature)
        return replace(self._snapshot, states=[state.with_stiffness(stiffness)])

    # Rounds

    async def _run_rounds(self, task: Task) -> Run[State]:
        """Run a solver; if the neighbors have reached a later round, continue from there.

        The rounds of all solvers of a plan are counted together.
        """

        def on_checkpoint(snapshot: Snapshot[State]) -> None:
            self._keep(snapshot)
            self._on_round(snapshot.states[0])

        start, before = task.start, self.state
        if not isinstance(start, Snapshot):
            start = begin(task.program, [self._users], [start], before.round)
        self._keep(start)
        # A solver that begins anew forgets its momentum, even if its centers remain.
        if start is self.plan.anew or not np.array_equal(self.state.x, before.x):
            self._journal.start(self.state.round, self.state.x[0])
        self._membership.resume_rounds()
        while True:
            rounds = converse(
                task.program,
                [self._users],
                self._snapshot,
                rounds=task.rounds,
                threshold=task.threshold,
                on_checkpoint=on_checkpoint,
            )
            try:
                return await self._drive(rounds)
            except _Jumped:
                continue
            except Called:
                # A neighbor proposed to stop; this peer missed that, as the views changed.
                return Run([self.state], self.state.round, True, Traffic())

    async def _drive(self, rounds: Conversation[State]) -> Run[State]:
        """Advance the rounds to their end; in a thread where a step may take long."""
        at = advance(rounds)
        while isinstance(at, Said):
            delivered = await self._deliver(at)
            begun = perf_counter()
            if self._step_seconds > _LONG_STEP or kernels.may_compile():
                at = await self._node.in_thread(partial(advance, rounds, delivered))
            else:
                at = advance(rounds, delivered)
            self._step_seconds = perf_counter() - begun
        return at

    async def _start_round(self) -> None:
        """Wait for links that block this round, and for a neighbor if none is active."""
        session, links = self._session, self._session.links.values()
        limit = 0.0
        while True:
            now = self.state.round
            active = session.active_links()
            if active and not any(link.blocks_round(now) for link in links):
                break
            if active:
                # The watchdog drops a neighbor that does not answer.
                await session.wait()
                continue
            limit = limit or session.loop.time() + self._contract.join_timeout
            later = [link.active_from for link in links if link.active and link.active_from > now]
            # Another neighbor may still answer with an earlier round.
            first = min(later, default=now)
            if later and not any(link.blocks_round(first) for link in links):
                self._jump(first)
                continue
            for link in links:
                if not later and link.phase == "done":
                    self._membership.request_state(link)
            if not await session.wait_until(limit) and not session.active_links():
                raise IsolatedError

    def _jump(self, round_: int) -> None:
        """Continue from a later round, which the neighbors have already reached."""
        stiffness, snapshot = self.state.stiffness, self._snapshot
        again = begin(
            self.plan.program, [self._users], [self.state.x], round_, stiffness=[stiffness]
        )
        self._keep(replace(again, vote_from=snapshot.vote_from))
        self._node.view_exchange.skip_rounds(round_)
        self._session.at = round_ * self._contract.B
        self._journal.start(round_, self.state.x[0])

    async def _deliver(self, said: Said) -> Delivered:
        """Exchange messages, in the first exchange of a round as soon as the round can start."""
        self.state = said.states[0]
        self._session.at = self.state.round * self._contract.B + self.state.update
        if self.state.update == 0:
            await self._start_round()
            if self.state is not said.states[0]:
                raise _Jumped
        message = said.messages[0]
        if isinstance(message, ToNeighbors):
            return await self._exchange(message, said)
        heard = await self._agreements.reduce(message)
        session = self._session
        self._journal.heard(session.at, self._agreements.neighbors)
        session.at += 1
        return Delivered([heard], ballot=lambda: agreed_ballot(said.votes))

    async def _exchange(self, message: ToNeighbors[HeardSum], said: Said) -> Delivered:
        at, vote, state = self._session.at, said.votes[0], said.states[0]
        codes = None
        if message.codes is not None:
            codes = Codes(int(message.codes[1][0]), message.codes[0][0])
        single = self._contract.exchange == "float32"
        frames = await self._lockstep.exchange(
            Kind.ROUND,
            message.x[0],
            self._check,
            s=int(vote.s[0]),
            R=int(vote.R[0]),
            view=max(self._view, 0),
            extra_max=None if message.extra_max is None else message.extra_max[0],
            codes=codes,
            dtype=wire.FLOAT32 if single else wire.FLOAT64,
        )
        self._journal.heard(at, list(frames))
        heard = list(frames.values())
        extra_max = [frame.extra_max for frame in heard if frame.extra_max is not None]
        reduced = reduce_messages(message, [frame.array for frame in heard], extra_max)
        if self.plan.threshold < 0 or state.update > 0:
            return Delivered([reduced])
        # The views may change while the block hears, in another thread.
        ballot = self._ballot(vote, heard)
        return Delivered([reduced], ballot=lambda: ballot)

    def _ballot(self, vote: Vote, heard: list[Frame]) -> Ballot:
        """Return the vote and the neighbors'; votes that were cast in other views are ignored."""
        views = self._membership.views
        view = views.checksum
        if view != self._view:
            self._view, self._D = view, views.diameter(self._session.number)
            vote = first_vote(1)
        near = [frame for frame in heard if frame.view == view]
        s = min((frame.s for frame in near), default=NEVER)
        R = min((frame.R for frame in near), default=NEVER)
        least = Vote(np.array([s if len(near) == len(heard) else 0]), np.array([R]))
        return Ballot([vote], [least], self._D)
