"""Valid frames of all kinds, and random mutations of them as a hostile peer might send.

Three of four mutated frames get a correct checksum, and most of these a correct length, so that
fuzzing also reaches the code behind these checks. Each comes in a websocket frame, which one time
in eight is mutated, too.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from websockets.frames import apply_mask  # type: ignore[attr-defined]
from xxhash import xxh3_64_intdigest

from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.messages import Message
from peerclust.runtimes.network.wire import HEADER_BYTES, Frame, Kind

# Offset and width of each field of the header.
_FIELDS = (
    (0, 4), (4, 1), (5, 1), (6, 1), (7, 1), (8, 8), (16, 8), (24, 8), (32, 8), (40, 8), (48, 4),
    (52, 4), (56, 4), (60, 4), (64, 4), (68, 4),
)  # fmt: skip
_EXTREMES = (0, 1, 2, 8, 0x7F, 0x80, 1 << 15, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
             1 << 61, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip

# Extreme MessagePack: arrays, maps, texts, bytes and extensions of up to 4 GB, deep nesting, NaN,
# and a byte without a meaning.
_HOSTILE = (
    b"\xdd\xff\xff\xff\xff", b"\xdd\x00\x0f\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc1",
    b"\xdb\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x05", b"\x91" * 2000,
    b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", b"\xa2\xff\xfe",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", b"\x81" * 300, b"\xdc\xff\xff", b"\xc0", b"\x80",
)  # fmt: skip

# Contents of close frames: valid, empty, too short, with a code that is reserved, not UTF-8.
_CLOSES = b"\x03\xe8bye", b"", b"\x03", b"\x03\xed", b"\x03\xe8\xff"


def valid_frames() -> list[bytes]:
    """Return frames of all kinds and several shapes, as peers send them."""
    network, run = bytes(range(8)), bytes(range(8, 16))
    four = [0.5, -1.25, 1e300, 3.0]
    agreed = messages.Agreed(
        [0, 1, 2],
        [(0, 3)],
        four,
        four,
        four,
        four,
        1.0,
        900.0,
        300.0,
        2.5,
        50.0,
        0.01,
        four,
        four,
        4.0,
        0.5,
        "5f" * 32,
    )
    start = 1_700_000_000_000_000_000
    views = [
        messages.View(0, start, 2, 17, [1, 4], "3: nothing was heard of it for 10 s"),
        messages.View(0, start, 3, 40, [2, 300, 70000], ended=True),
    ]
    process = messages.Incarnation(0, start, bytes(range(33)), bytes(range(71)))
    bodies: list[tuple[messages.Subject, Message]] = [
        ("losses", messages.Losses([1, 300])),
        ("view", views[0]),
        ("view", views[1]),
        ("agreed", agreed),
        ("presence", messages.Presence(3, 0, [(1, 0, 16), (4, 0, 40)])),
    ]
    stated = [
        messages.Statement(process, run * 4, kind, n, messages.pack(body), bytes(range(70)))
        for n, (kind, body) in enumerate(bodies)
    ]
    record = messages.Record(
        run * 4, agreed, [0, 1, 2], [[(0, 41)], [(0, 16), (20, 41)], [(0, 41)], []],
        41, True, 0, 0, 0, 1e-7, 1e-8, 1e-6, 5.0, 70.0, 3, bytes(96),
    )  # fmt: skip
    signed = messages.SignedRecord(
        record,
        [messages.Statement(process, run * 4, "record", 1, bytes(range(32)), bytes(range(72)))],
    )
    nonce = bytes(range(32))
    settings = '{"B": 1, "features": ["age", "größe"], "links": [["a", "b"]], "rho": "auto"}'
    control: list[tuple[Kind, Message]] = [
        (Kind.HELLO, messages.Hello("a", process, None, nonce, "agreeing", False, settings)),
        (Kind.HELLO, messages.Hello("b", process, process, nonce, "done", True, settings)),
        (Kind.PROOF, messages.Proof(bytes(range(71)))),
        (Kind.HEARTBEAT, messages.Heartbeat("running")),
        *((Kind.STATEMENT, each) for each in (*stated, *signed.signatures)),
        (Kind.EVIDENCE, messages.Evidence(*stated[1:3])),
        (Kind.LINK_UP, messages.LinkUp(1 << 40)),
        (Kind.STATE_REQUEST, messages.StateRequest()),
        (Kind.STATE_REPLY, messages.StateReply(agreed, 12, bytes(96))),
        (Kind.STATE_REPLY, messages.StateReply(agreed, 12, bytes(96), signed)),
        (Kind.BYE, messages.Bye("refuses", "it is running already")),
    ]
    rng = np.random.default_rng(0)
    shapes = [(1,), (5,), (1, 9), (3, 4), (10, 2, 4)]
    arrays = [(kind, rng.normal(size=shape)) for kind in wire.ARRAYS for shape in shapes]
    frames = [
        *(Frame(kind, network, messages.pack(message), run, 3) for kind, message in control),
        *(Frame(kind, network, x, run, 70, 2, 90, 12345) for kind, x in arrays),
    ]
    centers, extra_max = rng.normal(size=(3, 4)), rng.random(6)
    codes = wire.Codes(-7, rng.integers(-127, 128, (3, 4)).astype(np.int8))
    for maxima in (None, extra_max):
        rounded = Frame(Kind.ROUND, network, codes, run, 70, 2, 90, 12345, maxima)
        single = rounded._replace(payload=centers, dtype=wire.FLOAT32)
        frames += [rounded, single, single._replace(dtype=wire.FLOAT64)]
    for size in (0, 5):
        integers = rng.integers(0, 1 << 63, size, dtype=np.uint64)
        frames.append(Frame(Kind.AGREE, network, integers, run, 3, 1, dtype=wire.UINT64))
    return [wire.encode(frame) for frame in frames]


class Mutant(NamedTuple):
    """A mutated frame in a websocket frame, and whether its checksum was corrected."""

    corrected: bool
    websocket: bytes


def mutated_frames(good: list[bytes], n: int, rng: np.random.Generator) -> Iterator[Mutant]:
    """Yield n frames with one to three mutations each."""
    noise = rng.bytes(1 << 16)
    for first, times, correct, *numbers in rng.integers(1 << 32, size=(n, 15)).tolist():
        data = bytearray(good[first % len(good)])
        for at in range(0, 4 * (1 + times % 8 // 5 + times % 64 // 60), 4):
            mutate = _MUTATIONS[numbers[at] % len(_MUTATIONS)]
            mutate(data, numbers[at + 1 : at + 4], good, noise)
        corrected = correct % 4 > 0 and len(data) >= HEADER_BYTES
        if corrected:
            _correct(data, length=correct % 4 > 1)
        yield Mutant(corrected, _wrap(bytes(data), numbers))


def _wrap(data: bytes, r: list[int]) -> bytes:
    """Return a client's websocket frame around the data; one time in eight it is mutated."""
    size, key = len(data), r[0].to_bytes(4, "little")
    head = bytearray(b"\x82" + bytes([0x80 | min(size, 126)]))
    if size > 125:
        head += size.to_bytes(2, "big")
    if size >= 1 << 16:
        head[1:] = b"\xff" + size.to_bytes(8, "big")
    whole = head + key + apply_mask(data, key)
    if r[1] % 8:
        return bytes(whole)
    how = r[2] % 4
    if how == 0:
        whole[r[3] % 2] ^= 1 << (r[3] >> 8) % 8
    elif how == 1:
        whole[r[3] % len(head)] = r[4] % 256
    elif how == 2:
        # A size of up to 2**64, in 8 bytes.
        value = _EXTREMES[r[3] % len(_EXTREMES)]
        whole[1 : len(head)] = b"\xff" + value.to_bytes(8, "big")
    else:
        # A control frame before it: of all kinds and sizes, with bytes of a close frame or others.
        body = _CLOSES[r[5] % 5] if r[5] % 2 else data[: r[4] % 128]
        whole[:0] = bytes([0x80 | r[3] % 16, 0x80 | len(body)]) + key + apply_mask(body, key)
    return bytes(whole)


