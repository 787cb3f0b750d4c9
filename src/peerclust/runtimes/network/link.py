"""The state of one neighbor: its connection, received and sent frames, and its progress."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from peerclust.arrays import Array
from peerclust.runtimes.network.messages import Incarnation, Phase
from peerclust.runtimes.network.states import LINK, Cause, LinkEvent, LinkState
from peerclust.runtimes.network.transport import Connection
from peerclust.runtimes.network.wire import NO_RUN, Frame, Key, Kind

# A neighbor in lockstep is at most one exchange ahead: in this set-up or in the next, or both in
# its rounds and in two agreements.
_INBOX = 8

# The `agreement_view` of a neighbor that has sent no frame of an agreement.
_NO_VIEW = 0, np.inf


@dataclass(eq=False)
class Link:
    """One neighbor, connected or not.

    Attributes
    ----------
    state, active_from : LinkState, int
        Whether it takes part in exchanges with this peer, and from which round of the run on. Only
        `move` changes the state.
    inbox, outbox
        Received frames that are not used yet, by their keys; and the last few sent frames, which
        are sent again if the connection breaks.
    offered, offer_received : int, int or None
        The rounds in the LINK_UP messages of both ends; the link becomes active after the later
        one. `offered_at` is when this peer sent its own, in the state OFFERED.
    process : Incarnation or None
        The neighbor's process that was last connected.
    phase, run
        The neighbor's last known phase and run.
    furthest, progress_at, excused_at, stalled, stuck
        Its furthest exchange in a run, when it got there, when it was last seen to wait for others,
        for how many seconds it has made no progress since, and how often it was dropped or left
        after a long time of that.
    heard_at, sent_at : float
        When a frame was last received from it, and last sent to it.
    agreement_view : tuple of int and float
        The checksum of the views in its last frame of an agreement that this peer has not
        completed, and when it was received.
    seen, seen_at, processes, stated_at, rejoined_at
        Whether it was ever connected, when first, how many of its processes were, and when it
        recently stated something about itself, or rejoined.
    changes, rejoins : tuple of object and int
        An agreement, and how often the neighbor's view changed in it, or it rejoined.
    state_requested : bool
        Whether this peer sent STATE_REQUEST over this connection; `state_sent_at` is when it last
        answered one.
    last_sent, last_received
        The run and exchange of the array last sent; and those of the array last received, with
        the array itself. 8-bit codes refer to these arrays.
    lost_for : tuple of Cause and str
        Why it was lost last.
    banned, refusal : str
        Why it is dropped for the rest of the run, or ""; why it, or this peer, was last refused.
    """

    name: str
    number: int
    dials: bool
    state: LinkState = LinkState.OUT
    active_from: int = 0
    connection: Connection | None = None
    process: Incarnation | None = None
    inbox: OrderedDict[Key, Frame] = field(default_factory=OrderedDict)
    outbox: deque[bytes] = field(default_factory=lambda: deque(maxlen=4))
    offered: int = 0
    offered_at: float = 0.0
    offer_received: int | None = None
    phase: Phase = "agreeing"
    run: bytes = NO_RUN
    furthest: tuple[bytes, int] = (NO_RUN, -1)
    progress_at: float = 0.0
    excused_at: float = 0.0
    stalled: float = 0.0
    stuck: int = 0
    changes: tuple[object, int] = (None, 0)
    rejoins: tuple[object, int] = (None, 0)
    heard_at: float = 0.0
    sent_at: float = 0.0
    agreement_view: tuple[int, float] = _NO_VIEW
    seen: bool = False
    seen_at: float = 0.0
    processes: int = 0
    stated_at: deque[float] = field(default_factory=deque)
    rejoined_at: deque[float] = field(default_factory=deque)
    state_requested: bool = False
    state_sent_at: float = -1.0
    lost_for: tuple[Cause, str] = (Cause.ABSENT, "")
    banned: str = ""
    refusal: str = ""
    bytes_sent: int = 0
    bytes_heard: int = 0
    last_sent: tuple[bytes, int] = (NO_RUN, -1)
    last_received: tuple[tuple[bytes, int], Array | None] = ((NO_RUN, -1), None)

    @property
    def connected(self) -> bool:
        """Whether frames can be sent."""
        return self.connection is not None and self.connection.is_open

    @property
    def active(self) -> bool:
        """Whether the neighbor takes part in exchanges, or did until just now."""
        return self.state in (LinkState.ACTIVE, LinkState.LEAVING)

    @property
    def leaving(self) -> bool:
        """Whether it was lost at the barrier of an agreement."""
        return self.state is LinkState.LEAVING

    def move(self, event: LinkEvent) -> None:
        """Enter the next state."""
        self.state = LINK[self.state].get(event, self.state)

    @property
    def awaits_offer(self) -> bool:
        """Whether this peer waits for the neighbor's LINK_UP; one that has ended sends none."""
        return self.state is LinkState.OFFERED and self.phase == "running"

    def blocks_round(self, round_: int) -> bool:
        """Return whether this round cannot start before the neighbor's LINK_UP has come."""
        return self.awaits_offer and self.offered < round_

    def note_progress(self, run: bytes, exchange: int) -> None:
        """Note how far the neighbor is in this peer's run; it never goes back."""
        if run != self.furthest[0] or exchange > self.furthest[1]:
            self.furthest, self.progress_at = (run, exchange), self.heard_at

    def count_changes(self, agreement: object) -> int:
        """Count one more change of its view; return how many there were in this agreement."""
        self.changes = _count_in(agreement, self.changes)
        return self.changes[1]

    def count_rejoins_in(self, agreement: object) -> int:
        """Count one more rejoin; return how many there were in this agreement."""
        self.rejoins = _count_in(agreement, self.rejoins)
        return self.rejoins[1]

    def count_rejoins(self, now: float, seconds: float) -> int:
        """Count one more rejoin; return how many there were in the last seconds."""
        return _count(self.rejoined_at, now, seconds)

    def count_statements(self, now: float, seconds: float) -> int:
        """Count one more statement; return how many there were in the last seconds."""
        return _count(self.stated_at, now, seconds)

    def store(self, frame: Frame, view: int | None = None) -> None:
        """Store a frame until its exchange; if there are too many, drop the oldest.

        A neighbor that is in an agreement has left those in other views, whose frames are of use
        only if this peer is in that agreement itself, in these `view`s. Frames of the set-up stay:
        this peer may be at its barrier, which the neighbor has passed.
        """
        if frame.kind is Kind.AGREE:
            kept = (view,) if frame.view == view else (view, frame.view)
            self._drop(lambda old: old.run == frame.run and old.view not in kept)
        self.inbox[frame.key] = frame
        while len(self.inbox) > _INBOX:
            self.inbox.popitem(last=False)

    def start_run(self, run: bytes) -> None:
        """Drop the frames of attempts at the set-up: none of them is of an agreement of the run."""
        self._drop(lambda old: old.run != run)

    def end_agreement(self, number: int, view: int) -> None:
        """Drop the frames of this agreement and of earlier ones in the same views."""
        self._drop(lambda old: old.view == view and old.s <= number)
        if self.agreement_view[0] == view:
            # In the next agreement, these views may be outdated.
            self.agreement_view = _NO_VIEW

    def is_elsewhere(self, view: int | None) -> bool:
        """Return whether it is in an agreement, and that in other views than these."""
        frames = self.inbox.values()
        return any(frame.kind is Kind.AGREE and frame.view != view for frame in frames)

    def _drop(self, useless: Callable[[Frame], bool]) -> None:
        for key, old in list(self.inbox.items()):
            if old.kind is Kind.AGREE and useless(old):
                del self.inbox[key]

    def attach(self, connection: Connection, now: float) -> None:
        """Use a new connection; an older one is closed."""
        old = self.connection
        self.detach()
        self.connection = connection
        if old is not None:
            old.abort("another connection replaced it")
        self.seen_at = self.seen_at if self.seen else now
        self.seen, self.heard_at = True, now

    def detach(self) -> None:
        """Note that the connection is gone."""
        if self.connection is not None:
            self.bytes_sent += self.connection.sent
            self.bytes_heard += self.connection.heard
        self.connection = None
        self.move(LinkEvent.DISCONNECT)
        self.offer_received = None
        self.state_requested = False

    def reset(self, event: LinkEvent = LinkEvent.DROP) -> None:
        """Exclude the neighbor from exchanges, and drop the stored frames."""
        self.move(event)
        self.last_sent, self.last_received = (NO_RUN, -1), ((NO_RUN, -1), None)
        self.offer_received = None
        self.inbox.clear()
        self.outbox.clear()

    def traffic(self) -> tuple[int, int]:
        """Return the numbers of bytes sent and received over all connections."""
        sent, heard = self.bytes_sent, self.bytes_heard
        if self.connection is not None:
            sent, heard = sent + self.connection.sent, heard + self.connection.heard
        return sent, heard


def _count(times: deque[float], now: float, seconds: float) -> int:
    """Add a time; return how many of them are in the last seconds, and forget the others."""
    times.append(now)
    while times[0] < now - seconds:
        times.popleft()
    return len(times)


def _count_in(place: object, counted: tuple[object, int]) -> tuple[object, int]:
    """Return the place and a count increased by one, which starts anew in another place."""
    before, count = counted
    return place, count + 1 if before == place else 1
