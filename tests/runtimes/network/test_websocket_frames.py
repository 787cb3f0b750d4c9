"""Which websocket frames are messages, and what is refused, with how much memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st
from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from peerclust.errors import WireError
from peerclust.runtimes.network.transport import read_messages

LIMIT = 200_000


def noise(size):
    return np.random.default_rng(size).bytes(size)


def dialed(limit=LIMIT):
    """Return the open websocket of the side that was dialed, which reads masked frames."""
    return ServerProtocol(state=State.OPEN, max_size=limit)


def dialing(limit=LIMIT):
    """Return the open websocket of the side that dialed."""
    return ClientProtocol(parse_uri("wss://localhost/"), state=State.OPEN, max_size=limit)


def feed(ws, data, chunk=1 << 14):
    """Return the messages in bytes that come in chunks."""
    return [
        bytes(message)
        for at in range(0, len(data), chunk)
        for message in read_messages(ws, data[at : at + chunk])
    ]


def peak_memory(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 16_384, 65_535, 65_536, LIMIT])
def test_a_message_in_any_chunks_comes_out_as_it_went_in_and_cannot_be_written_to(size):
    for one, other in ((dialed(), dialing()), (dialing(), dialed())):
        one.send_binary(noise(size))
        (data,) = one.data_to_send()
        assert feed(other, data, max(1, len(data) // 7)) == [noise(size)]
        one.send_binary(noise(size))
        for message in read_messages(other, b"".join(one.data_to_send())):
            assert message.readonly


def test_half_a_frame_is_no_message_and_each_byte_counts():
    data = Frame(Opcode.BINARY, b"hello").serialize(mask=True)
    ws = dialed()
    assert feed(ws, data[:-1], 1) == []
    assert feed(ws, data[-1:]) == [b"hello"]


@pytest.mark.parametrize(
    ("data", "reason", "code"),
    [
        (b"\x81\x01a", "a message must be one binary frame", None),  # a text
        (b"\x02\x01a", "a message must be one binary frame", None),  # the first of several
        (b"\x80\x01a", "unexpected continuation", CloseCode.PROTOCOL_ERROR),
        (b"\xc2\x01a", "reserved bits", CloseCode.PROTOCOL_ERROR),
        (b"\x83\x01a", "opcode", CloseCode.PROTOCOL_ERROR),
        (b"\x82\x81keyea", "masking", CloseCode.PROTOCOL_ERROR),
        (b"\x89\x7e\x00\x7e" + bytes(126), "control frame too long", CloseCode.PROTOCOL_ERROR),
        (b"\x09\x00", "fragmented control frame", CloseCode.PROTOCOL_ERROR),
        (b"\x88\x01a", "close frame too short", CloseCode.PROTOCOL_ERROR),
        (b"\x88\x03\x03\xe8\xff", "utf-8", CloseCode.INVALID_DATA),
        (b"\x82\x7f" + (LIMIT + 1).to_bytes(8, "big"), "200001", CloseCode.MESSAGE_TOO_BIG),
        (b"\x81\x7f" + b"\xff" * 8, "18446744073709551615", CloseCode.MESSAGE_TOO_BIG),
    ],
)
def test_what_is_no_message_is_refused_with_little_memory(data, reason, code):
    ws = dialing()

    def refuse():
        with pytest.raises(WireError, match=reason):
            feed(ws, data)

    assert peak_memory(refuse) < 50_000
    # A message of a kind that peers do not send is refused by the connection, with another code.
    assert (ws.close_sent and ws.close_sent.code) == code


def test_what_a_client_does_not_mask_is_refused():
    with pytest.raises(WireError, match="masking"):
        feed(dialed(), b"\x82\x01a")


def test_memory_grows_with_what_came_and_not_with_what_was_claimed():
    limit = 1 << 30
    claim = b"\x82\x7f" + limit.to_bytes(8, "big")
    assert peak_memory(lambda: feed(dialing(limit), claim + bytes(10_000))) < 100_000


def test_of_fragments_only_the_first_is_ever_held():
    first = Frame(Opcode.BINARY, bytes(1000), fin=False).serialize(mask=True)
    more = Frame(Opcode.CONT, bytes(1000), fin=False).serialize(mask=True)
    ws = dialed()
    with pytest.raises(WireError, match="must be one binary frame"):
        feed(ws, first + 9 * more, len(first))
    assert not ws.reader.buffer


@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.PONG])
def test_a_flood_of_the_shortest_frames_takes_memory_for_one_tls_record_only(opcode):
    flood = Frame(opcode, b"").serialize(mask=False) * (1 << 17)
    ws = dialing()

    def read():
        for at in range(0, len(flood), 1 << 14):
            assert not list(read_messages(ws, flood[at : at + (1 << 14)]))
            ws.data_to_send()

    assert peak_memory(read) < 8_000_000


@given(
    st.lists(st.sampled_from([0, 5, 125, 126, 900]), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), max_size=4),
    st.booleans(),
    st.integers(1, 300),
)
def test_changed_frames_are_messages_or_a_wire_error(sizes, changes, masked, chunk):
    data = bytearray()
    for size in sizes:
        data += Frame(Opcode.BINARY, noise(size)).serialize(mask=masked)
    for place, value in changes:
        data[place % len(data)] = value
    ws = dialed(1000) if masked else dialing(1000)
    try:
        assert all(len(message) <= 1000 for message in feed(ws, bytes(data), chunk))
    except WireError:
        # Not an exception that the library did not expect.
        assert ws.close_sent is None or ws.close_sent.code != CloseCode.INTERNAL_ERROR


def test_messages_before_a_bad_frame_are_given():
    messages = read_messages(dialing(), b"\x82\x04good\x81\x03bad")
    assert next(messages) == b"good"
    with pytest.raises(WireError):
        next(messages)
