"""Drives a program over the network as a block of one user, round after round, to its end.

The same `say` and `hear` as in every runtime; what differs is that the neighbors who are heard may
change from round to round, and that this is written down (`journal`) before anything follows from
it, so that a run can be replayed to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from peerclust import kernels
from peerclust.programs.certificate import Certify, Found
from peerclust.programs.protocol import (
    HeardMax,
    NeighborSum,
    NetworkMax,
    Program,
    reduce_messages,
    set_round,
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
from peerclust.types import Array
from peerclust.users import Users

# A step that took longer than this, in seconds, is taken in a thread, so that links stay alive.
_LONG_STEP = 0.02
_MANY_NUMBERS = 1_000_000


class AloneError(Exception):
    """No neighbor can be reached, for longer than `join_timeout`."""


@dataclass(frozen=True, eq=False)
class Box:
    """Where centers may be: the box of the data, widened by what the program may stray."""

    low: Array
    high: Array

    def refuse(self, x: Array) -> str:
        """Give why centers cannot be used, or ""."""
        if kernels.all_in_box(x, self.low, self.high):
            return ""
        finite = np.isfinite(x).all()
        return f"centers {'outside the box of the data' if finite else 'that are not finite'}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where a run ended: the state, the residual there, how far the neighbors' centers are apart.

    `stopped` tells whether all stopped by themselves, or the rounds ran out; `seconds` is what the
    rounds of this process took; `found` is what all peers found together of where they ended, None
    if somebody was lost meanwhile.
    """

    state: Any
    residual: float
    apart: float
    stopped: bool
    seconds: float
    found: Found | None


