"""The messages of peers, other than arrays: payloads of frames in MessagePack, without I/O.

Every message is decoded against its type. Unknown or missing fields, wrong types and values that
are too long are refused.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from peerclust.errors import WireError
from peerclust.text import sanitize

Phase = Literal["agreeing", "running", "done"]
Name = Annotated[str, msgspec.Meta(max_length=64)]
# A reason for the log: one line, without terminal control characters; see `sanitize`.
Text = Annotated[str, msgspec.Meta(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")]
Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 20)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Floats = Annotated[list[float], msgspec.Meta(max_length=1 << 20)]
# A compressed point of P-256, and a signature in DER.
PublicKey = Annotated[bytes, msgspec.Meta(min_length=33, max_length=33)]
Signature = Annotated[bytes, msgspec.Meta(max_length=72)]
Nonce = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Subject = Literal["losses", "view", "waits", "agreed", "presence", "record"]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base class of all messages."""


class Incarnation(Message, frozen=True, forbid_unknown_fields=True):
    """A process of a peer: its fresh key, signed by the peer's pinned one (see `statements`).

    `start` is when it started, in nanoseconds. Of two incarnations the later one is valid.
    """

    peer: Number
    start: Count
    key: PublicKey
    signature: Signature

    @property
    def order(self) -> tuple[int, bytes]:
        """A sort key, larger for the later of two incarnations."""
        return self.start, self.key


class Statement(Message, frozen=True, forbid_unknown_fields=True):
    """What a process states about a run (empty before one), signed with its fresh key."""

    origin: Incarnation
    run: Annotated[bytes, msgspec.Meta(max_length=32)]
    kind: Subject
    seq: Count
    body: Annotated[bytes, msgspec.Meta(max_length=1 << 20)]
    signature: Signature

    @property
    def place(self) -> tuple[bytes, bytes, str, int]:
        """What two statements with different contents never share, unless their origin lies."""
        return self.run, self.origin.key, self.kind, self.seq

    @property
    def order(self) -> tuple[int, bytes, int]:
        """A sort key, larger for the later of two statements of a peer and kind."""
        return *self.origin.order, self.seq


class Evidence(Message, frozen=True, forbid_unknown_fields=True):
    """Two statements of one origin that contradict each other."""

    first: Statement
    second: Statement


class Hello(Message, frozen=True, forbid_unknown_fields=True):
    """The first message of each side: its identity, phase and settings.

    `process` is the sender's, and `known` the latest one of the receiver that it knows. `nonce` is
    fresh, for the `Proof` of the other side. `counts` is whether the sender considers the receiver
    active. `settings` are those of its network file as JSON, so that differences can be named. With
    `visits` the sender is only a `probe`: it receives a HELLO and does not take part. A `farewell`
    says why, if its peer cannot take part in the run.
    """

    name: Name
    process: Incarnation
    known: Incarnation | None
    nonce: Nonce
    phase: Phase
    counts: bool
    settings: Annotated[str, msgspec.Meta(max_length=1 << 20)]
    visits: bool = False
    farewell: Bye | None = None


class Proof(Message, frozen=True, forbid_unknown_fields=True):
    """The second message of each side: a signature, over both nonces, by its process's key."""

    signature: Signature


class Heartbeat(Message, frozen=True, forbid_unknown_fields=True):
    """The sender's phase; the header has its run and exchange."""

    phase: Phase


class Losses(Message, frozen=True, forbid_unknown_fields=True):
    """The neighbors that a process has lost in the set-up, which then excludes these links.

    Every process begins with a statement of this kind, so that all peers know of it.
    """

    neighbors: Annotated[list[Number], msgspec.Meta(max_length=1 << 16)]


class LinkUp(Message, frozen=True, forbid_unknown_fields=True):
    """An offer to rejoin: the link becomes active after the later of the two ends' rounds."""

    round: Count


class StateRequest(Message, frozen=True, forbid_unknown_fields=True):
    """A request for the state of the run, by a peer that is late or was restarted."""


class View(Message, frozen=True, forbid_unknown_fields=True):
    """A peer's active neighbors from a round on; the latest of its latest process is valid.

    `start` is that of the process. `agreed` is the number of the last agreement that the peer had
    completed, among those in the views with the checksum `agreed_view`.
    """

    peer: Number
    start: Count
    seq: Count
    round: Count
    counts: Annotated[list[Number], msgspec.Meta(max_length=1 << 20)]
    reason: Text = ""
    ended: bool = False
    agreed: Count = 0
    agreed_view: Count = 0