def _correct(data: bytearray, *, length: bool) -> None:
    size = len(data) - HEADER_BYTES
    if length:
        struct.pack_into("<I", data, 64, size)
        if data[6] == 0:
            struct.pack_into("<I", data, 52, size)
    check = xxh3_64_intdigest(data[:68] + data[HEADER_BYTES:]) & 0xFFFFFFFF
    struct.pack_into("<I", data, 68, check)


# Mutations change a frame in place, given three random numbers r, valid frames and random bytes.


def _flip_bits(data: bytearray, r: list[int], _: list[bytes], __: bytes) -> None:
    for at in r[: 1 + r[2] % 3] if data else ():
        data[at % len(data)] ^= 1 << (at >> 29)


def _set_bytes(data: bytearray, r: list[int], _: list[bytes], noise: bytes) -> None:
    at, start, n = r[0] % (len(data) + 1), r[1] % (len(noise) - 4), 1 + r[2] % 4
    data[at : at + n] = noise[start : start + n]


def _truncate(data: bytearray, r: list[int], _: list[bytes], __: bytes) -> None:
    del data[(r[0] if r[1] % 2 else len(data) - r[0] % 9) % (len(data) + 1) :]


def _extend(data: bytearray, r: list[int], _: list[bytes], noise: bytes) -> None:
    data += noise[r[0] % len(noise) :][: 1 + r[1] % (400 if r[2] % 4 else 4)]


