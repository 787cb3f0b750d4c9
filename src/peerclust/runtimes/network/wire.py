"""The wire format, without I/O: a frame to bytes and back. What frames mean is `node`'s business.

A frame is a header of 72 bytes, little-endian, and a payload:

| bytes | field     |                                                                            |
|-------|-----------|----------------------------------------------------------------------------|
| 4     | magic     | "PCLU"                                                                     |
| 1     | version   | 1                                                                          |
| 1     | kind      | see `Kind`                                                                 |
| 1     | dtype     | 0: bytes (MessagePack, see `messages`), 1: float64                         |
| 1     | ndim      | 1 for bytes; 1 to 3 for float64                                            |
| 8     | network   | the first bytes of the network file's digest                               |
| 8     | run       | which agreement or run the frame belongs to                                |
| 8     | exchange  | counted from 0 within it; of a run, exchange = round * B + update          |
| 8, 8  | s, R      | the sender's vote on stopping (see `peerclust.stopping`)                   |
| 4     | view      | which state of the network the vote was cast in                            |
| 12    | shape     | three numbers; those beyond ndim are 0                                     |
| 4     | length    | of the payload in bytes                                                    |
| 4     | check     | the low half of XXH3-64 of the header before it and the payload            |

Bytes from a peer are hostile: everything is checked before anything is allocated, and an array is
a view of the bytes that came.
"""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from xxhash import xxh3_64

from peerclust.errors import WireError
from peerclust.stopping import NEVER

MAGIC = b"PCLU"
VERSION = 1
TAG_BYTES = 8
NO_RUN = bytes(TAG_BYTES)

_HEADER = struct.Struct("<4sBBBB8s8sQqqI3II")
_CHECK = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECK.size
_BYTES, _FLOAT64 = 0, 1
_F8 = np.dtype("<f8")


class Kind(IntEnum):
    """What a frame says; arrays travel as AGREE and ROUND, all others are messages."""

    HELLO = 1
    ALIVE = 2
    LOST = 3
    AGREE = 4
    ROUND = 5
    UP = 6
    NEED = 7
    WELCOME = 8
    VIEW = 9
    BYE = 10

    # That of an Enum hashes its name.
    __hash__ = int.__hash__


ARRAYS = (Kind.AGREE, Kind.ROUND)
_KINDS = {int(kind): kind for kind in Kind}


class Frame(NamedTuple):
    """One frame; `payload` is an array of float64 for AGREE and ROUND, else bytes."""

    kind: Kind
    network: bytes
    payload: Any = b""
    run: bytes = NO_RUN
    exchange: int = 0
    s: int = 0
    R: int = NEVER
    view: int = 0


def encode(frame: Frame) -> bytes:
    """Give the bytes of a frame.

    >>> data = encode(Frame(Kind.ROUND, bytes(8), np.array([[1.0, 2.0]]), exchange=7))
    >>> len(data), decode(data, limit=1000).payload.tolist()
    (88, [[1.0, 2.0]])
    """
    payload: Any
    if isinstance(frame.payload, bytes):
        dtype, shape, payload = _BYTES, (len(frame.payload),), frame.payload
    else:
        array = np.ascontiguousarray(frame.payload, _F8)
        dtype, shape, payload = _FLOAT64, array.shape, array.data.cast("B")
    header = _HEADER.pack(
        MAGIC, VERSION, frame.kind, dtype, len(shape), frame.network, frame.run, frame.exchange,
        frame.s, frame.R, frame.view, *shape, *(0,) * (3 - len(shape)), len(payload),
    )  # fmt: skip
    return b"".join((header, _CHECK.pack(_sum_up(header, payload)), payload))


def decode(data: bytes | bytearray | memoryview, *, limit: int) -> Frame:
    """Give the frame that the bytes are, or raise WireError; `limit` is of the payload in bytes.

    >>> decode(b"GET / HTTP/1.1", limit=1000)
    Traceback (most recent call last):
    peerclust.errors.WireError: A frame must have a header of 72 bytes. Got 14 bytes.
    """
    size = len(data) - HEADER_BYTES
    if size < 0:
        raise WireError(
            f"A frame must have a header of {HEADER_BYTES} bytes. Got {len(data)} bytes."
        )
    (
        magic, version, number, dtype, ndim, network, run, exchange, s, R, view, *shape, length,
    ) = _HEADER.unpack_from(data)  # fmt: skip
    if magic != MAGIC:
        raise WireError(f"A frame must begin with {MAGIC!r}. Got {magic!r}.")
    if version != VERSION:
        raise WireError(f"A frame must be of version {VERSION}. Got {version}.")
    kind = _KINDS.get(number)
    if kind is None:
        raise WireError(f"A frame must be of a known kind. Got {number}.")
    if length > limit:
        raise WireError(f"A frame's payload must have at most {limit} bytes. Got {length}.")
    if length != size:
        raise WireError(
            f"A frame must be as long as its header says, {length} bytes of payload. Got {size}."
        )
    _check_shape(kind, dtype, ndim, shape, length)
    if exchange > NEVER or s < 0 or R < 0:
        raise WireError("A frame's exchange and vote must be counts.")
    whole = memoryview(data)
    body = whole[HEADER_BYTES:]
    check = _sum_up(whole[: _HEADER.size], body)
    if check != _CHECK.unpack_from(data, _HEADER.size)[0]:
        raise WireError("A frame must have the checksum of its bytes; it was changed on its way.")
    floats = dtype == _FLOAT64
    payload = np.frombuffer(body, _F8).reshape(shape[:ndim]) if floats else bytes(body)
    return Frame(kind, network, payload, run, exchange, s, R, view)


def _sum_up(header: bytes | memoryview, payload: bytes | memoryview) -> int:
    whole = xxh3_64(header)
    whole.update(payload)
    return int(whole.intdigest()) & 0xFFFFFFFF


def _check_shape(kind: Kind, dtype: int, ndim: int, shape: list[int], length: int) -> None:
    if dtype != (_FLOAT64 if kind in ARRAYS else _BYTES):
        raise WireError(f"A frame of kind {kind.name} cannot be of dtype {dtype}.")
    if not 1 <= ndim <= (3 if dtype == _FLOAT64 else 1) or any(shape[ndim:]):
        raise WireError(f"A frame's shape must have 1 to 3 numbers. Got {ndim}: {shape}.")
    used = shape[:ndim]
    # Of an empty array the other numbers may be so large that numpy has no such shape.
    if dtype == _FLOAT64 and 0 in used:
        raise WireError(f"A frame's array must not be empty. Got the shape {used}.")
    if math.prod(used) * (8 if dtype == _FLOAT64 else 1) != length:
        raise WireError(
            f"A frame's payload must be as long as its shape {used} says. Got {length} bytes."
        )
