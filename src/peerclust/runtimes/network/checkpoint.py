"""Checkpoints of a peer, from which its next process resumes; they are written atomically."""

from __future__ import annotations

import hashlib
from pathlib import Path

from peerclust.errors import DataError, WireError
from peerclust.files import write_durably
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.messages import Agreed, Message

_DIGEST = hashlib.sha256().digest_size


class Checkpoint(Message, frozen=True, forbid_unknown_fields=True):
    """What a peer needs to resume: run, digest of the rows, set-up results, round and centers."""

    run: bytes
    rows: bytes
    agreed: Agreed
    round: int
    centers: bytes


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in place of the previous one, which stays if writing fails."""
    data = messages.pack(checkpoint)
    write_durably(path, hashlib.sha256(data).digest() + data)


def load(path: Path) -> Checkpoint | None:
    """Return the checkpoint, None if there is none; raise DataError if it is not intact."""
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
