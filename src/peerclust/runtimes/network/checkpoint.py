"""Checkpoints of a peer, from which its next process resumes; they are written atomically."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TypeVar

import msgspec

from peerclust.errors import DataError, WireError
from peerclust.files import read_private, write_durably
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed, Count, Message
from peerclust.runtimes.network.state_validation import refuse_state

_DIGEST = hashlib.sha256().digest_size

T = TypeVar("T")


class Checkpoint(Message, frozen=True, forbid_unknown_fields=True):
    """What a peer needs to resume: digests of network file and rows, set-up, round and centers.

    If the run is over at this peer, `end` is how it ended, in JSON; else it is empty.
    """

    network: bytes
    run: bytes
    rows: bytes
    agreed: Agreed
    round: Count
    centers: bytes
    end: bytes = b""


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in place of the previous one, which stays if writing fails."""
    data = messages.pack(checkpoint)
    write_durably(path, hashlib.sha256(data).digest() + data)


def load(path: Path, contract: Contract) -> Checkpoint | None:
    """Return the checkpoint, or None if there is none; raise DataError if it cannot be used.

    A checkpoint of another network file may have other shapes; it is returned as it is.
    """
    try:
        data = read_private(path)
    except FileNotFoundError:
        return None
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        raise bad(path, "be whole")
    try:
        saved = messages.unpack(data[_DIGEST:], Checkpoint)
    except WireError:
        raise bad(path, "be of this version of peerclust") from None
    if saved.network == contract.digest:
        reason = refuse_state(contract, saved.agreed, saved.round, saved.centers)
        if reason:
            raise bad(path, reason)
    return saved


def bad(path: Path, must: str) -> DataError:
    """Return the error of a checkpoint that cannot be used."""
    return DataError(
        f"The checkpoint {path} must {must}. Move it away; the same command then starts without it."
    )


def pack_end(end: dict[str, object]) -> bytes:
    """Return how a run ended as JSON, in which a number may be NaN."""
    return json.dumps(end).encode()


def unpack_end(data: bytes, kind: type[T]) -> T:
    """Return how a run ended as a value of this type, such as a dataclass, or raise ValueError.

    >>> unpack_end(pack_end({"rounds": 3}), dict[str, int])
    {'rounds': 3}
    """
    try:
        return msgspec.convert(json.loads(data), kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
