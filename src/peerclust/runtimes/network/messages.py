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
from peerclust.text import sanitize as sanitize

Phase = Literal["agreeing", "running", "done"]
Name = Annotated[str, msgspec.Meta(max_length=64)]
# A reason for the log: one line, without terminal control characters; see `sanitize`.
Text = Annotated[str, msgspec.Meta(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")]
Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 20)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Floats = Annotated[list[float], msgspec.Meta(max_length=1 << 20)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base class of all messages."""


class Hello(Message, frozen=True, forbid_unknown_fields=True):
    """The first message of each side: its identity, phase and settings.

    `instance` identifies the process, and `knows` the receiver's process that it was last connected
    to. `counts` is whether the sender considers the receiver active. `settings` are those of its
    network file as JSON, so that differences can be named. With `visits` the sender is only a
    `probe`: it receives a HELLO and does not take part.
    """

    name: Name
    instance: Name
    knows: Name
    phase: Phase
    counts: bool
    settings: Annotated[str, msgspec.Meta(max_length=1 << 20)]
    visits: bool = False


class Heartbeat(Message, frozen=True, forbid_unknown_fields=True):
    """The sender's phase, and whether it considers the receiver active.

    The header has the sender's run and exchange.
    """

    phase: Phase
    counts: bool


class LinkDown(Message, frozen=True, forbid_unknown_fields=True):
    """The links that the set-up excludes, and the processes that were replaced by a restart.

    A receiver to which one of them is new restarts the set-up.
    """

    links: Annotated[list[tuple[Number, Number]], msgspec.Meta(max_length=1 << 20)]
    restarted: Annotated[list[Name], msgspec.Meta(max_length=1 << 12)]


class LinkUp(Message, frozen=True, forbid_unknown_fields=True):
    """An offer to rejoin: the link becomes active after the later of the two ends' rounds."""

    round: Count


class StateRequest(Message, frozen=True, forbid_unknown_fields=True):
    """A request for the state of the run, by a peer that is late or was restarted."""


class Ended(Message, frozen=True, forbid_unknown_fields=True):
    """How a peer's run ended: its last round, and its residual there."""

    round: Count
    residual: float


class View(Message, frozen=True, forbid_unknown_fields=True):
    """A peer's active neighbors from a round on; the view with the largest `seq` is valid.

    `agreed` is the number of the last agreement that the peer had completed.
    """

    peer: Number
    seq: Count
    round: Count
    counts: Annotated[list[Number], msgspec.Meta(max_length=1 << 20)]
    reason: Text = ""
    ended: Ended | None = None
    agreed: Count = 0


class Agreed(Message, frozen=True, forbid_unknown_fields=True):
    """The results of the set-up, which have the same bits at every peer."""

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


class StateReply(Message, frozen=True, forbid_unknown_fields=True):
    """The answer to StateRequest: the results of the set-up, views, and the sender's centers.

    If the run is over (`done`), `status` is the sender's status, or "" if it is not known yet.
    """

    agreed: Agreed
    round: Count
    centers: Annotated[bytes, msgspec.Meta(max_length=1 << 30)]
    views: Annotated[list[View], msgspec.Meta(max_length=1 << 20)]
    done: bool
    status: Name = ""


class Bye(Message, frozen=True, forbid_unknown_fields=True):
    """The sender closes the link: it leaves, stops the run, is done, or refuses the receiver."""

    why: Literal["leaves", "stops", "done", "refuses"]
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


def unpack(data: bytes, kind: type[M]) -> M:
    """Return the message in the bytes, or raise WireError."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WireError(
            f"A message of kind {kind.__name__} cannot be read: {sanitize(str(error))[:200]}."
        ) from None
