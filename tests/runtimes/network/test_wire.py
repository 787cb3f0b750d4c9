import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from xxhash import xxh3_64_intdigest

from chaos.frame_mutations import valid_frames
from peerclust.errors import WireError
from peerclust.runtimes.network import wire
from peerclust.runtimes.network.wire import ARRAYS, HEADER_BYTES, Frame, Kind, decode, encode

LIMIT = 10_000
NEVER = 2**63 - 1

# The header as docs/wire.md has it, written out once more.
FIELDS = {
    "magic": "4s", "version": "B", "kind": "B", "dtype": "B", "ndim": "B", "network": "8s",
    "run": "8s", "exchange": "Q", "s": "q", "R": "q", "view": "I", "a": "I", "b": "I", "c": "I",
    "length": "I",
}  # fmt: skip

PLAIN = {
    "magic": b"PCLU", "version": 4, "kind": 5, "dtype": 1, "ndim": 2, "network": b"network!",
    "run": b"the run!", "exchange": 7, "s": 2, "R": 9, "view": 11, "a": 1, "b": 2, "c": 0,
    "length": 16,
}  # fmt: skip


NUMBERS = struct.pack("<dd", 1.5, -2.0)


def by_hand(payload=NUMBERS, **changes):
    """Return a frame built without the module's help."""
    values = PLAIN | changes
    header = struct.pack("<" + "".join(FIELDS.values()), *(values[name] for name in FIELDS))
    return header + struct.pack("<Q", xxh3_64_intdigest(header + payload))[:4] + payload


tags = st.binary(min_size=8, max_size=8)
counts = st.integers(0, NEVER)
array_payloads = arrays(np.float64, st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple))


@st.composite
def frames(draw):
    kind = draw(st.sampled_from(Kind))
    payload = draw(array_payloads if kind in ARRAYS else st.binary(max_size=200))
    view = draw(st.integers(0, 2**32 - 1))
    return Frame(
        kind, draw(tags), payload, draw(tags), draw(counts), draw(counts), draw(counts), view
    )


@settings(deadline=None)
@given(frames())
def test_every_frame_comes_back_to_the_last_bit(frame):
    back = decode(encode(frame), limit=LIMIT)
    for name in ("kind", "network", "run", "exchange", "s", "R", "view"):
        assert getattr(back, name) == getattr(frame, name)
    if frame.kind in ARRAYS:
        assert (back.payload.shape, back.payload.dtype) == (frame.payload.shape, np.float64)
        assert back.payload.tobytes() == frame.payload.tobytes()
    else:
        assert back.payload == frame.payload


def test_integers_come_back_and_may_be_none_at_all():
    for integers in (np.array([0, 1, 2**64 - 1, 2**63], np.uint64), np.empty(0, np.uint64)):
        frame = Frame(Kind.AGREE, bytes(8), integers, s=3, view=9, dtype=wire.UINT64)
        back = decode(encode(frame), limit=LIMIT)
        assert (back.integers.dtype, back.integers.tolist()) == (np.uint64, integers.tolist())
        assert back.key == frame.key == (bytes(8), Kind.AGREE, 0, 3, 9)


def test_maxima_single_numbers_and_codes_come_back():
    x, extra_max = np.array([[1.5, -2.25], [3.0, 0.1]]), np.array([0.1, 7.0, 1e-300])
    frame = Frame(Kind.ROUND, bytes(8), x, extra_max=extra_max)
    single = decode(encode(frame._replace(dtype=wire.FLOAT32)), limit=LIMIT)
    assert single.payload.tolist() == x.astype(np.float32).tolist()
    assert single.payload.dtype == np.float64
    codes = wire.Codes(-3, np.array([[1, -127], [0, 127]], np.int8))
    coded = decode(encode(frame._replace(payload=codes)), limit=LIMIT)
    assert coded.payload.exponent == -3
    assert coded.payload.apply(x).tolist() == (x + codes.codes / 8).tolist()
    for back in (decode(encode(frame), limit=LIMIT), single, coded):
        assert back.extra_max.tobytes() == extra_max.tobytes()
    assert len(encode(frame._replace(payload=codes, extra_max=None))) == wire.HEADER_BYTES + 1 + 4


