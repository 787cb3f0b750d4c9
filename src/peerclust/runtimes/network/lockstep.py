"""Exchanges of arrays with all active neighbors, in lockstep.

An exchange ends when its frame has come from every active neighbor, so no peer is ever more than
one exchange ahead. `membership` decides which neighbors are active.

Between exchanges of a run, its peers may come to an agreement, such as a certificate: a series of
exchanges of its own, counted from 0. It belongs to the views with which it began, and has a number
among those in the same views, from 1. A peer that waits for a neighbor's round, and finds that this
one is in an agreement, takes part as well (`Called`). So does a peer in an agreement in views that
are outdated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from peerclust.arrays import Array
from peerclust.runtimes.network import wire
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.session import Session
from peerclust.runtimes.network.states import Cause
from peerclust.runtimes.network.wire import (
    NO_RUN,
    Codes,
    Frame,
    Integers,
    Key,
    Kind,
)
from peerclust.runtimes.stopping import NEVER

# A peer takes part in so many agreements that neighbors call for in one exchange. After that it
# waits for their frames of the exchange, so that a neighbor that sends none is noticed.
_MAX_CALLS = 16

# Returns the reason why a received array cannot be used, or "".
Check = Callable[[Array], str]


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


class Lockstep:
    """The exchanges of one peer.

    `drop` is called with a neighbor that violates the protocol, and `view` returns the checksum of
    the present views.
    """

    def __init__(
        self,
        session: Session,
        drop: Callable[[Link, Cause, str], None],
        view: Callable[[], int],
    ) -> None:
        self._session, self._drop, self._view = session, drop, view
        # The frame that is awaited from every active neighbor, since when, and who has not sent it.
        self.awaited: Key | None = None
        self.awaited_since = 0.0
        self.missing: set[int] = set()
        # The last exchange of rounds in which a neighbor called, and how often.
        self._calls = -1, 0

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
        session, contract = self._session, self._session.contract
        session.check_interrupt()
        agreement, at, run = session.agreement, session.at, session.run
        if agreement is not None:
            s, view, at = agreement.number, agreement.view, agreement.at
        frame = Frame(
            kind, session.network, payload, run, at, s, R, view, extra_max, dtype
        )  # fmt: skip
        key, nothing = frame.key, frame._replace(payload=payload[:0])
        short = b"" if codes is None else wire.encode(frame._replace(payload=codes))
        whole = b""
        links = session.active_links()
        for link in links:
            known = link.last_sent == (run, at - 1) and at != link.active_from * contract.B
            if flow is not None and link.number not in flow.to:
                data = wire.encode(nothing)
            elif short and known:
                data = short
            else:
                # Most exchanges with codes need no full frame.
                data = whole = whole or wire.encode(frame)
            link.outbox.append(data)
            session.send_frame(link, data)
            link.last_sent = (NO_RUN if agreement else run), at
        self.awaited, self.awaited_since = key, session.loop.time()
        while self._find_missing(key, links):
            await session.wait()
            links = session.active_links()
        self.awaited = None
        heard = {}
        for link in links:
            if not link.active or link.leaving:
                continue
            frame = link.inbox.pop(key)
            coded = kind is Kind.ROUND and contract.exchange == "8-bit"
            due = payload if flow is None or link.number in flow.of else payload[:0]
            reason = _compare(due, extra_max, frame, dtype, coded=coded)
            if not reason and isinstance(frame.payload, Codes):
                before, last = link.last_received
                current = before == (run, at - 1)
                if current and last is not None and last.shape == frame.payload.shape:
                    frame = frame._replace(payload=frame.payload.apply(last))
                else:
                    reason = "codes without the numbers that they refer to"
            if not reason and flow is None:
                reason = check(frame.array)
            elif not reason and flow is not None and link.number in flow.of:
                reason = flow.check(frame.integers, link.number)
            if reason:
                self._drop(link, Cause.INVALID, f"it sent {reason}")
                continue
            heard[link.number] = frame
            if kind is Kind.ROUND:
                link.last_received = (run, at), frame.array
        session.check_interrupt()
        if agreement is None:
            session.at += 1
        else:
            agreement.at += 1
        return heard

    def _find_missing(self, key: Key, links: list[Link]) -> set[int]:
        """Return the neighbors whose frames have not come; those that have ended are dropped.

        Raise `Called` if one of them is in another agreement: frames come in order, so that the
        awaited one will not come before this peer takes part. A peer in an agreement follows only
        if its views are outdated, and then to the present ones; nobody has passed the barrier, as
        that neighbor has not. So neighbors cannot call it without end: their views are counted.
        """
        session = self._session
        missing = [link for link in links if key not in link.inbox]
        for link in missing:
            # During the set-up, a neighbor that has ended is awaited: it sends the result.
            if link.phase == "done" and session.phase != "agreeing":
                self._drop(link, Cause.ENDED, Cause.ENDED.description)
        missing = [link for link in missing if link.active and not link.leaving]
        now = session.agreement
        called = session.phase == "running" and any(
            link.is_elsewhere(None if now is None else now.view) for link in missing
        )
        if called and (self._heeds_call() if now is None else now.view != self._view()):
            self.awaited = None
            raise Called
        self.missing = {link.number for link in missing}
        return self.missing

    def _heeds_call(self) -> bool:
        """Count a call in this exchange; return whether this peer takes part."""
        at, calls = self._calls
        self._calls = self._session.at, calls + 1 if at == self._session.at else 1
        return self._calls[1] <= _MAX_CALLS

    def receive_array(self, link: Link, frame: Frame) -> None:
        """Store an array until its exchange; duplicates and late frames are dropped."""
        session = self._session
        # A neighbor may know all processes, and begin the set-up, before this peer does.
        if not link.active and session.phase != "agreeing":
            return
        if session.phase == "running" and frame.kind is Kind.AGREE:
            late = frame.view == session.agreed_view and frame.s <= session.agreed
            if frame.run == session.run and not late:
                self._receive_agreement(link, frame)
            return
        if frame.run == session.run:
            at = session.at
            if frame.exchange < at:
                return
            if frame.exchange > max(at, link.active_from * session.contract.B) + 1:
                self._drop_ahead(link, frame.exchange - at)
                return
        self._store(link, frame)

    def _receive_agreement(self, link: Link, frame: Frame) -> None:
        """Store an array of an agreement of this run, which this peer has perhaps not begun."""
        session = self._session
        now = session.agreement
        link.agreement_view = frame.view, session.loop.time()
        view, number = session.agreed_view, session.agreed
        if now is not None:
            view, number = now.view, now.number
        if frame.view == view and frame.s > number + 1:
            ahead = f"it must not be ahead, but is by {frame.s - number} agreements"
            self._drop(link, Cause.AHEAD, ahead)
        elif now is None or (view, number) != (frame.view, frame.s):
            # An agreement in other views may have begun again, but not one before this in the same.
            if frame.exchange == 0 and not (frame.view == view and frame.s < number):
                self._store(link, frame, None if now is None else view)
                session.wake()  # it may call this peer
        elif frame.exchange > now.at + 1:
            self._drop_ahead(link, frame.exchange - now.at)
        elif frame.exchange >= now.at:
            self._store(link, frame, view)

    def _store(self, link: Link, frame: Frame, view: int | None = None) -> None:
        link.store(frame, view)
        if self.awaited == frame.key:
            self.missing.discard(link.number)
            if not self.missing:
                self._session.wake()

    def _drop_ahead(self, link: Link, ahead: int) -> None:
        reason = f"it must not be ahead, but is by {ahead} exchanges"
        self._drop(link, Cause.AHEAD, reason)


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
