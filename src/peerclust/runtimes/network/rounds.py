"""The rounds of a program over the network, with this peer as a block of one user.

The loop over rounds is that of every runtime (`runtimes.loop`). Here, however, the set of neighbors
may change between rounds. It is recorded (`journal`) before anything that depends on it is sent, so
that a run can be replayed to the last bit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.programs.certificate import Certify, Found
from peerclust.programs.protocol import AnyProgram, S, State, ToNeighbors, reduce_messages
from peerclust.runtimes.loop import Conversation, advance, begin, converse
from peerclust.runtimes.network import wire
from peerclust.runtimes.network.journal import Journal
from peerclust.runtimes.network.lockstep import Check
from peerclust.runtimes.network.messages import Ended
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.setup import LARGEST, answer
from peerclust.runtimes.network.wire import Codes, Frame, Kind
from peerclust.runtimes.protocol import Ballot, Delivered, Run, Said, Snapshot
from peerclust.runtimes.stopping import NEVER, Vote, first_vote
from peerclust.users import Users

# If a step took longer than this, in seconds, the next one runs in a thread, so that heartbeats go
# on. The first step does so if there are more than this many values in the rows.
_LONG_STEP = 0.02
_MANY_VALUES = 1_000_000


class IsolatedError(Exception):
    """No neighbor could be reached for longer than `join_timeout`."""


class _Jumped(Exception):  # noqa: N818 - an event, not an error
    """The run continues from a later round."""


@dataclass(frozen=True, eq=False)
class Box:
    """The bounds of valid centers: the box of the data, widened by the program's overshoot."""

    low: Array
    high: Array

    def refuse(self, x: Array) -> str:
        """Return the reason why centers are invalid, or ""."""
        if kernels.all_in_box(x, self.low, self.high):
            return ""
        finite = np.isfinite(x).all()
        return f"centers {'outside the box of the data' if finite else 'that are not finite'}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a run: the state, its residual and the disagreement with the neighbors.

    `stopped` is whether the stopping rule ended the run, rather than the maximum number of rounds.
    `seconds` is the duration of this process's rounds. `found` is the joint certificate of all
    peers, None if a peer was lost.
    """

    state: State
    residual: float
    disagreement: float
    stopped: bool
    seconds: float
    found: Found | None


class RoundLoop:
    """One peer's run of a program, from centers x, (1, K, d), at a round.

    `state` is the state after the last exchange.
    """

    def __init__(
        self,
        node: Node,
        program: AnyProgram,
        users: Users,
        x: Array,
        round_: int,
        *,
        residual_scale: float,
        make_check: Callable[[State], Check],
        certify: Certify,
        degree: int,
        journal: Journal,
        on_round: Callable[[State], None] = lambda _: None,
    ) -> None:
        self.node, self.program, self.users = node, program, users
        self.make_check, self.journal, self.on_round = make_check, journal, on_round
        self.certify, self._degree = certify, degree
        self.residual_scale = residual_scale
        tol = node.contract.tol
        self.threshold = tol * residual_scale if tol > 0 else -1.0
        self._start(x, round_)
        # The checksum of the views in which votes are cast, and the diameter of this component.
        self._view, self._D = -1, 0
        # The duration of the last step; the first one reads all rows.
        self._step_seconds = np.inf if users.rows.size > _MANY_VALUES else 0.0

    def run(self) -> Outcome:
        """Run to the end."""
        self.journal.start(self.state.round, self.state.x[0])
        return self.node.loop.run_until_complete(self._run())

    def _start(self, x: Array, round_: int) -> None:
        self._keep(begin(self.program, [self.users], [x], round_))

    def _keep(self, snapshot: Snapshot[State]) -> None:
        """Keep the state and the votes between two rounds."""
        self._snapshot, self.state = snapshot, snapshot.states[0]

    async def _run(self) -> Outcome:
        node, begun = self.node, perf_counter()
        run = await self._run_rounds()
        state = run.states[0]
        # The residual at the end needs one more exchange.
        node.at = run.rounds * node.contract.B
        more = converse(self.program, [self.users], self._snapshot, rounds=run.rounds + 1)
        said = advance(more)
        assert isinstance(said, Said)
        after = await self._advance(more, await self._exchange(said))
        own = after.states[0].max_residual / self.residual_scale
        residual = min(own, LARGEST)  # an unknown one is larger
        disagreement, found = await self._compute_certificate()
        seconds = perf_counter() - begun
        outcome = Outcome(state, residual, disagreement, run.stopped, seconds, found)
        self.journal.end(run.rounds, state.x[0])
        node.phase = "done"
        ended = Ended(run.rounds, outcome.residual, outcome.disagreement)
        node.publish_view(round_=run.rounds, ended=ended)
        return outcome

    async def _run_rounds(self) -> Run[State]:
        """Run all rounds; if the neighbors have reached a later one, continue from there."""

        def on_checkpoint(snapshot: Snapshot[State]) -> None:
            self._keep(snapshot)
            self.on_round(snapshot.states[0])

        while True:
            rounds = converse(
                self.program,
                [self.users],
                self._snapshot,
                rounds=self.node.contract.rounds,
                threshold=self.threshold,
                on_checkpoint=on_checkpoint,
            )
            with suppress(_Jumped):
                return await self._drive(rounds, self._deliver)

    async def _drive(
        self,
        conversation: Conversation[S],
        deliver: Callable[[Said], Awaitable[Delivered]],
        *,
        in_thread: bool = False,
    ) -> Run[S]:
        """Advance a conversation to its end."""
        at = advance(conversation)
        while isinstance(at, Said):
            at = await self._advance(conversation, await deliver(at), in_thread=in_thread)
        return at

    async def _advance(
        self,
        conversation: Conversation[S],
        delivered: Delivered,
        *,
        in_thread: bool = False,
    ) -> Said | Run[S]:
        """Advance a conversation by one step; in a thread if it may take long."""
        begun = perf_counter()
        if in_thread or self._step_seconds > _LONG_STEP:
            executor = self.node.loop.run_in_executor
            at = await executor(None, advance, conversation, delivered)
        else:
            at = advance(conversation, delivered)
        self._step_seconds = perf_counter() - begun
        return at

    async def _start_round(self) -> None:
        """Wait for links that block this round, and for a neighbor if none is active."""
        node, links = self.node, self.node.links.values()
        limit = 0.0
        while True:
            now = self.state.round
            active = node.active_links()
            if active and not any(link.blocks_round(now) for link in links):
                break
            limit = limit or node.loop.time() + node.contract.join_timeout
            later = [link.active_from for link in links if link.active and link.active_from > now]
            # Another neighbor may still answer with an earlier round.
            first = min(later, default=now)
            if later and not active and not any(link.blocks_round(first) for link in links):
                self._jump(first)
                continue
            for link in links:
                if not active and not later and link.phase == "done":
                    node.request_state(link)
            if not await node.wait_until(limit) and not node.active_links():
                raise IsolatedError

    def _jump(self, round_: int) -> None:
        """Continue from a later round, which the neighbors have already reached."""
        self._start(self.state.x, round_)
        self.node.at = round_ * self.node.contract.B
        self.journal.start(round_, self.state.x[0])

    async def _deliver(self, said: Said) -> Delivered:
        """Exchange messages, in the first exchange of a round as soon as the round can start."""
        self.state = said.states[0]
        if self.state.update == 0:
            await self._start_round()
            if self.state is not said.states[0]:
                raise _Jumped
        return await self._exchange(said)

    async def _exchange(self, said: Said) -> Delivered:
        at, message, vote, state = self.node.at, said.messages[0], said.votes[0], said.states[0]
        assert isinstance(message, ToNeighbors)
        codes = None
        if message.codes is not None:
            codes = Codes(int(message.codes[1][0]), message.codes[0][0])
        single = self.node.contract.exchange == "float32"
        frames = await self.node.exchange(
            Kind.ROUND,
            message.x[0],
            self.make_check(state),
            s=int(vote.s[0]),
            R=int(vote.R[0]),
            view=max(self._view, 0),
            extra_max=None if message.extra_max is None else message.extra_max[0],
            codes=codes,
            dtype=wire.FLOAT32 if single else wire.FLOAT64,
        )
        self.journal.heard(at, list(frames))
        heard = list(frames.values())
        extra_max = [frame.extra_max for frame in heard if frame.extra_max is not None]
        reduced = reduce_messages(message, [frame.array for frame in heard], extra_max)
        if self.threshold < 0 or state.update > 0:
            return Delivered([reduced])
        # The views may change while the block hears, in another thread.
        ballot = self._ballot(vote, heard)
        return Delivered([reduced], ballot=lambda: ballot)

    def _ballot(self, vote: Vote, heard: list[Frame]) -> Ballot:
        """Return the vote and the neighbors'; votes that were cast in other views are ignored."""
        view = self.node.views.checksum
        if view != self._view:
            self._view, self._D = view, self.node.views.diameter(self.node.number)
            vote = first_vote(1)
        near = [frame for frame in heard if frame.view == view]
        s = min((frame.s for frame in near), default=NEVER)
        R = min((frame.R for frame in near), default=NEVER)
        least = Vote(np.array([s if len(near) == len(heard) else 0]), np.array([R]))
        return Ballot([vote], [least], self._D)

    async def _compute_certificate(self) -> tuple[float, Found | None]:
        """Return the disagreement with the neighbors, and the joint certificate of all peers.

        The latter is None if a peer was lost since the set-up, as averages need all of them.
        """
        program, users = self.certify, [self.users]
        self.node.last_round = self.state.round
        first: list[Array] | None = None
        valid = True

        async def exchange(mine: Array) -> list[Array]:
            nonlocal first, valid
            arrays, ok = await self._exchange_numbers(mine)
            first, valid = arrays if first is None else first, valid and ok
            return arrays

        async def deliver(said: Said) -> Delivered:
            return Delivered([await answer(said.messages[0], program.D, exchange)])

        snapshot = begin(program, users, [self.state.x])
        conversation = converse(program, users, snapshot, rounds=program.rounds)
        # Some of its steps read all rows.
        run = await self._drive(conversation, deliver, in_thread=True)
        return self._disagreement(first or []), program.read(run.states[0]) if valid else None

    async def _exchange_numbers(self, mine: Array) -> tuple[list[Array], bool]:
        """Return the neighbors' arrays, and whether all have come and none is out of range.

        The rounds are over, so an array out of range spoils the certificate but not the result.
        """
        sane = np.clip(np.nan_to_num(mine), -LARGEST, LARGEST)
        heard = await self.node.exchange(Kind.AGREE, sane, lambda _: "")
        arrays = [frame.array for frame in heard.values()]
        valid = len(arrays) == self._degree
        for n, array in enumerate(arrays):
            if not (np.abs(array) < LARGEST).all():
                arrays[n], valid = np.zeros_like(array), False
        return arrays, valid

    def _disagreement(self, centers: list[Array]) -> float:
        """Return the mean over k of the largest distance to a neighbor's center k."""
        own = self.state.x[0]
        distances = [np.linalg.norm(each - own, axis=1) for each in centers]
        return float(np.max(distances, axis=0).mean()) if distances else 0.0
