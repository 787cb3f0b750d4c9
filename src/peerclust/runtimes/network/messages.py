"""What peers say besides arrays, each a frame's payload in MessagePack; no I/O.

Every message has a type, and what a peer sends is checked against it: unknown or missing fields,
wrong kinds and what is too long are refused.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from peerclust.errors import WireError

Phase = Literal["agreeing", "running", "done"]
Name = Annotated[str, msgspec.Meta(max_length=64)]
# A reason that is logged: one line, without what could steer a terminal; see `sanitize`.
Text = Annotated[str, msgspec.Meta(max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z")]
Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 20)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Floats = Annotated[list[float], msgspec.Meta(max_length=1 << 20)]


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The root of all messages."""


class Hello(Message, frozen=True, forbid_unknown_fields=True):
    """The first message of each side: who it is and where it stands.

    `instance` names the process; `knows` is the instance that it was last linked with; `counts`
    whether it still counts the other as its neighbor; `settings` are those of its network file, as
    JSON, so that a difference can be named. Who `visits` only checks that all is well (`visit`): it
    is answered by a hello and takes no part.
    """

    name: Name
    instance: Name
    knows: Name
    phase: Phase
    counts: bool
    settings: Annotated[str, msgspec.Meta(max_length=1 << 20)]
    visits: bool = False


class Heartbeat(Message, frozen=True, forbid_unknown_fields=True):
    """Where the sender stands; the header's exchange tells how far it is."""

    phase: Phase
    counts: bool


class LinkDown(Message, frozen=True, forbid_unknown_fields=True):
    """The links that an agreement does without, and the processes that were started again since.

    Whoever hears of more than it knew starts the agreement again.
    """

    links: Annotated[list[tuple[Number, Number]], msgspec.Meta(max_length=1 << 20)]
    restarted: Annotated[list[Name], msgspec.Meta(max_length=1 << 12)]


class LinkUp(Message, frozen=True, forbid_unknown_fields=True):
    """Both ends count each other again after the later of the two rounds they send."""

    round: Count


class StateRequest(Message, frozen=True, forbid_unknown_fields=True):
    """The sender has come late, or come back, and asks where the run is."""


class Ended(Message, frozen=True, forbid_unknown_fields=True):
    """How a peer's run ended: its last round, its residual, how far its neighbors' centers are."""

    round: Count
    residual: float
    apart: float


class View(Message, frozen=True, forbid_unknown_fields=True):
    """Whom a peer counts, from which round on; of two the one with the larger `seq` holds."""

    peer: Number
    seq: Count
    round: Count
    counts: Annotated[list[Number], msgspec.Meta(max_length=1 << 20)]
    reason: Text = ""
    ended: Ended | None = None


class Agreed(Message, frozen=True, forbid_unknown_fields=True):
    """What all peers agreed on before the first round, the same bits everywhere."""

    members: Annotated[list[Number], msgspec.Meta(max_length=1 << 20)]
    lost: Annotated[list[tuple[Number, Number]], msgspec.Meta(max_length=1 << 20)]
    mean: Floats
    deviation: Floats
    low: Floats
    high: Floats
    spread: float
    weight: float
    W: float
    rho: float
    alpha: float
    penalty: float


class StateReply(Message, frozen=True, forbid_unknown_fields=True):
    """The answer to StateRequest: what was agreed, whom everyone counts, and the sender's centers.

    If the run is over (`done`), `status` is how it ended for the sender, as far as it knows.
    """

    agreed: Agreed
    round: Count
    centers: Annotated[bytes, msgspec.Meta(max_length=1 << 30)]
    views: Annotated[list[View], msgspec.Meta(max_length=1 << 20)]
    done: bool
    status: Name = ""


class Bye(Message, frozen=True, forbid_unknown_fields=True):
    """The sender closes the link: it leaves, it stops all, it is done, or it refuses the other."""

    why: Literal["leaves", "stops", "done", "refuses"]
    reason: Text


def pack_centers(x: NDArray[np.float64]) -> bytes:
    """Give centers (..., d) as bytes of float64, little-endian.

    >>> unpack_centers(pack_centers(np.array([[1.0, 2.0], [3.0, 4.0]])), 2).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return np.ascontiguousarray(x, "<f8").tobytes()


def unpack_centers(data: bytes, K: int) -> NDArray[np.float64]:
    """Give the centers, (K, d), of `pack_centers`."""
    return np.frombuffer(data, "<f8").reshape(K, -1).copy()


M = TypeVar("M", bound=Message)

_pack = msgspec.msgpack.Encoder().encode


def pack(message: Message) -> bytes:
    """Give a message's bytes.

    >>> unpack(pack(LinkUp(round=3)), LinkUp)
    LinkUp(round=3)
    """
    return _pack(message)


def unpack(data: bytes, kind: type[M]) -> M:
    """Give the message that the bytes are, or raise WireError."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WireError(
            f"A message of kind {kind.__name__} cannot be read: {sanitize(str(error))[:200]}."
        ) from None


def sanitize(text: str) -> str:
    """Give a text that may hold a peer's own words as one line of a log, or a reason, may show it.

    >>> sanitize("a" + chr(10) + "b")
    'a?b'
    """
    return "".join(c if c.isprintable() else "?" for c in text[:1000])
