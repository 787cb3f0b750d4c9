"""The wire format, without I/O: frames to bytes and back. `node` interprets the frames.

A frame is a header of 72 bytes, little-endian, and a payload:

| bytes | field     |                                                                            |
|-------|-----------|----------------------------------------------------------------------------|
| 4     | magic     | "PCLU"                                                                     |
| 1     | version   | 4                                                                          |
| 1     | kind      | see `Kind`                                                                 |
| 1     | dtype     | 0: bytes (MessagePack, see `messages`), 1: float64, 2: float32, 3: codes,  |
|       |           | 4: uint64                                                                  |
| 1     | ndim      | 1 for bytes; 1 to 3 for numbers                                            |
| 8     | network   | the first bytes of the network file's digest                               |
| 8     | run       | the tag of the set-up or run that the frame belongs to                     |
| 8     | exchange  | counted from 0 within it; in a run, exchange = round * B + update          |
| 8, 8  | s, R      | the sender's vote on stopping (see `runtimes.stopping`); in AGREE of a     |
|       |           | run, s is the number of the agreement                                      |
| 4     | view      | the checksum of the views in which the vote was cast or the agreement began|
| 12    | shape     | three numbers; those after ndim are 0, but in ROUND: number of maxima      |
| 4     | length    | of the payload in bytes                                                    |
| 4     | check     | the low half of XXH3-64 of the header before it and the payload            |

Codes are one signed byte e, then one signed byte c per number, which is the number of the previous
exchange plus c 2^e (see `programs.lossy`). A frame of kind ROUND may end with maxima in float64
(`NeighborSum.extra_max`). Integers are parts of a sum over the network; an array of them is empty
where none are due. No other array is.

Bytes from a peer are not trusted: everything is checked before anything is allocated, and an array
is a view of the received bytes.
"""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64

from peerclust.arrays import Array
from peerclust.errors import WireError
from peerclust.runtimes.stopping import NEVER

MAGIC = b"PCLU"
VERSION = 4
TAG_BYTES = 8
NO_RUN = bytes(TAG_BYTES)

_HEADER = struct.Struct("<4sBBBB8s8sQqqI3II")
_CHECK = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CHECK.size
_BYTES, FLOAT64, FLOAT32, CODES, UINT64 = range(5)
_F8 = np.dtype("<f8")
_DTYPES: dict[
    int, np.dtype[np.float64] | np.dtype[np.float32] | np.dtype[np.int8] | np.dtype[np.uint64]
] = {
    FLOAT64: _F8,
    FLOAT32: np.dtype("<f4"),
    CODES: np.dtype("i1"),
    UINT64: np.dtype("<u8"),
}

Integers = NDArray[np.uint64]


class Kind(IntEnum):
    """The kind of a frame; AGREE and ROUND are arrays, all others are messages."""

    HELLO = 1
    HEARTBEAT = 2
    STATEMENT = 3
    AGREE = 4
    ROUND = 5
    LINK_UP = 6
    STATE_REQUEST = 7
    STATE_REPLY = 8
    PROOF = 9
    BYE = 10
    EVIDENCE = 11

    # The hash of an Enum hashes its name, which is slower.
    __hash__ = int.__hash__


ARRAYS = (Kind.AGREE, Kind.ROUND)
_KINDS = {int(kind): kind for kind in Kind}
_OF_KIND: dict[Kind, tuple[int, ...]] = {
    Kind.AGREE: (FLOAT64, UINT64),
    Kind.ROUND: (FLOAT64, FLOAT32, CODES),
}

# The run, the kind, the exchange, and in AGREE of a run its agreement and views.
Key = tuple[bytes, Kind, int, int, int]


