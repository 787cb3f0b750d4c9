"""Exchanges of arrays with all active neighbors, in lockstep.

An exchange ends when its frame has come from every active neighbor, so no peer is ever more than
one exchange ahead. `membership` decides which neighbors are active.

Between exchanges of a run, its peers may come to an agreement, such as a certificate: a series of
exchanges of its own, counted from 0. It has a number, and it belongs to the views with which it
began. A peer that waits for a neighbor's round, and finds that this one is in an agreement, takes
part as well (`Called`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from peerclust.arrays import Array
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.wire import (
    NO_RUN,
    TAG_BYTES,
    Codes,
    Frame,
    Integers,
    Key,
    Kind,
)
from peerclust.runtimes.stopping import NEVER

# A peer that joins late adopts the number of its neighbors' agreement, up to this.
_MAX_NUMBER = 1 << 40

# Returns the reason why a received array cannot be used, or "".
Check = Callable[[Array], str]


class Interrupt(Exception):  # noqa: N818 - an event, not necessarily an error
    """An event that ends an exchange early; the more urgent of two is raised."""

    urgency = 0


class Called(Exception):  # noqa: N818 - an event, not an error
    """A neighbor is in an agreement, and waits for this peer."""


class Flow(NamedTuple):
    """The neighbors to which an exchange of integers carries data, and those that send some.

    All others are sent, and send, an empty array. `check` returns why a neighbor's integers cannot
    be used, or "".
    """

    to: frozenset[int] = frozenset()
    of: frozenset[int] = frozenset()
    check: Callable[[Integers, int], str] = lambda *_: ""


@dataclass(eq=False)
class Agreement:
    """An agreement of a run, as begun in some views.

    Attributes
    ----------
    number, view : int
        Its number, and the checksum of the views.
    members : frozenset of int
        The peers that take part.
    neighbors : frozenset of int
        Those of this peer.
    at : int
        The next exchange.
    complete : bool
        Whether this peer has its result, and only waits until all others have it.
    """

    number: int
    view: int
    members: frozenset[int]
    neighbors: frozenset[int]
    at: int = 0
    complete: bool = False


class LockstepExchange:
    """The links of one peer, its phase, run and exchange, and the frames that it waits for."""

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
        # The agreement in which this peer is, and the number of the last one that it completed.
        self.agreement: Agreement | None = None
        self.agreed = 0
        self._awaited: Key | None = None
        self._awaited_since = 0.0
        self._missing: set[int] = set()
        self._waiter: asyncio.Future[None] | None = None
        self._interrupt: Interrupt | None = None

    def deactivate(self, link: Link, reason: str) -> None:
        """Continue without a neighbor."""
        raise NotImplementedError

    def ban(self, link: Link, reason: str) -> None:
        """Drop a neighbor for the rest of the run."""
        raise NotImplementedError

    def active_links(self) -> list[Link]:
        """Return the neighbors of the current exchange in ascending order of number."""
        # `links` is sorted by number.
        if self.phase == "agreeing":
            return [link for link in self.links.values() if link.active]
        if self.agreement is not None:
            near = self.agreement.neighbors
            return [
                link
                for link in self.links.values()
                if link.active and link.number in near and not link.gone
            ]
        now = self.at // self.contract.B
        return [link for link in self.links.values() if link.active and link.active_from <= now]

    async def exchange(
        self,
        kind: Kind,
        payload: Array | Integers,
        check: Check,
        *,
        flow: Flow | None = None,
        s: int = 0,
        R: int = NEVER,
        view: int = 0,
        extra_max: Array | None = None,
        codes: Codes | None = None,
        dtype: int = wire.FLOAT64,
    ) -> dict[int, Frame]:
        """Send an array to the active neighbors; return the frame of each, by ascending number.

        A neighbor is dropped if `check` refuses its array, or if the shape differs. `s` and `R` are
        a vote, and `view` is the checksum of the views in which it was cast. `extra_max` are maxima
        sent with the array. `codes` replace the array for neighbors that have the array of the
        previous exchange. With a `flow`, the array has integers, which only some links carry.
        """
        self.check_interrupt()
        agreement, at = self.agreement, self.at
        if agreement is not None:
            s, view, at = agreement.number, agreement.view, agreement.at
        frame = Frame(
            kind, self.network, payload, self.run, at, s, R, view, extra_max, dtype
        )  # fmt: skip
        key, nothing = frame.key, frame._replace(payload=payload[:0])
        short = b"" if codes is None else wire.encode(frame._replace(payload=codes))
        whole = b""
        links = self.active_links()
        for link in links:
            known = (
                link.last_sent == (self.run, at - 1) and at != link.active_from * self.contract.B
            )
            if flow is not None and link.number not in flow.to:
                data = wire.encode(nothing)
            elif short and known:
                data = short
            else:
                # Most exchanges with codes need no full frame.
                data = whole = whole or wire.encode(frame)
            link.outbox.append(data)
            self.send_frame(link, data)
            link.last_sent = (NO_RUN if agreement else self.run), at
        self._awaited, self._awaited_since = key, self.loop.time()
        while self._find_missing(key, links):
            await self.wait()
            links = self.active_links()
        self._awaited = None
        heard = {}
        for link in links:
            if not link.active or link.gone:
                continue
            frame = link.inbox.pop(key)
            coded = kind is Kind.ROUND and self.contract.exchange == "8-bit"
            due = payload if flow is None or link.number in flow.of else payload[:0]
            reason = _compare(due, extra_max, frame, dtype, coded=coded)
            if not reason and isinstance(frame.payload, Codes):
                before, last = link.last_received
                current = before == (self.run, at - 1)
                if current and last is not None and last.shape == frame.payload.shape:
                    frame = frame._replace(payload=frame.payload.apply(last))
                else:
                    reason = "codes without the numbers that they refer to"
            if not reason and flow is None:
                reason = check(frame.array)
            elif not reason and flow is not None and link.number in flow.of:
                reason = flow.check(frame.integers, link.number)
            if reason:
                self.ban(link, f"it sent {reason}")
                continue
            heard[link.number] = frame
            if kind is Kind.ROUND:
                link.last_received = (self.run, at), frame.array
        self.check_interrupt()
        if agreement is None:
            self.at += 1
        else:
            agreement.at += 1
        return heard

    def _find_missing(self, key: Key, links: list[Link]) -> set[int]:
        """Return the neighbors whose frames have not come; those that have ended are dropped.

        Raise `Called` if one of them is in a later agreement: frames come in order, so that the
        awaited one will not come before this peer takes part.
        """
        missing = [link for link in links if key not in link.inbox]
        for link in missing:
            # During the set-up, a neighbor that has ended is awaited: it sends the result.
            if link.phase == "done" and self.phase != "agreeing":
                self.deactivate(link, "it has ended")
        missing = [link for link in missing if link.active and not link.gone]
        now = self.agreed if self.agreement is None else self.agreement.number
        if self.phase == "running" and any(link.agreement > now for link in missing):
            self._awaited = None
            raise Called
        self._missing = {link.number for link in missing}
        return self._missing

    def receive_array(self, link: Link, frame: Frame) -> None:
        """Store an array until its exchange; duplicates and late frames are dropped."""
        # A neighbor may know all processes, and begin the set-up, before this peer does.
        if not link.active and self.phase != "agreeing":
            return
        if self.phase == "running" and frame.kind is Kind.AGREE:
            if frame.run == self.run and frame.s > self.agreed:
                self._receive_agreement(link, frame)
            return
        if frame.run == self.run:
            if frame.exchange < self.at:
                return
            if frame.exchange > max(self.at, link.active_from * self.contract.B) + 1:
                ahead = frame.exchange - self.at
                self.ban(link, f"it must not be ahead, but is by {ahead} exchanges")
                return
        self._store(link, frame)

    def _receive_agreement(self, link: Link, frame: Frame) -> None:
        """Store an array of an agreement of this run, which this peer has perhaps not begun."""
        now = self.agreement
        link.agreement_view = frame.view, self.loop.time()
        if now is None or (now.number, now.view) != (frame.s, frame.view):
            if frame.s > max(self.agreed, _MAX_NUMBER) + 2:
                self.ban(link, "its agreements must be numbered from 1")
            elif frame.exchange == 0:  # others are of an agreement that has begun again
                self._store(link, frame)
                self.wake()  # it may call this peer
        elif frame.exchange > now.at + 1:
            ahead = frame.exchange - now.at
            self.ban(link, f"it must not be ahead, but is by {ahead} exchanges")
        elif frame.exchange >= now.at:
            self._store(link, frame)

    def _store(self, link: Link, frame: Frame) -> None:
        link.store(frame)
        if self._awaited == frame.key:
            self._missing.discard(link.number)
            if not self._missing:
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
        """Return the frame of a message; its header has this peer's run and exchange."""
        return wire.encode(Frame(kind, self.network, messages.pack(message), self.run, self.at))

    def send_frame(self, link: Link, data: bytes) -> None:
        """Send a frame to a neighbor, if it is connected."""
        if link.connection is not None:
            link.sent_at = self.loop.time()
            link.connection.send(data)

    def interrupt(self, what: Interrupt) -> None:
        """Raise an interrupt from the current wait, or from the next one."""
        if self._interrupt is None or what.urgency > self._interrupt.urgency:
            self._interrupt = what
        self.wake()

    def cancel_interrupt(self, kind: type[Interrupt]) -> None:
        """Discard a pending interrupt of this kind."""
        if isinstance(self._interrupt, kind):
            self._interrupt = None

    def check_interrupt(self) -> None:
        """Raise the pending interrupt, if any, once."""
        pending, self._interrupt = self._interrupt, None
        if pending is not None:
            raise pending

    def wake(self) -> None:
        """End the current wait."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next event; raise a pending interrupt."""
        self.check_interrupt()
        self._waiter = self.loop.create_future()
        await self._waiter
        self.check_interrupt()

    async def wait_until(self, limit: float) -> bool:
        """Wait for the next event or a time of the loop; return False if that time has passed."""
        if self.loop.time() >= limit:
            return False
        timer = self.loop.call_at(limit + 0.01, self.wake)
        try:
            await self.wait()
        finally:
            timer.cancel()
        return True


def _compare(
    mine: Array | Integers,
    extra_max: Array | None,
    theirs: Frame,
    dtype: int,
    *,
    coded: bool,
) -> str:
    """Return how the array of a frame differs in form from this peer's own, or ""."""
    assert not isinstance(theirs.payload, bytes)
    if theirs.payload.shape != mine.shape:
        return f"an array of shape {theirs.payload.shape}"
    if theirs.dtype != dtype and not (coded and theirs.dtype == wire.CODES):
        return "numbers in a format other than the network file's"
    if extra_max is None or theirs.extra_max is None:
        if extra_max is theirs.extra_max:
            return ""
        return "unexpected maxima" if extra_max is None else "no maxima"
    valid = (
        theirs.extra_max.shape == extra_max.shape
        and (theirs.extra_max >= 0).all()
        and (theirs.extra_max < np.inf).all()
    )
    return "" if valid else "invalid maxima"
