"""A peer's state written down so that its next process can go on: whole, or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

from peerclust.errors import DataError, WireError
from peerclust.files import write_durably
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.messages import Agreed, Message

_DIGEST = hashlib.sha256().digest_size


class Checkpoint(Message, frozen=True, forbid_unknown_fields=True):
    """What a peer needs to come back: which run, with which rows, what was agreed, where it was."""

    run: bytes
    rows: bytes
    agreed: Agreed
    round: int
    centers: bytes


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in place of the one before; that one stays if it cannot be written."""
    data = messages.pack(checkpoint)
    write_durably(path, hashlib.sha256(data).digest() + data)


def load(path: Path) -> Checkpoint | None:
    """Read the checkpoint, None if there is none; one that is not whole is a DataError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"The checkpoint {path} cannot be read: {error.strerror}.") from None
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        raise DataError(f"The checkpoint {path} is not whole.")
    try:
        return messages.unpack(data[_DIGEST:], Checkpoint)
    except WireError:
        raise DataError(f"The checkpoint {path} is of another version.") from None