def test_an_array_in_another_order_or_type_is_sent_by_its_values():
    for x in (np.arange(6.0).reshape(2, 3).T, np.arange(4, dtype=">f8"), np.ones(3, np.float32)):
        back = decode(encode(Frame(Kind.AGREE, bytes(8), x)), limit=LIMIT)
        np.testing.assert_array_equal(back.payload, x)


def test_a_frame_written_by_hand_is_read_and_is_what_the_module_writes():
    frame = decode(by_hand(), limit=LIMIT)
    assert (frame.kind, frame.network, frame.run) == (Kind.ROUND, b"network!", b"the run!")
    assert (frame.exchange, frame.s, frame.R, frame.view) == (7, 2, 9, 11)
    assert frame.payload.tolist() == [[1.5, -2.0]]
    assert encode(frame) == by_hand()
    said = by_hand(b"\x80", kind=7, dtype=0, ndim=1, a=1, b=0, length=1)
    assert decode(said, limit=LIMIT).kind is Kind.STATE_REQUEST
    assert decode(said, limit=LIMIT).payload == b"\x80"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"magic": b"HTTP"}, r"must begin with b'PCLU'\. Got b'HTTP'\."),
        ({"version": 1}, r"must be of version 4\. Got 1; install the same version"),
        ({"kind": 0}, r"must be of a known kind\. Got 0\."),
        ({"kind": 12}, r"must be of a known kind\. Got 12\."),
        ({"length": LIMIT + 1}, r"must have at most 10000 bytes\. Got 10001\."),
        ({"length": 15}, r"as long as its header says, 15 bytes of payload\. Got 16\."),
        ({"length": 17}, r"as long as its header says, 17 bytes of payload\. Got 16\."),
        ({"dtype": 0}, r"of kind ROUND cannot be of dtype 0\."),
        ({"dtype": 4}, r"of kind ROUND cannot be of dtype 4\."),
        ({"dtype": 2}, r"as long as its shape \[1, 2\] says\. Got 16 bytes\."),
        ({"dtype": 3}, r"as long as its shape \[1, 2\] says\. Got 16 bytes\."),
        ({"kind": 4, "dtype": 2}, r"of kind AGREE cannot be of dtype 2\."),
        ({"kind": 4, "c": 1}, r"must have 1 to 3 numbers\. Got 2: \[1, 2, 1\]"),
        ({"kind": 1}, r"of kind HELLO cannot be of dtype 1\."),
        ({"ndim": 0}, r"must have 1 to 3 numbers\. Got 0"),
        ({"ndim": 4}, r"must have 1 to 3 numbers\. Got 4"),
        ({"ndim": 1}, r"must have 1 to 3 numbers\. Got 1: \[1, 2, 0\]"),
        ({"c": 1}, r"as long as its shape \[1, 2\] says\. Got 16 bytes\."),
        ({"c": 2**32 - 1}, r"as long as its shape \[1, 2\] says\. Got 16 bytes\."),
        ({"kind": 7, "dtype": 0, "ndim": 2, "a": 16, "b": 1}, r"1 to 3 numbers\. Got 2"),
        ({"a": 2}, r"as long as its shape \[2, 2\] says\. Got 16 bytes\."),
        ({"a": 2**32 - 1, "b": 2**32 - 1}, r"as long as its shape \[4294967295, 4294967295\]"),
        ({"kind": 7, "dtype": 0, "ndim": 1, "a": 15, "b": 0}, r"its shape \[15\] says\. Got 16"),
        ({"a": 0}, r"must not be empty\. Got the shape \[0, 2\]"),
        ({"exchange": 2**63}, r"exchange and vote must be counts\."),
        ({"s": -1}, r"exchange and vote must be counts\."),
        ({"R": -1}, r"exchange and vote must be counts\."),
    ],
)  # fmt: skip
def test_each_field_that_is_wrong_is_refused_with_its_sentence(changes, sentence):
    with pytest.raises(WireError, match=sentence):
        decode(by_hand(**changes), limit=LIMIT)