def _cut_out(data: bytearray, r: list[int], _: list[bytes], __: bytes) -> None:
    at = HEADER_BYTES + r[0] % max(1, len(data) - HEADER_BYTES)
    del data[at : at + 1 + r[1] % 8]


def _splice(data: bytearray, r: list[int], good: list[bytes], _: bytes) -> None:
    other = good[r[2] % len(good)]
    data[r[0] % (len(data) + 1) :] = other[r[1] % (len(other) + 1) :]


def _swap_payload(data: bytearray, r: list[int], good: list[bytes], _: bytes) -> None:
    data[HEADER_BYTES:] = good[r[2] % len(good)][HEADER_BYTES:]


def _set_field(data: bytearray, r: list[int], _: list[bytes], __: bytes) -> None:
    at, width = _FIELDS[r[0] % len(_FIELDS)]
    value = _EXTREMES[r[1] % len(_EXTREMES)] % (1 << 8 * width)
    data[at : at + width] = value.to_bytes(width, "little")


def _set_shape(data: bytearray, r: list[int], _: list[bytes], __: bytes) -> None:
    """Set all three numbers of the shape to extreme or small values; adapt a small payload."""
    wanted = [_EXTREMES[n % 11] if n & 64 else (n >> 7) % 12 for n in r]
    ndim = 1 + (r[0] >> 20) % 3
    data[7:8] = bytes([ndim])
    data[52:64] = struct.pack("<3I", *wanted)
    size = 8 * math.prod(wanted[:ndim])
    if size < 5000:
        data[HEADER_BYTES:] = bytes(size)


def _insert_hostile(data: bytearray, r: list[int], _: list[bytes], __: bytes) -> None:
    piece = _HOSTILE[r[0] % len(_HOSTILE)]
    at = HEADER_BYTES + r[1] % max(1, len(data) - HEADER_BYTES)
    data[at : at + r[2] % 10] = piece


_MUTATIONS = (
    _flip_bits, _set_bytes, _truncate, _extend, _cut_out, _splice, _swap_payload, _set_field,
    _set_shape, _insert_hostile,
)  # fmt: skip
