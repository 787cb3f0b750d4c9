"""The wire format, without I/O: a frame to bytes and back. What frames mean is `node`'s business.

A frame is a header of 72 bytes, little-endian, and a payload:

| bytes | field     |                                                                            |
|-------|-----------|----------------------------------------------------------------------------|
| 4     | magic     | "PCLU"                                                                     |
| 1     | version   | 2                                                                          |
| 1     | kind      | see `Kind`                                                                 |
| 1     | dtype     | 0: bytes (MessagePack, see `messages`), 1: float64, 2: float32, 3: codes   |
| 1     | ndim      | 1 for bytes; 1 to 3 for numbers                                            |
| 8     | network   | the first bytes of the network file's digest                               |
| 8     | run       | which agreement or run the frame belongs to                                |
| 8     | exchange  | counted from 0 within it; of a run, exchange = round * B + update          |
| 8, 8  | s, R      | the sender's vote on stopping (see `runtimes.stopping`)                    |
| 4     | view      | which state of the network the vote was cast in                            |
| 12    | shape     | three numbers; those beyond ndim are 0, but the last of ROUND: maxima      |
| 4     | length    | of the payload in bytes                                                    |
| 4     | check     | the low half of XXH3-64 of the header before it and the payload            |

Codes are one signed byte e, then one, c, for each number: it is that of the exchange before plus
c 2^e (see `programs.inexact`). A frame of kind ROUND may end in maxima, float64 (`Sum.most`).

Bytes from a peer are hostile: everything is checked before anything is allocated, and an array is
a view of the bytes that came.
"""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64

from peerclust.errors import WireError
from peerclust.runtimes.stopping import NEVER

MAGIC = b"PCLU"
VERSION = 2
TAG_BYTES = 8
NO_RUN = bytes(TAG_BYTES)

_HEADER = struct.Struct("<4sBBBB8s8sQqqI3II")
_CHECK = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECK.size
_BYTES, FLOAT64, FLOAT32, CODES = range(4)
_F8 = np.dtype("<f8")
_OF: dict[int, np.dtype[Any]] = {FLOAT64: _F8, FLOAT32: np.dtype("<f4"), CODES: np.dtype("i1")}


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


class Codes(NamedTuple):
    """Numbers as they follow from those of the exchange before: plus codes times 2^exponent."""

    exponent: int
    codes: NDArray[np.int8]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers."""
        return self.codes.shape

    def apply(self, before: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give the numbers."""
        return np.asarray(before + self.codes * np.ldexp(1.0, self.exponent))


class Frame(NamedTuple):
    """One frame; `payload` is an array of float64, or `Codes`, for AGREE and ROUND, else bytes.

    `dtype` is how an array travels; `most` are maxima that come with it.
    """

    kind: Kind
    network: bytes
    payload: Any = b""
    run: bytes = NO_RUN
    exchange: int = 0
    s: int = 0
    R: int = NEVER
    view: int = 0
    most: Any = None
    dtype: int = FLOAT64


def encode(frame: Frame) -> bytes:
    """Give the bytes of a frame.

    >>> data = encode(Frame(Kind.ROUND, bytes(8), np.array([[1.0, 2.0]]), exchange=7))
    >>> len(data), decode(data, limit=1000).payload.tolist()
    (88, [[1.0, 2.0]])
    """
    parts: list[Any]
    dtype = frame.dtype
    if isinstance(frame.payload, bytes):
        dtype, shape, parts = _BYTES, (len(frame.payload),), [frame.payload]
    elif isinstance(frame.payload, Codes):
        dtype, shape = CODES, frame.payload.codes.shape
        parts = [frame.payload.exponent.to_bytes(1, "little", signed=True)]
        parts.append(frame.payload.codes.tobytes())
    else:
        shape = np.shape(frame.payload)
        parts = [np.ascontiguousarray(frame.payload, _OF[dtype]).data.cast("B")]
    sizes = [*shape, *(0,) * (3 - len(shape))]
    if frame.most is not None:
        sizes[2] = len(frame.most)
        parts.append(np.ascontiguousarray(frame.most, _F8).data.cast("B"))
    payload: Any = parts[0] if len(parts) == 1 else b"".join(parts)
    header = _HEADER.pack(
        MAGIC, VERSION, frame.kind, dtype, len(shape), frame.network, frame.run, frame.exchange,
        frame.s, frame.R, frame.view, *sizes, len(payload),
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
    if dtype == _BYTES:
        return Frame(kind, network, bytes(body), run, exchange, s, R, view)
    payload, most = _read_array(body, dtype, ndim, shape)
    return Frame(kind, network, payload, run, exchange, s, R, view, most, dtype)


def _read_array(body: memoryview, dtype: int, ndim: int, shape: list[int]) -> tuple[Any, Any]:
    """Give the numbers, or codes, and the maxima of a payload that is as long as it should be."""
    extra = shape[2] if ndim == 2 else 0
    numbers, rest = body[: len(body) - 8 * extra], body[len(body) - 8 * extra :]
    most = np.frombuffer(rest, _F8) if extra else None
    if dtype == CODES:
        codes = np.frombuffer(numbers[1:], np.int8).reshape(shape[:ndim])
        return Codes(int.from_bytes(numbers[:1], "little", signed=True), codes), most
    array = np.frombuffer(numbers, _OF[dtype]).reshape(shape[:ndim])
    with np.errstate(invalid="ignore"):  # one that is none is refused by who uses it
        return array if dtype == FLOAT64 else array.astype(np.float64), most


def _sum_up(header: bytes | memoryview, payload: bytes | memoryview) -> int:
    whole = xxh3_64(header)
    whole.update(payload)
    return int(whole.intdigest()) & 0xFFFFFFFF


def _check_shape(kind: Kind, dtype: int, ndim: int, shape: list[int], length: int) -> None:
    arrays = {Kind.AGREE: (FLOAT64,), Kind.ROUND: tuple(_OF)}.get(kind, (_BYTES,))
    if dtype not in arrays:
        raise WireError(f"A frame of kind {kind.name} cannot be of dtype {dtype}.")
    # The third number of a round's frame counts the maxima that follow.
    extra = shape[2] if kind is Kind.ROUND and ndim == 2 else 0
    if not 1 <= ndim <= (1 if dtype == _BYTES else 3) or (any(shape[ndim:]) and not extra):
        raise WireError(f"A frame's shape must have 1 to 3 numbers. Got {ndim}: {shape}.")
    used = shape[:ndim]
    if dtype == _BYTES:
        size = shape[0]
    else:
        # Of an empty array the other numbers may be so large that numpy has no such shape.
        if 0 in used:
            raise WireError(f"A frame's array must not be empty. Got the shape {used}.")
        size = math.prod(used) * _OF[dtype].itemsize + 8 * extra + (dtype == CODES)
    if size != length:
        raise WireError(
            f"A frame's payload must be as long as its shape {used} says. Got {length} bytes."
        )
