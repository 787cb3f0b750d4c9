"""The frames of a websocket (RFC 6455) once it is open, without I/O.

A message is one binary frame; texts and fragments are refused. What comes is read straight into
its place: the copies of a message of a quarter of a megabyte would cost as much as its cipher.
"""

from __future__ import annotations

import secrets
import struct

import numpy as np
from websockets.frames import apply_mask  # type: ignore[attr-defined]

from peerclust.errors import WireError

BINARY, CLOSE, PING, PONG = 2, 8, 9, 10

_FINAL, _MASKED, _RESERVED = 0x80, 0x80, 0x70
_LONGEST_HEAD = 14
_LONGEST_CONTROL = 125

_KNOWN = (BINARY, CLOSE, PING, PONG)

# Up to so many bytes, a copy costs less than a TLS record of its own for the head.
_SHORT = 1 << 17


def encode(opcode: int, data: bytes, *, masked: bool) -> list[bytes]:
    r"""Give the bytes of a frame, in one part or two; what a client sends is masked.

    >>> encode(BINARY, b"hello", masked=False)
    [b'\x82\x05hello']
    """
    size, mask = len(data), _MASKED if masked else 0
    if size < 126:
        head = struct.pack("!BB", _FINAL | opcode, mask | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _FINAL | opcode, mask | 126, size)
    else:
        head = struct.pack("!BBQ", _FINAL | opcode, mask | 127, size)
    if masked:
        key = secrets.token_bytes(4)
        head, data = head + key, apply_mask(data, key)
    return [head + data] if size <= _SHORT else [head, data]


class Reader:
    r"""Tells where the bytes that come next belong, and gives the frames that they complete.

    `masked` tells whether the other side is the client; `limit` is of a frame's data in bytes.

    >>> reader = Reader(masked=False, limit=100)
    >>> reader.room()[:7] = b"\x82\x05hello"
    >>> [(opcode, bytes(data)) for opcode, data in reader.took(7)]
    [(2, b'hello')]
    """

    def __init__(self, *, masked: bool, limit: int) -> None:
        self._masked, self._limit = masked, limit
        self._head, self._held = memoryview(bytearray(_LONGEST_HEAD)), 0
        self._body: memoryview | None = None
        self._filled = self._opcode = 0
        self._key = b""

    def room(self) -> memoryview:
        """Give the place for the next bytes; it is never empty."""
        return self._head[self._held :] if self._body is None else self._body[self._filled :]

    def took(self, count: int) -> list[tuple[int, bytes | memoryview]]:
        """Note that so many bytes were put there; give opcode and data of each whole frame."""
        if self._body is None:
            self._held += count
        else:
            self._filled += count
        found = []
        while self._body is not None or self._begin():
            assert self._body is not None
            if self._filled < len(self._body):
                break
            data = apply_mask(self._body, self._key) if self._masked else self._body.toreadonly()
            found.append((self._opcode, data))
            self._body = None
        return found

    def _begin(self) -> bool:
        """Begin a frame if its head is whole; what was read beyond the head belongs to its data."""
        if self._held < 2:
            return False
        first, second = self._head[0], self._head[1]
        self._opcode, size = first & 0x0F, second & 0x7F
        if first & _RESERVED or not first & _FINAL or self._opcode not in _KNOWN:
            raise WireError("a message must be one binary frame")
        if bool(second & _MASKED) is not self._masked:
            raise WireError("what a client sends must be masked, and nothing else")
        long = 0 if size < 126 else 2 if size == 126 else 8
        end = 2 + long + (4 if self._masked else 0)
        if self._held < end:
            return False
        if long:
            size = int.from_bytes(self._head[2 : 2 + long], "big")
        if self._opcode != BINARY and size > _LONGEST_CONTROL:
            raise WireError(f"a control frame must have at most {_LONGEST_CONTROL} bytes")
        if size > self._limit:
            raise WireError(f"a message must have at most {self._limit} bytes, and one had {size}")
        self._key = bytes(self._head[2 + long : end])
        # Not zeroed, unlike a bytearray.
        self._body = np.empty(size, np.uint8).data
        self._filled = min(self._held - end, size)
        self._body[: self._filled] = self._head[end : end + self._filled]
        end += self._filled
        self._head[: self._held - end] = bytes(self._head[end : self._held])
        self._held -= end
        return True