class Running:
    """One peer's run of a program."""

    def __init__(
        self,
        node: Node,
        program: Program,
        users: Users,
        *,
        residual_scale: float,
        allow: Callable[[Any], Check],
        certify: Certify,
        degree: int,
        journal: Journal,
        between: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self.node, self.program, self.users = node, program, users
        self.allow, self.journal, self.between = allow, journal, between
        self.certify, self._degree = certify, degree
        self.residual_scale = residual_scale
        tol = node.contract.tol
        self.threshold = tol * residual_scale if tol > 0 else -1.0
        self.state: Any = None
        self._vote = first_vote(1)
        # In which state of the living graph votes are cast, and the diameter of this peer's part.
        self._view, self._D = -1, 0
        # A first step reads all rows.
        self._took = np.inf if users.rows.size > _MANY_NUMBERS else 0.0

    def run(self, x: Array, round_: int) -> Outcome:
        """Run from centers x, (1, K, d), at a round."""
        self.state = set_round(self.program.start(self.users, x), round_)
        self.journal.start(round_, x[0])
        return self.node.loop.run_until_complete(self._drive())

    async def _drive(self) -> Outcome:
        node, rounds = self.node, self.node.contract.rounds
        begin = perf_counter()
        while self.state.round < rounds:
            if self.state.update == 0:
                await self._begin_round()
                if self.state.round >= rounds:
                    break  # a link was taken up only after the last round
            now, voting = self.state.round, self.threshold >= 0 and self.state.update == 0
            heard = await self._exchange()
            self.state = await self._hear(heard)
            if voting:
                check_finite(self.state.residual, now + 1)
                self._cast(heard, now)
            if self.state.update == 0:
                self.between(self.state)
                if self._vote.due(now):
                    break
        stopped = self._vote.due(self.state.round - 1)
        # One more exchange, of where all ended, tells the residual there.
        node.at = self.state.round * node.contract.B
        heard = await self._exchange()
        own = float((await self._hear(heard)).residual.max()) / self.residual_scale
        residual = min(own, LARGEST)  # one that is not known is larger
        apart, found = await self._find_certificate()
        seconds = perf_counter() - begin
        outcome = Outcome(self.state, residual, apart, stopped, seconds, found)
        self.journal.end(self.state.round, self.state.x[0])
        node.phase = "done"
        ended = Ended(self.state.round, outcome.residual, outcome.apart)
        node.tell_view(round_=self.state.round, ended=ended)
        return outcome

    async def _begin_round(self) -> None:
        """Keep the promises of links that are being taken up; wait if nobody is there."""
        node, links = self.node, self.node.links.values()
        limit = 0.0
        while True:
            now = self.state.round
            promised = [link for link in links if link.promised_before(now)]
            counted = node.counted()
            if counted and not promised:
                break
            limit = limit or node.loop.time() + node.contract.join_timeout
            later = [link.since for link in links if link.counted and link.since > now]
            # Whoever was told an earlier round may still say that it begins before the others.
            first = min(later, default=now)
            if later and not counted and not any(each.promised_before(first) for each in links):
                self._jump(first)
                continue
            for link in links:
                if not counted and not later and link.phase == "done":
                    node.ask(link)
            if not await node.wait_until(limit) and not node.counted():
                raise AloneError

    def _jump(self, round_: int) -> None:
        """Go on from a later round: those who were without this peer are there already."""
        self.state = set_round(self.program.start(self.users, self.state.x), round_)
        self.node.at = round_ * self.node.contract.B
        self.journal.start(round_, self.state.x[0])
        self._vote = first_vote(1)

    async def _exchange(self) -> dict[int, Frame]:
        at, said = self.node.at, self._said()
        s, R = int(self._vote.s[0]), int(self._vote.R[0])
        codes = None if said.codes is None else Codes(int(said.codes[1][0]), said.codes[0][0])
        single = self.node.contract.exchange == "float32"
        heard = await self.node.exchange(
            Kind.ROUND,
            said.x[0],
            self.allow(self.state),
            s=s,
            R=R,
            view=max(self._view, 0),
            most=None if said.extra_max is None else said.extra_max[0],
            codes=codes,
            dtype=wire.FLOAT32 if single else wire.FLOAT64,
        )
        self.journal.heard(at, list(heard))
        return heard

    def _said(self) -> NeighborSum:
        said = self.program.say(self.state)
        assert isinstance(said, NeighborSum)
        return said

    async def _hear(self, frames: dict[int, Frame]) -> Any:
        """Give the state after what was heard."""
        letters = [frame.payload for frame in frames.values()]
        most = [frame.most for frame in frames.values()]
        heard = reduce_messages(self._said(), letters, most)
        begin = perf_counter()
        if self._took > _LONG_STEP:
            loop = self.node.loop
            state = await loop.run_in_executor(
                None, self.program.hear, self.users, self.state, heard
            )
        else:
            state = self.program.hear(self.users, self.state, heard)
        self._took = perf_counter() - begin
        return state

    async def _find_certificate(self) -> tuple[float, Found | None]:
        """Give how far the neighbors' centers are, and what all peers find of where they ended.

        What was found is None if somebody was lost since the peers agreed, as averages need all.
        """
        program, node = self.certify, self.node
        node.last_round = self.state.round
        state = program.start(self.users, self.state.x)
        executor = node.loop.run_in_executor
        apart, good = 0.0, True
        while state.round < program.rounds:
            said = program.say(state)
            if isinstance(said, NetworkMax):
                held = said.v[0]
                for _ in range(program.D):
                    letters, came = await self._hear_numbers(held)
                    held, good = np.maximum.reduce([held, *letters]), good and came
                state = program.hear(self.users, state, HeardMax(held))
                continue
            letters, came = await self._hear_numbers(said.x[0])
            good = good and came
            if state.round == 0:
                apart = self._apart(letters)
            state = await executor(
                None, program.hear, self.users, state, reduce_messages(said, letters)
            )
        return apart, program.read(state) if good else None

    async def _hear_numbers(self, mine: Array) -> tuple[list[Array], bool]:
        """Give the neighbors' numbers, and whether all are there and none is absurd.

        The rounds are over: who tells absurd ones spoils the certificate, not the result.
        """
        sane = np.clip(np.nan_to_num(mine), -LARGEST, LARGEST)
        heard = await self.node.exchange(Kind.AGREE, sane, lambda _: "")
        letters = [frame.payload for frame in heard.values()]
        good = len(letters) == self._degree
        for n, letter in enumerate(letters):
            if not (np.abs(letter) < LARGEST).all():
                letters[n], good = np.zeros_like(letter), False
        return letters, good

    def _cast(self, heard: dict[int, Frame], now: int) -> None:
        """Vote on stopping; votes of another state of the living graph do not count."""
        mark = self.node.views.mark
        if mark != self._view:
            self._view, self._D = mark, self.node.views.diameter(self.node.number)
            self._vote = first_vote(1)
        near = [frame for frame in heard.values() if frame.view == mark]
        s = min((frame.s for frame in near), default=NEVER)
        R = min((frame.R for frame in near), default=NEVER)
        least = Vote(np.array([s if len(near) == len(heard) else 0]), np.array([R]))
        quiet = self.state.residual <= self.threshold
        self._vote = next_vote(self._vote, least, quiet, now, self._D)

    def _apart(self, centers: list[Array]) -> float:
        """Give the mean over k of the largest distance of a neighbor's center from this peer's."""
        own = self.state.x[0]
        far = [np.linalg.norm(each - own, axis=1) for each in centers]
        return float(np.max(far, axis=0).mean()) if far else 0.0
