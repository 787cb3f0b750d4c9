import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st
from websockets.frames import Frame, Opcode

from peerclust.errors import WireError
from peerclust.runtimes.network import framing
from peerclust.runtimes.network.framing import BINARY, CLOSE, PING, PONG, Reader

LIMIT = 200_000

# Around the sizes at which heads, what is held and what is joined change.
SIZES = [0, 1, 125, 126, 127, 16_383, 16_384, 16_385, 65_535, 65_536, 131_072, 131_073, LIMIT]


def noise(size):
    return np.random.default_rng(size).bytes(size)


def feed(reader, data, chunk=1 << 20):
    """Return the frames that a reader finds in bytes that come in chunks."""
    found = []
    while data:
        room = reader.get_buffer()
        part = data[: min(len(room), chunk)]
        room[: len(part)] = part
        found += [(opcode, bytes(plain)) for opcode, plain in reader.buffer_updated(len(part))]
        data = data[len(part) :]
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("masked", [True, False])
def test_frames_of_the_library_are_read(size, masked):
    data = noise(size)
    for chunk in (1 << 20, 16_384, 1000):
        wire = Frame(Opcode.BINARY, data).serialize(mask=masked)
        assert feed(Reader(masked=masked, limit=LIMIT), wire, chunk) == [(BINARY, data)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("masked", [True, False])
def test_the_library_reads_the_frames(size, masked):
    data = noise(size)
    held = bytearray(b"".join(framing.encode(BINARY, data, masked=masked)))

    def read_exact(count):
        part = bytes(held[:count])
        del held[:count]
        return part
        yield

    parser = Frame.parse(read_exact, mask=masked)
    with pytest.raises(StopIteration) as end:
        next(parser)
    assert (end.value.value.opcode, bytes(end.value.value.data)) == (Opcode.BINARY, data)
    assert not held


@given(
    st.lists(
        st.tuples(
            st.sampled_from([BINARY, CLOSE, PING, PONG]),
            st.integers(0, 125) | st.sampled_from([126, 16_400, 70_000]),
        ),
        max_size=6,
    ),
    st.booleans(),
    st.integers(1, 40_000),
)
def test_frames_in_any_chunks_come_out_as_they_went_in(frames, masked, chunk):
    said = [(op, noise(size if op == BINARY else min(size, 125))) for op, size in frames]
    wire = b"".join(b"".join(framing.encode(*each, masked=masked)) for each in said)
    chunk = max(chunk, len(wire) // 500)
    assert feed(Reader(masked=masked, limit=LIMIT), wire, chunk) == said


def test_what_was_given_is_not_written_over_by_what_comes_next():
    reader = Reader(masked=False, limit=LIMIT)
    given_out = []
    for size in (100, 20_000, 100, 20_000):
        data = b"".join(framing.encode(BINARY, bytes([size % 251]) * size, masked=False))
        while data:
            room = reader.get_buffer()
            part, data = data[: len(room)], data[len(room) :]
            room[: len(part)] = part
            given_out += reader.buffer_updated(len(part))
    assert [bytes(plain) for _, plain in given_out] == [
        bytes([size % 251]) * size for size in (100, 20_000, 100, 20_000)
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x81\x01a", "must be one binary frame"),  # a text
        (b"\x02\x01a", "must be one binary frame"),  # the first of several
        (b"\x80\x01a", "must be one binary frame"),  # one that continues
        (b"\xc2\x01a", "must be one binary frame"),  # with a reserved bit
        (b"\x83\x01a", "must be one binary frame"),  # an opcode that is not used
        (b"\x82\x81keyea", "must be masked, and only these"),
        (b"\x89\x7e\x00\x7e", "a control frame must have at most 125 bytes"),
        (b"\x82\x7f" + (LIMIT + 1).to_bytes(8, "big"), "at most 200000 bytes, and one had 200001"),
        (b"\x82\x7f" + b"\xff" * 8, "at most 200000 bytes, and one had 18446744073709551615"),
    ],
)
def test_what_is_no_message_is_refused_before_anything_is_allocated(data, reason):
    reader = Reader(masked=False, limit=LIMIT)
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match=reason):
            feed(reader, data)
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


def test_what_a_client_does_not_mask_is_refused():
    with pytest.raises(WireError, match="must be masked"):
        feed(Reader(masked=True, limit=LIMIT), b"\x82\x01a")


@given(
    st.lists(st.sampled_from([0, 5, 125, 126, 900]), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=4),
    st.booleans(),
    st.integers(1, 300),
)
def test_changed_frames_are_frames_or_a_wire_error(sizes, changes, masked, chunk):
    wire = bytearray()
    for size in sizes:
        wire += b"".join(framing.encode(BINARY, noise(size), masked=masked))
    for place, value in changes:
        wire[place % len(wire)] = value
    reader = Reader(masked=masked, limit=1000)
    try:
        found = feed(reader, bytes(wire), chunk)
    except WireError:
        return
    assert all(len(plain) <= 1000 for _, plain in found)
    assert len(reader.get_buffer()) > 0


def test_frames_before_a_bad_one_are_given():
    reader = Reader(masked=False, limit=LIMIT)
    wire = b"".join(framing.encode(BINARY, b"good", masked=False)) + b"\x81\x03bad"
    reader.get_buffer()[: len(wire)] = wire
    frames = reader.buffer_updated(len(wire))
    assert next(frames) == (BINARY, b"good")
    with pytest.raises(WireError):
        next(frames)
