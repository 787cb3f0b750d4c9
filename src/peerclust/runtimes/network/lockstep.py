"""Frames out and in, and one exchange with all counted neighbors: the lockstep of the rounds.

An exchange ends once a frame of it has come from every counted neighbor, so nobody is ever more
than one exchange ahead. Who is counted, and who is lost, is `membership`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.link import Key, Link
from peerclust.runtimes.network.wire import NO_RUN, TAG_BYTES, Codes, Frame, Kind
from peerclust.runtimes.stopping import NEVER
from peerclust.types import Array

# Gives the reason why an array that came cannot be used, or "".
Check = Callable[[Array], str]


class Interrupt(Exception):  # noqa: N818 - it tells what happened, which need not be an error
    """What ends an exchange before it is done; the more urgent of two holds."""

    urgency = 0


class Post:
    """The links of one peer, where it stands, and what it waits for."""

    def __init__(self, contract: Contract, me: str) -> None:
        self.contract, self.name = contract, me
        self.number = contract.number(me)
        self.network = contract.digest[:TAG_BYTES]
        self.links = {
            name: Link(name, contract.number(name), dials=me < name)
            for name in contract.neighbors(me)
        }
        self.loop = asyncio.new_event_loop()
        self.phase: messages.Phase = "agreeing"
        self.run, self.at = NO_RUN, 0
        # What follows the last round is about its end.
        self.last_round = NEVER
        self._awaited: Key | None = None
        self._wanting: set[int] = set()
        self._waiter: asyncio.Future[None] | None = None
        self._interrupt: Interrupt | None = None

    @property
    def over(self) -> bool:
        """Whether the rounds are over, and only a certificate is missing."""
        return self.last_round < NEVER

    def count_out(self, link: Link, reason: str) -> None:
        """Go on without a neighbor."""
        raise NotImplementedError

    def ban(self, link: Link, reason: str) -> None:
        """Count a neighbor out for good."""
        raise NotImplementedError

    def counted(self) -> list[Link]:
        """Give the neighbors that count in the present exchange, in ascending order of number."""
        # The links are in this order.
        if self.phase == "agreeing":
            return [link for link in self.links.values() if link.counted]
        now = min(self.at // self.contract.B, self.last_round)
        return [
            link
            for link in self.links.values()
            if link.counted and link.since <= now and not link.left
        ]

    async def exchange(
        self,
        kind: Kind,
        payload: Array,
        check: Check,
        *,
        s: int = 0,
        R: int = NEVER,
        view: int = 0,
        most: Array | None = None,
        codes: Codes | None = None,
        dtype: int = wire.FLOAT64,
    ) -> dict[int, Frame]:
        """Tell the counted neighbors an array and give the frame of each, by ascending number.

        Who sends one that `check` or its shape refuses is dropped. `s` and `R` are a vote, and
        `view` the state of the living graph that it was cast in; `most` are maxima that go with
        the array; `codes` stand for it where a neighbor has the array of the exchange before.
        """
        self.check_interrupt()
        key = (self.run, kind, self.at)
        frame = Frame(
            kind, self.network, payload, self.run, self.at, s, R, view, most, dtype
        )  # fmt: skip
        short = b"" if codes is None else wire.encode(frame._replace(payload=codes))
        whole = b""
        links = self.counted()
        for link in links:
            known = link.told == (self.run, self.at - 1) and self.at != link.since * self.contract.B
            # Most exchanges of codes need no whole frame.
            whole = whole if short and known else whole or wire.encode(frame)
            data = short if short and known else whole
            link.outbox.append(data)
            self.send_frame(link, data)
            link.told = self.run, self.at
        self._awaited = key
        while self._look_for(key, links):
            await self.wait()
            links = self.counted()
        self._awaited = None
        heard = {}
        for link in links:
            if not link.counted or link.left:
                continue
            frame = link.inbox.pop(key)
            coded = kind is Kind.ROUND and self.contract.exchange == "8-bit"
            reason = _compare(payload, most, frame, dtype, coded=coded)
            if not reason and isinstance(frame.payload, Codes):
                before, array = link.base
                if before == (self.run, self.at - 1) and array.shape == frame.payload.shape:
                    frame = frame._replace(payload=frame.payload.apply(array))
                else:
                    reason = "codes without the numbers that they build on"
            reason = reason or check(frame.payload)
            if reason:
                self.ban(link, f"it sent {reason}")
            else:
                heard[link.number] = frame
                link.base = (self.run, self.at), frame.payload
        self.check_interrupt()
        self.at += 1
        return heard

    def _look_for(self, key: Key, links: list[Link]) -> set[int]:
        """Give which neighbors' frames have not come; who has ended is counted out."""
        missing = [link for link in links if key not in link.inbox]
        for link in missing:
            # While peers agree, who has ended is waited for: it tells of the result.
            if link.phase == "done" and self.phase != "agreeing":
                self.count_out(link, "it has ended")
        self._wanting = {link.number for link in missing if link.counted and not link.left}
        return self._wanting

    def receive_array(self, link: Link, frame: Frame) -> None:
        """Keep an array until its exchange; duplicates and what came too late are dropped."""
        if not link.counted:
            return
        if frame.run == self.run:
            if frame.exchange < self.at:
                return
            if frame.exchange > max(self.at, link.since * self.contract.B) + 1:
                ahead = frame.exchange - self.at
                self.ban(link, f"it must not be ahead, and is by {ahead} exchanges")
                return
        link.store(frame)
        if self._awaited == (frame.run, frame.kind, frame.exchange):
            self._wanting.discard(link.number)
            if not self._wanting:
                self.wake()

    def send(self, link: Link, kind: Kind, message: messages.Message) -> None:
        """Send a message to one neighbor, if it is connected."""
        self.send_frame(link, self.make_frame(kind, message))

    def broadcast(self, kind: Kind, message: messages.Message, but: Link | None = None) -> None:
        """Send a message to every connected neighbor."""
        data = self.make_frame(kind, message)
        for link in self.links.values():
            if link is not but:
                self.send_frame(link, data)

    def make_frame(self, kind: Kind, message: messages.Message) -> bytes:
        """Give the frame of a message, with where this peer stands in its header."""
        return wire.encode(Frame(kind, self.network, messages.pack(message), self.run, self.at))

    def send_frame(self, link: Link, data: bytes) -> None:
        """Send a frame to a neighbor, if it is connected."""
        if link.connection is not None:
            link.sent_at = self.loop.time()
            link.connection.send(data)

    def interrupt(self, what: Interrupt) -> None:
        """Raise an interrupt out of whatever is being awaited, now or next."""
        if self._interrupt is None or what.urgency > self._interrupt.urgency:
            self._interrupt = what
        self.wake()

    def forget_interrupt(self, kind: type[Interrupt]) -> None:
        """Do not raise an interrupt of this kind after all."""
        if isinstance(self._interrupt, kind):
            self._interrupt = None

    def check_interrupt(self) -> None:
        """Raise what `interrupt` was told, once."""
        what, self._interrupt = self._interrupt, None
        if what is not None:
            raise what

    def wake(self) -> None:
        """Let whoever waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until something happened; raise what interrupts."""
        self.check_interrupt()
        self._waiter = self.loop.create_future()
        await self._waiter
        self.check_interrupt()

    async def wait_until(self, limit: float) -> bool:
        """Wait until something happened, or a time of the loop has come; tell which, by False."""
        if self.loop.time() >= limit:
            return False
        timer = self.loop.call_at(limit + 0.01, self.wake)
        try:
            await self.wait()
        finally:
            timer.cancel()
        return True


def _compare(mine: Array, most: Array | None, theirs: Frame, dtype: int, *, coded: bool) -> str:
    """Give in what a frame's array is not like this peer's own, or ""."""
    if theirs.payload.shape != mine.shape:
        return f"an array of shape {theirs.payload.shape}"
    if theirs.dtype != dtype and not (coded and theirs.dtype == wire.CODES):
        return "numbers in another form than the network file says"
    if (most is None) != (theirs.most is None):
        return "maxima that were not asked for" if most is None else "no maxima"
    if most is not None and not (
        theirs.most.shape == most.shape
        and (theirs.most >= 0).all()
        and (theirs.most < np.inf).all()
    ):
        return "maxima that cannot be"
    return ""
