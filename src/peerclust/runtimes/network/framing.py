"""The frames of an open websocket (RFC 6455), without I/O.

A message is one binary frame; text frames and fragments are refused. Received bytes are read
directly into their final buffer: copying a message of 256 KB would cost as much as decrypting it.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator

import numpy as np

# Compiled where the library could be; its stubs do not list it.
from websockets.frames import apply_mask  # type: ignore[attr-defined]

from peerclust.errors import WireError

BINARY, CLOSE, PING, PONG = 2, 8, 9, 10

_FINAL, _MASKED, _RESERVED = 0x80, 0x80, 0x70
_LONGEST_CONTROL = 125

# Size of the buffer in which headers, of at most 14 bytes, and short frames are collected.
_BUFFER = 1 << 14

_KNOWN = (BINARY, CLOSE, PING, PONG)

# Up to this size, a copy costs less than a TLS record of its own for the header.
_SHORT = 1 << 17


def encode(opcode: int, data: bytes, *, masked: bool) -> list[bytes]:
    r"""Return the bytes of a frame, in one part or two; a client's frames are masked.

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
    r"""A decoder of frames, with the buffer into which the next bytes are to be read.

    `masked` is whether the other side is the client; `limit` is the maximum size of a frame's data
    in bytes.

    >>> reader = Reader(masked=False, limit=100)
    >>> reader.get_buffer()[:7] = b"\x82\x05hello"
    >>> [(opcode, bytes(data)) for opcode, data in reader.buffer_updated(7)]
    [(2, b'hello')]
    """

    def __init__(self, *, masked: bool, limit: int) -> None:
        self._masked, self._limit = masked, limit
        self._held, self._count = memoryview(bytearray(_BUFFER)), 0
        # A frame that does not fit into that buffer.
        self._body: memoryview | None = None
        self._filled = self._opcode = 0
        self._key = b""

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next bytes; it is never empty."""
        return self._held[self._count :] if self._body is None else self._body[self._filled :]

    def buffer_updated(self, count: int) -> Iterator[tuple[int, bytes | memoryview]]:
        """Accept `count` bytes in `get_buffer()`; yield opcode and data of complete frames."""
        if self._body is not None:
            self._filled += count
            if self._filled == len(self._body):
                body, self._body = self._body.toreadonly(), None
                yield self._opcode, apply_mask(body, self._key) if self._masked else body
            return
        self._count += count
        at = 0
        while self._body is None and (span := self._parse_header(at)):
            begin, size = span
            end = begin + size
            if end <= self._count:
                data = self._held[begin:end]
                yield self._opcode, apply_mask(data, self._key) if self._masked else bytes(data)
            else:
                # Not zeroed, unlike a bytearray.
                self._body = np.empty(size, np.uint8).data
                self._filled = self._count - begin
                self._body[: self._filled] = self._held[begin : self._count]
            at = min(end, self._count)
        self._count -= at
        if at and self._count:
            self._held[: self._count] = bytes(self._held[at : at + self._count])

    def _parse_header(self, at: int) -> tuple[int, int] | None:
        """Return offset and size of the next frame's data, or None if its header is incomplete."""
        held = self._count - at
        if held < 2:
            return None
        first, second = self._held[at], self._held[at + 1]
        self._opcode, size = first & 0x0F, second & 0x7F
        if first & _RESERVED or not first & _FINAL or self._opcode not in _KNOWN:
            raise WireError("a message must be one binary frame")
        if bool(second & _MASKED) is not self._masked:
            raise WireError("a client's frames must be masked, and only these")
        head = 2 if size < 126 else 4 if size == 126 else 10
        keyed = head + 4 if self._masked else head
        if held < keyed:
            return None
        if head > 2:
            size = int.from_bytes(self._held[at + 2 : at + head], "big")
        if self._opcode != BINARY and size > _LONGEST_CONTROL:
            raise WireError(f"a control frame must have at most {_LONGEST_CONTROL} bytes")
        if size > self._limit:
            raise WireError(f"a message must have at most {self._limit} bytes, and one had {size}")
        self._key = bytes(self._held[at + head : at + keyed])
        return at + keyed, size
