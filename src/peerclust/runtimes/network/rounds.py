"""The rounds of a program over the network, with this peer as a block of one user.

The calls of `say` and `hear` are those of every runtime. Here, however, the set of neighbors may
change between rounds. It is recorded (`journal`) before anything that depends on it is sent, so
that a run can be replayed to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.programs.certificate import Certify, Found
from peerclust.programs.protocol import (
    HeardMax,
    NeighborSum,
    NetworkMax,
    Program,
    reduce_messages,
)
from peerclust.runtimes.network import wire
from peerclust.runtimes.network.journal import Journal
from peerclust.runtimes.network.lockstep import Check
from peerclust.runtimes.network.messages import Ended
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.setup import LARGEST
from peerclust.runtimes.network.wire import Codes, Frame, Kind
from peerclust.runtimes.protocol import check_finite
from peerclust.runtimes.stopping import NEVER, Vote, first_vote, next_vote
from peerclust.users import Users

# If a step took longer than this, in seconds, the next one runs in a thread, so that heartbeats go
# on. The first step does so if there are more than this many values in the rows.
_LONG_STEP = 0.02
_MANY_VALUES = 1_000_000


class IsolatedError(Exception):
    """No neighbor could be reached for longer than `join_timeout`."""


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

    state: Any
    residual: float
    disagreement: float
    stopped: bool
    seconds: float
    found: Found | None


class RoundLoop:
    """One peer's run of a program."""

    def __init__(
        self,
        node: Node,
        program: Program,
        users: Users,
        *,
        residual_scale: float,
        make_check: Callable[[Any], Check],
        certify: Certify,
        degree: int,
        journal: Journal,
        on_round: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self.node, self.program, self.users = node, program, users
        self.make_check, self.journal, self.on_round = make_check, journal, on_round
        self.certify, self._degree = certify, degree
        self.residual_scale = residual_scale
        tol = node.contract.tol
        self.threshold = tol * residual_scale if tol > 0 else -1.0
        self.state: Any = None
        self._vote = first_vote(1)
        # The checksum of the views in which votes are cast, and the diameter of this component.
        self._view, self._D = -1, 0
        # The duration of the last step; the first one reads all rows.
        self._step_seconds = np.inf if users.rows.size > _MANY_VALUES else 0.0

    def run(self, x: Array, round_: int) -> Outcome:
        """Run from centers x, (1, K, d), at a round."""
        self.state = self.program.start(self.users, x).at_round(round_)
        self.journal.start(round_, x[0])
        return self.node.loop.run_until_complete(self._run())

    async def _run(self) -> Outcome:
        node, rounds = self.node, self.node.contract.rounds
        begin = perf_counter()
        while self.state.round < rounds:
            if self.state.update == 0:
                await self._start_round()
                if self.state.round >= rounds:
                    break  # a link rejoins only after the last round
            now, voting = self.state.round, self.threshold >= 0 and self.state.update == 0
            heard = await self._exchange()
            self.state = await self._hear(heard)
            if voting:
                check_finite(self.state.residual, now + 1)
                self._cast(heard, now)
            if self.state.update == 0:
                self.on_round(self.state)
                if self._vote.due(now):
                    break
        stopped = self._vote.due(self.state.round - 1)
        # The residual at the end needs one more exchange.
        node.at = self.state.round * node.contract.B
        heard = await self._exchange()
        own = float((await self._hear(heard)).residual.max()) / self.residual_scale
        residual = min(own, LARGEST)  # an unknown one is larger
        disagreement, found = await self._compute_certificate()
        seconds = perf_counter() - begin
        outcome = Outcome(self.state, residual, disagreement, stopped, seconds, found)
        self.journal.end(self.state.round, self.state.x[0])
        node.phase = "done"
        ended = Ended(self.state.round, outcome.residual, outcome.disagreement)
        node.publish_view(round_=self.state.round, ended=ended)
        return outcome

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
        self.state = self.program.start(self.users, self.state.x).at_round(round_)
        self.node.at = round_ * self.node.contract.B
        self.journal.start(round_, self.state.x[0])
        self._vote = first_vote(1)

    async def _exchange(self) -> dict[int, Frame]:
        at, message = self.node.at, self._say()
        s, R = int(self._vote.s[0]), int(self._vote.R[0])
        codes = None
        if message.codes is not None:
            codes = Codes(int(message.codes[1][0]), message.codes[0][0])
        single = self.node.contract.exchange == "float32"
        heard = await self.node.exchange(
            Kind.ROUND,
            message.x[0],
            self.make_check(self.state),
            s=s,
            R=R,
            view=max(self._view, 0),
            extra_max=None if message.extra_max is None else message.extra_max[0],
            codes=codes,
            dtype=wire.FLOAT32 if single else wire.FLOAT64,
        )
        self.journal.heard(at, list(heard))
        return heard

    def _say(self) -> NeighborSum:
        message = self.program.say(self.state)
        assert isinstance(message, NeighborSum)
        return message

    async def _hear(self, frames: dict[int, Frame]) -> Any:
        """Return the state after these frames."""
        arrays = [frame.payload for frame in frames.values()]
        extra_max = [frame.extra_max for frame in frames.values()]
        heard = reduce_messages(self._say(), arrays, extra_max)
        begin = perf_counter()
        if self._step_seconds > _LONG_STEP:
            loop = self.node.loop
            state = await loop.run_in_executor(
                None, self.program.hear, self.users, self.state, heard
            )
        else:
            state = self.program.hear(self.users, self.state, heard)
        self._step_seconds = perf_counter() - begin
        return state

    async def _compute_certificate(self) -> tuple[float, Found | None]:
        """Return the disagreement with the neighbors, and the joint certificate of all peers.

        The latter is None if a peer was lost since the set-up, as averages need all of them.
        """
        program, node = self.certify, self.node
        node.last_round = self.state.round
        state = program.start(self.users, self.state.x)
        executor = node.loop.run_in_executor
        disagreement, valid = 0.0, True
        while state.round < program.rounds:
            message = program.say(state)
            if isinstance(message, NetworkMax):
                largest = message.v[0]
                for _ in range(program.D):
                    arrays, ok = await self._exchange_numbers(largest)
                    largest, valid = np.maximum.reduce([largest, *arrays]), valid and ok
                state = program.hear(self.users, state, HeardMax(largest))
                continue
            arrays, ok = await self._exchange_numbers(message.x[0])
            valid = valid and ok
            if state.round == 0:
                disagreement = self._disagreement(arrays)
            state = await executor(
                None, program.hear, self.users, state, reduce_messages(message, arrays)
            )
        return disagreement, program.read(state) if valid else None

    async def _exchange_numbers(self, mine: Array) -> tuple[list[Array], bool]:
        """Return the neighbors' arrays, and whether all have come and none is out of range.

        The rounds are over, so an array out of range spoils the certificate but not the result.
        """
        sane = np.clip(np.nan_to_num(mine), -LARGEST, LARGEST)
        heard = await self.node.exchange(Kind.AGREE, sane, lambda _: "")
        arrays = [frame.payload for frame in heard.values()]
        valid = len(arrays) == self._degree
        for n, array in enumerate(arrays):
            if not (np.abs(array) < LARGEST).all():
                arrays[n], valid = np.zeros_like(array), False
        return arrays, valid

    def _cast(self, heard: dict[int, Frame], now: int) -> None:
        """Vote on stopping; votes that were cast in other views are ignored."""
        view = self.node.views.checksum
        if view != self._view:
            self._view, self._D = view, self.node.views.diameter(self.node.number)
            self._vote = first_vote(1)
        near = [frame for frame in heard.values() if frame.view == view]
        s = min((frame.s for frame in near), default=NEVER)
        R = min((frame.R for frame in near), default=NEVER)
        least = Vote(np.array([s if len(near) == len(heard) else 0]), np.array([R]))
        quiet = self.state.residual <= self.threshold
        self._vote = next_vote(self._vote, least, quiet, now, self._D)

    def _disagreement(self, centers: list[Array]) -> float:
        """Return the mean over k of the largest distance to a neighbor's center k."""
        own = self.state.x[0]
        distances = [np.linalg.norm(each - own, axis=1) for each in centers]
        return float(np.max(distances, axis=0).mean()) if distances else 0.0