def test_an_empty_array_is_refused_whatever_its_other_numbers_are():
    for shape in ((0, 0, 0), (0, 2**32 - 1, 2**32 - 1), (2**31, 2**31, 0)):
        data = by_hand(b"", length=0, ndim=3, **dict(zip("abc", shape, strict=True)))
        with pytest.raises(WireError, match="must not be empty"):
            decode(data, limit=LIMIT)


def test_what_a_header_claims_is_refused_before_anything_is_allocated():
    claims = [
        by_hand(length=2**32 - 1),
        by_hand(a=2**29 - 1, b=1, length=2**32 - 8),
        by_hand(a=2**32 - 1, b=2**32 - 1, c=2**32 - 1, ndim=3),
        by_hand(b"", kind=1, dtype=0, ndim=1, a=2**32 - 1, b=0, length=2**32 - 1),
    ]
    for data in claims:
        for limit in (LIMIT, 2**32):
            tracemalloc.start()
            with pytest.raises(WireError):
                decode(data, limit=limit)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 64 * 1024


def test_an_array_is_a_view_of_the_bytes_that_came():
    data = encode(Frame(Kind.ROUND, bytes(8), np.arange(1.0, 101.0)))
    for held in (data, bytearray(data), memoryview(data)):
        payload = decode(held, limit=LIMIT).payload
        assert np.shares_memory(payload, np.frombuffer(held, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        decode(data, limit=LIMIT).payload[0] = 0.0


@pytest.mark.parametrize("data", valid_frames(), ids=lambda data: f"{Kind(data[5]).name}")
def test_a_frame_with_any_one_bit_flipped_is_refused(data):
    decode(data, limit=LIMIT)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            decode(changed, limit=LIMIT)


@pytest.mark.parametrize("data", valid_frames(), ids=lambda data: f"{Kind(data[5]).name}")
def test_a_frame_of_any_other_length_is_refused(data):
    for length in range(len(data)):
        with pytest.raises(WireError, match=r"header of 72 bytes|as long as its header says"):
            decode(data[:length], limit=LIMIT)
    for more in (b"\0", b"\0" * 8, data, bytes(LIMIT)):
        with pytest.raises(WireError, match="as long as its header says"):
            decode(data + more, limit=LIMIT)


def test_a_payload_may_be_as_long_as_the_limit_and_no_longer():
    data = encode(Frame(Kind.BYE, bytes(8), bytes(100)))
    assert len(data) == HEADER_BYTES + 100
    assert decode(data, limit=100).payload == bytes(100)
    with pytest.raises(WireError, match=r"at most 99 bytes\. Got 100\."):
        decode(data, limit=99)


@settings(deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_a_frame_or_a_wire_error(data, headed):
    try:
        decode(by_hand()[:8] + data if headed else data, limit=LIMIT)
    except WireError:
        return


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.integers(-(2**63) if code == "q" else 0, top - 1)
            for name, code in FIELDS.items()
            for top in [{"B": 2**8, "I": 2**32, "Q": 2**64, "q": 2**63}.get(code, 0)]
            if top
        },
    ),
    st.binary(max_size=64),
)
def test_any_header_with_a_good_checksum_is_a_frame_or_a_wire_error(changes, payload):
    fitting = {"length": len(payload)} | changes
    try:
        frame = decode(by_hand(payload, **fitting), limit=LIMIT)
    except WireError:
        return
    assert encode(frame) == by_hand(payload, **fitting)
