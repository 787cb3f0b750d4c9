"""What a peer keeps of one neighbor: the connection, frames come and sent, and where it stands."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from peerclust.runtimes.network.messages import Phase
from peerclust.runtimes.network.transport import Connection
from peerclust.runtimes.network.wire import NO_RUN, Frame, Kind

Key = tuple[bytes, Kind, int]

# A neighbor in lockstep is at most one exchange ahead, in this agreement or in the next.
_INBOX = 4


@dataclass(eq=False)
class Link:
    """One neighbor, connected or not.

    Attributes
    ----------
    counted, since : bool, int
        Whether it is counted as a neighbor, and from which round of the run on.
    inbox, outbox
        Frames that came and are not used yet, by run, kind and exchange; and the last two that
        were sent, to be sent again if the connection breaks.
    rejoin_sent, rejoin_received : int or None
        The rounds that both ends have told, to begin counting each other after the later one;
        `rejoin_sent_at` is when this peer told its own.
    instance : str
        Which process of the neighbor it is, as that names itself.
    phase, run, at, counts_me
        Where the neighbor stands, as far as it has said; `moved` is when it last got further.
    ever, asked, welcomed : bool
        Whether it was ever connected; whether it was asked, over this connection, where the run
        is; and whether it has asked that and been told.
    told, base
        The run and exchange whose array was last sent to it; those of the array last heard, and
        the array: what codes build on.
    left : bool
        Whether it was lost after the last round.
    banned : str
        Why it is not taken up again, or ""; `refusal` is why it, or this peer, was last refused.
    """

    name: str
    number: int
    dials: bool
    active: bool = False
    active_from: int = 0
    connection: Connection | None = None
    instance: str = ""
    inbox: OrderedDict[Key, Frame] = field(default_factory=OrderedDict)
    outbox: deque[bytes] = field(default_factory=lambda: deque(maxlen=2))
    rejoin_sent: int | None = None
    rejoin_sent_at: float = 0.0
    rejoin_received: int | None = None
    phase: Phase = "agreeing"
    run: bytes = NO_RUN
    at: int = -1
    counts_me: bool = False
    progress_at: float = 0.0
    heard_at: float = 0.0
    sent_at: float = 0.0
    seen: bool = False
    state_requested: bool = False
    state_sent: bool = False
    banned: str = ""
    refusal: str = ""
    bytes_sent: int = 0
    bytes_heard: int = 0
    gone_after_end: bool = False
    last_sent: tuple[bytes, int] = (NO_RUN, -1)
    last_received: tuple[tuple[bytes, int], Any] = ((NO_RUN, -1), None)

    @property
    def connected(self) -> bool:
        """Whether frames can be sent."""
        return self.connection is not None and self.connection.is_open

    def blocks_round(self, round_: int) -> bool:
        """Tell whether this peer must not begin a round before it hears when the link counts."""
        return (
            self.rejoin_sent is not None and self.rejoin_sent < round_ and self.phase == "running"
        )

    def store(self, frame: Frame) -> None:
        """Keep a frame until its exchange; of too many the oldest goes."""
        self.inbox[frame.run, frame.kind, frame.exchange] = frame
        while len(self.inbox) > _INBOX:
            self.inbox.popitem(last=False)

    def attach(self, connection: Connection, now: float) -> None:
        """Take a new connection into use; an older one is closed."""
        old = self.connection
        self.detach()
        self.connection = connection
        if old is not None:
            old.abort("another connection took its place")
        self.seen = True
        self.heard_at = self.progress_at = now

    def detach(self) -> None:
        """Note that the connection is gone."""
        if self.connection is not None:
            self.bytes_sent += self.connection.sent
            self.bytes_heard += self.connection.heard
        self.connection = None
        self.rejoin_sent = self.rejoin_received = None
        self.state_requested = self.state_sent = False

    def reset(self) -> None:
        """Stop counting it; frames that came from it are dropped."""
        self.active = False
        self.last_sent, self.last_received = (NO_RUN, -1), ((NO_RUN, -1), None)
        self.rejoin_sent = self.rejoin_received = None
        self.inbox.clear()
        self.outbox.clear()

    def traffic(self) -> tuple[int, int]:
        """Give the bytes sent and heard over all connections."""
        sent, heard = self.bytes_sent, self.bytes_heard
        if self.connection is not None:
            sent, heard = sent + self.connection.sent, heard + self.connection.heard
        return sent, heard
