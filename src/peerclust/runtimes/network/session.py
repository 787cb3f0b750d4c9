"""What all parts of a node share: its links, where it is in the run, sending, and waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from peerclust.log_events import LogEvent
from peerclust.runtimes.network import messages, states, wire
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.messages import StateReply
from peerclust.runtimes.network.states import Cause, RunEvent, RunState
from peerclust.runtimes.network.views import Pair
from peerclust.runtimes.network.wire import NO_RUN, TAG_BYTES, Frame, Kind

# Maximum number of events that are kept for the result.
_MAX_EVENTS = 1000


class Interrupt(Exception):  # noqa: N818 - an event, not necessarily an error
    """An event that ends a wait early; the more urgent of two is raised."""

    urgency = 0


class RestartSetup(Interrupt):
    """The set-up restarts on the graph of the remaining links."""


class ViewChanged(Interrupt):
    """The agreement begins again, as the peers that take part have changed."""


class StateReceived(Interrupt):
    """The run has started, or is over, and a neighbor has sent its state."""

    urgency = 1

    def __init__(self, reply: StateReply, link: Link) -> None:
        self.reply, self.link = reply, link


class Leaving(Interrupt):
    """The process was asked to exit."""

    urgency = 2


class Stopping(Interrupt):
    """A peer was lost or never connected, and the network file says that all stop then."""

    urgency = 2


@dataclass(eq=False)
class Agreement:
    """An agreement of a run, as begun in some views.

    Attributes
    ----------
    number, view : int
        Its number among those in the same views, and the checksum of the views.
    near : dict of int to list of int
        The peers that take part, each with its neighbors.
    neighbors : frozenset of int
        Those of this peer.
    at : int
        The next exchange.
    """

    number: int
    view: int
    near: dict[int, list[int]]
    neighbors: frozenset[int]
    at: int = 0


class Session:
    """The links of one peer, and its place in the run.

    Attributes
    ----------
    state : RunState
        Only `move` changes it.
    run_id, run, at : bytes, bytes, int
        The run, its tag in the headers of frames, and the next exchange. In the set-up the tag is
        that of the attempt.
    agreement : Agreement or None
        The agreement in which this peer is.
    agreed, agreed_view : int
        The number of the last one that it completed, and the checksum of the views of that one.
    events : deque
        What happened, with the rounds, for the result.
    """

    def __init__(self, contract: Contract, me: str, log: Callable[[str], None]) -> None:
        self.contract, self.name, self.log = contract, me, log
        self.number = contract.number(me)
        self.network = contract.digest[:TAG_BYTES]
        # Sorted by number.
        self.links = {
            name: Link(name, contract.number(name), dials=me < name)
            for name in contract.neighbors(me)
        }
        self.loop = asyncio.new_event_loop()
        self.state = RunState.MEETING
        self.run_id, self.run, self.at = b"", NO_RUN, 0
        self.agreement: Agreement | None = None
        self.agreed = self.agreed_view = 0
        self.events: deque[tuple[int, str]] = deque(maxlen=_MAX_EVENTS)
        self._waiter: asyncio.Future[None] | None = None
        self._interrupt: Interrupt | None = None

    # Where this peer is

    def move(self, event: RunEvent) -> None:
        """Enter the next state."""
        self.state = states.RUN[self.state][event]

    @property
    def phase(self) -> messages.Phase:
        """What this peer tells its neighbors of its state."""
        return states.phase_of(self.state)

    @property
    def has_result(self) -> bool:
        """Whether the rounds are over, so that no loss can stop the run any longer."""
        return self.state in (RunState.SIGNING, RunState.ENDED, RunState.SERVING)

    @property
    def round(self) -> int:
        """The current round of this peer."""
        return 0 if self.phase == "agreeing" else self.at // self.contract.B

    def active_links(self) -> list[Link]:
        """Return the neighbors of the current exchange in ascending order of number."""
        active = [link for link in self.links.values() if link.active]
        if self.phase == "agreeing":
            return active
        if self.agreement is not None:
            near = self.agreement.neighbors
            return [link for link in active if link.number in near and not link.leaving]
        return [link for link in active if link.active_from <= self.round]

    def pair(self, link: Link) -> Pair:
        """Return the numbers of both ends of a link, in ascending order."""
        return min(self.number, link.number), max(self.number, link.number)

    def record_event(
        self, round_: int, what: str, event: str, peer: str, cause: Cause | None = None
    ) -> None:
        """Log what happened in a round, and why a peer is dropped; keep it for the result."""
        what = what.removesuffix(".")
        self.events.append((round_, what))
        why = {} if cause is None else {"cause": cause.name.lower()}
        self.log(LogEvent(event, f"{what}.", peer=peer, round=round_, **why))

    # Sending

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

    # Waiting

    def interrupt(self, what: Interrupt) -> None:
        """Raise an interrupt from the current wait, or from the next one."""
        if self._interrupt is None or what.urgency > self._interrupt.urgency:
            self._interrupt = what
        self.wake()

    def is_pending(self, kind: type[Interrupt]) -> bool:
        """Return whether an interrupt of this kind will be raised next."""
        return isinstance(self._interrupt, kind)

    def cancel_interrupt(self, kind: type[Interrupt]) -> None:
        """Discard a pending interrupt of this kind."""
        if self.is_pending(kind):
            self._interrupt = None

    def cancel_join(self) -> None:
        """Discard a second neighbor's state of the run: this peer is in the run already."""
        pending = self._interrupt
        if isinstance(pending, StateReceived) and pending.reply.record is None:
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