class Codes(NamedTuple):
    """Numbers as differences from the previous exchange: codes times 2^exponent."""

    exponent: int
    codes: NDArray[np.int8]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the numbers."""
        return self.codes.shape

    def apply(self, previous: Array) -> Array:
        """Return the numbers, given those of the previous exchange."""
        return np.asarray(previous + self.codes * np.ldexp(1.0, self.exponent))


class Frame(NamedTuple):
    """One frame; `payload` is an array of float64 or uint64, or `Codes`, in AGREE and ROUND.

    Otherwise it is bytes. `dtype` is the number format of an array; `extra_max` are maxima sent
    with it.
    """

    kind: Kind
    network: bytes
    payload: bytes | Array | Integers | Codes = b""
    run: bytes = NO_RUN
    exchange: int = 0
    s: int = 0
    R: int = NEVER
    view: int = 0
    extra_max: Array | None = None
    dtype: int = FLOAT64

    @property
    def message(self) -> bytes:
        """The payload of a message."""
        assert isinstance(self.payload, bytes)
        return self.payload

    @property
    def array(self) -> Array:
        """The payload of an array of numbers that is not sent as codes."""
        assert isinstance(self.payload, np.ndarray)
        return np.asarray(self.payload, np.float64)

    @property
    def integers(self) -> Integers:
        """The payload of an array of integers."""
        assert isinstance(self.payload, np.ndarray)
        return np.asarray(self.payload, np.uint64)

    @property
    def key(self) -> Key:
        """What identifies the frame among those of its sender."""
        attempt = (self.s, self.view) if self.kind is Kind.AGREE else (0, 0)
        return self.run, self.kind, self.exchange, *attempt


def encode(frame: Frame) -> bytes:
    """Return the bytes of a frame.

    >>> data = encode(Frame(Kind.ROUND, bytes(8), np.array([[1.0, 2.0]]), exchange=7))
    >>> len(data), decode(data, limit=1000).array.tolist()
    (88, [[1.0, 2.0]])
    """
    parts: list[bytes | memoryview]
    shape: tuple[int, ...]
    dtype = frame.dtype
    if isinstance(frame.payload, bytes):
        dtype, shape, parts = _BYTES, (len(frame.payload),), [frame.payload]
    elif isinstance(frame.payload, Codes):
        dtype, shape = CODES, frame.payload.codes.shape
        parts = [frame.payload.exponent.to_bytes(1, "little", signed=True)]
        parts.append(frame.payload.codes.tobytes())
    else:
        shape = np.shape(frame.payload)
        parts = [np.ascontiguousarray(frame.payload, _DTYPES[dtype]).data.cast("B")]
    sizes = [*shape, *(0,) * (3 - len(shape))]
    if frame.extra_max is not None:
        sizes[2] = len(frame.extra_max)
        parts.append(np.ascontiguousarray(frame.extra_max, _F8).data.cast("B"))
    payload = parts[0] if len(parts) == 1 else b"".join(parts)
    header = _HEADER.pack(
        MAGIC, VERSION, frame.kind, dtype, len(shape), frame.network, frame.run, frame.exchange,
        frame.s, frame.R, frame.view, *sizes, len(payload),
    )  # fmt: skip
    return b"".join((header, _CHECK.pack(_checksum(header, payload)), payload))


def decode(data: bytes | bytearray | memoryview, *, limit: int) -> Frame:
    """Return the frame in the bytes, or raise WireError; `limit` is the maximum payload in bytes.

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
        raise WireError(
            f"A frame must be of version {VERSION}. Got {version}; install the same version of"
            " peerclust at all sites."
        )
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
    check = _checksum(whole[: _HEADER.size], body)
    if check != _CHECK.unpack_from(data, _HEADER.size)[0]:
        raise WireError("A frame must have the checksum of its bytes; it was changed in transit.")
    if dtype == _BYTES:
        return Frame(kind, network, bytes(body), run, exchange, s, R, view)
    payload, extra_max = _read_array(body, dtype, ndim, shape)
    return Frame(kind, network, payload, run, exchange, s, R, view, extra_max, dtype)


def _read_array(
    body: memoryview, dtype: int, ndim: int, shape: list[int]
) -> tuple[Array | Integers | Codes, Array | None]:
    """Return the numbers, or codes, and the maxima of a payload of the right length."""
    extra = shape[2] if ndim == 2 else 0
    numbers, rest = body[: len(body) - 8 * extra], body[len(body) - 8 * extra :]
    extra_max = np.frombuffer(rest, _F8) if extra else None
    if dtype == CODES:
        codes = np.frombuffer(numbers[1:], np.int8).reshape(shape[:ndim])
        return Codes(int.from_bytes(numbers[:1], "little", signed=True), codes), extra_max
    array = np.frombuffer(numbers, _DTYPES[dtype]).reshape(shape[:ndim])
    if dtype == UINT64:
        return np.asarray(array, np.uint64), extra_max
    with np.errstate(invalid="ignore"):  # NaN is refused where the array is used
        return np.asarray(array, np.float64), extra_max


def _checksum(header: bytes | memoryview, payload: bytes | memoryview) -> int:
    whole = xxh3_64(header)
    whole.update(payload)
    return int(whole.intdigest()) & 0xFFFFFFFF


def _check_shape(kind: Kind, dtype: int, ndim: int, shape: list[int], length: int) -> None:
    if dtype not in _OF_KIND.get(kind, (_BYTES,)):
        raise WireError(f"A frame of kind {kind.name} cannot be of dtype {dtype}.")
    # In ROUND, the third number of a matrix's shape is the number of maxima that follow.
    extra = shape[2] if kind is Kind.ROUND and ndim == 2 else 0
    if not 1 <= ndim <= (1 if dtype == _BYTES else 3) or (any(shape[ndim:]) and not extra):
        raise WireError(f"A frame's shape must have 1 to 3 numbers. Got {ndim}: {shape}.")
    used = shape[:ndim]
    if dtype == _BYTES:
        size = shape[0]
    else:
        # With a 0 in the shape, the other numbers may be too large for numpy.
        if 0 in used and not (dtype == UINT64 and used == [0]):
            raise WireError(f"A frame's array must not be empty. Got the shape {used}.")
        size = math.prod(used) * _DTYPES[dtype].itemsize + 8 * extra + (dtype == CODES)
    if size != length:
        raise WireError(
            f"A frame's payload must be as long as its shape {used} says. Got {length} bytes."
        )