class Waits(Message, frozen=True, forbid_unknown_fields=True):
    """The neighbors whose frames a peer has awaited for a while; `run` is that of the frames."""

    run: Annotated[bytes, msgspec.Meta(max_length=8)]
    neighbors: Annotated[list[Number], msgspec.Meta(max_length=1 << 16)]


class Agreed(Message, frozen=True, forbid_unknown_fields=True):
    """The results of the set-up, which have the same bits at every peer.

    `processes` is a digest of the keys of all processes that took part.
    """

    members: Annotated[list[Number], msgspec.Meta(max_length=1 << 20)]
    lost: Annotated[list[tuple[Number, Number]], msgspec.Meta(max_length=1 << 20)]
    mean: Floats
    deviation: Floats
    low: Floats
    high: Floats
    spread: float
    weight: float
    W: float
    delta: float
    rho: float
    alpha: float
    curvature: Floats
    evenness: Floats
    lambda_max: float
    lambda_2: float
    processes: Name


Round = tuple[Count, Count]


class Presence(Message, frozen=True, forbid_unknown_fields=True):
    """When a process took part, stated at its end, after the agreement with this number.

    `first` is the round from which it did, and `neighbors` has (peer, first, last) for the rounds
    in which it exchanged with a neighbor.
    """

    agreement: Count
    first: Count
    neighbors: Annotated[list[tuple[Number, Count, Count]], msgspec.Meta(max_length=1 << 16)]


class Record(Message, frozen=True, forbid_unknown_fields=True):
    """The joint record of a run that is over, the same at all its `members` (see `record`).

    `took_part` has, for each listed peer, the rounds [first, last] in which it did. `centers` are
    the mean centers, in the agreed scale. The other numbers are those of the certificate.
    """

    run: Annotated[bytes, msgspec.Meta(max_length=32)]
    agreed: Agreed
    members: Annotated[list[Number], msgspec.Meta(max_length=1 << 16)]
    took_part: Annotated[list[list[Round]], msgspec.Meta(max_length=1 << 16)]
    round: Count
    stopped: bool
    search_rounds: Count
    moves: Count
    moves_kept: Count
    residual: float
    pooled_residual: float
    disagreement: float
    cost: float
    pooled_cost: float
    used: Count
    centers: Annotated[bytes, msgspec.Meta(max_length=1 << 30)]


class SignedRecord(Message, frozen=True, forbid_unknown_fields=True):
    """A record and the statements that sign it."""

    record: Record
    signatures: Annotated[list[Statement], msgspec.Meta(max_length=1 << 16)]


class StateReply(Message, frozen=True, forbid_unknown_fields=True):
    """The answer to StateRequest: the results of the set-up, and the sender's round and centers.

    If the run is over, there is a `record` of it.
    """

    agreed: Agreed
    round: Count
    centers: Annotated[bytes, msgspec.Meta(max_length=1 << 30)]
    record: SignedRecord | None = None


class Bye(Message, frozen=True, forbid_unknown_fields=True):
    """The sender closes the link: it leaves, fails, stops the run, is done, or refuses the other.

    A peer that leaves may soon return; one that fails has an error at its site. If the network file
    of the other `differs`, it is refused for good.
    """

    why: Literal["leaves", "fails", "stops", "done", "refuses", "differs"]
    reason: Text


def pack_centers(x: NDArray[np.float64]) -> bytes:
    """Return centers (..., d) as bytes of float64, little-endian.

    >>> unpack_centers(pack_centers(np.array([[1.0, 2.0], [3.0, 4.0]])), 2).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return np.ascontiguousarray(x, "<f8").tobytes()


def unpack_centers(data: bytes, K: int) -> NDArray[np.float64]:
    """Return the centers, (K, d), from the bytes of `pack_centers`."""
    return np.frombuffer(data, "<f8").reshape(K, -1).copy()


M = TypeVar("M", bound=Message)

_pack = msgspec.msgpack.Encoder().encode


def pack(message: Message) -> bytes:
    """Return the bytes of a message.

    >>> unpack(pack(LinkUp(round=3)), LinkUp)
    LinkUp(round=3)
    """
    return _pack(message)


def to_json(message: Message) -> dict[str, object]:
    """Return a message as JSON types; bytes are in base64.

    >>> to_json(LinkUp(round=3))
    {'round': 3}
    """
    values: dict[str, object] = msgspec.to_builtins(message)
    return values


def unpack(data: bytes, kind: type[M]) -> M:
    """Return the message in the bytes, or raise WireError."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WireError(
            f"A message of kind {kind.__name__} cannot be read: {sanitize(str(error))[:200]}."
        ) from None
