import struct

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from peerclust.errors import WireError
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.messages import (
    Agreed,
    Bye,
    Evidence,
    Heartbeat,
    Hello,
    Incarnation,
    LinkUp,
    Losses,
    Presence,
    Proof,
    Record,
    SignedRecord,
    Statement,
    StateReply,
    StateRequest,
    View,
    pack,
    unpack,
)

AGREED = Agreed(
    [0, 1], [(1, 2)], [0.5], [1.0], [-1.0], [2.0],
    spread=1.0, weight=10.0, W=6.0, delta=1.0, rho=50.0, alpha=0.01,
    curvature=[3.0, 0.0], evenness=[0.5, 1.0], lambda_max=4.0, lambda_2=0.5, processes="5f" * 32,
)  # fmt: skip
VIEW = View(3, 10**18, 2, 17, [1, 4], "1: it left", True)
PROCESS = Incarnation(3, 10**18, bytes(33), bytes(71))
STATED = Statement(PROCESS, bytes(32), "view", 2, pack(VIEW), bytes(72))
RECORD = Record(
    bytes(32), AGREED, [0, 1], [[(0, 20)], [(0, 7), (9, 20)], []], 20, True, 0, 0, 0,
    1e-7, 1e-8, 1e-6, 5.0, 70.0, 2, bytes(16),
)  # fmt: skip


def as_map(message):
    return msgspec.to_builtins(message, builtin_types=(bytes,))


EXAMPLES = [
    PROCESS,
    Hello("a", PROCESS, None, bytes(32), "agreeing", False, "{}"),
    Hello("a", PROCESS, PROCESS, bytes(32), "running", True, "{}"),
    Hello("a", PROCESS, None, bytes(32), "agreeing", False, "{}", True, Bye("fails", "why")),
    Proof(bytes(70)),
    Heartbeat("running"),
    Losses([1, 4]),
    STATED,
    Evidence(STATED, STATED),
    Presence(3, 0, [(1, 0, 16), (4, 0, 20)]),
    RECORD,
    SignedRecord(RECORD, [STATED]),
    LinkUp(7),
    StateRequest(),
    VIEW,
    View(0, 9, 1, 2, []),
    StateReply(AGREED, 12, bytes(16)),
    StateReply(AGREED, 12, bytes(16), SignedRecord(RECORD, [STATED])),
    Bye("done", ""),
]

# The fields that may be left out, and what they are then.
OPTIONAL = {
    (StateReply, "record"): None,
    (Hello, "visits"): False,
    (Hello, "farewell"): None,
    (View, "reason"): "",
    (View, "ended"): False,
    (View, "agreed"): 0,
    (View, "agreed_view"): 0,
}


def refused(data, kind, match="."):
    with pytest.raises(WireError, match=match) as caught:
        unpack(data, kind)
    sentence = str(caught.value)
    assert sentence.startswith(f"A message of kind {kind.__name__} cannot be read: ")
    assert sentence.isprintable()
    assert len(sentence) < 300


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_message_comes_back_as_it_was(message):
    assert unpack(pack(message), type(message)) == message
    assert unpack(memoryview(pack(message)), type(message)) == message


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_message_is_a_map_of_its_fields(message):
    held = msgspec.msgpack.decode(pack(message))
    assert list(held) == list(message.__struct_fields__)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_unknown_and_missing_fields_are_refused(message):
    held, kind = as_map(message), type(message)
    refused(msgspec.msgpack.encode(held | {"more": 1}), kind, "unknown field `more`")
    for name in held:
        less = {key: value for key, value in held.items() if key != name}
        if (kind, name) in OPTIONAL:
            found = unpack(msgspec.msgpack.encode(less), kind)
            assert getattr(found, name) == OPTIONAL[kind, name]
        else:
            refused(msgspec.msgpack.encode(less), kind, f"missing required field `{name}`")


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_field_of_another_kind_is_refused(message):
    held, kind = as_map(message), type(message)
    for name in held:
        for wrong in ({"a": 1}, [[["deep"]]], -1.5, b"\xff", msgspec.msgpack.Ext(5, b"x")):
            if isinstance(wrong, bytes | float) and type(wrong) is type(held[name]):
                continue
            refused(msgspec.msgpack.encode(held | {name: wrong}), kind, f"`\\$.{name}")


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
def test_a_message_cut_or_followed_by_more_is_refused(message):
    data = pack(message)
    for length in range(len(data)):
        refused(data[:length], type(message), "truncated")
    refused(data + b"\0", type(message), "trailing")


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (Hello, "name", "a" * 65),
        (Hello, "nonce", bytes(31)),
        (Hello, "nonce", bytes(33)),
        (Hello, "phase", "resting"),
        (Hello, "settings", "a" * ((1 << 20) + 1)),
        (Heartbeat, "phase", "resting"),
        (Proof, "signature", bytes(73)),
        (Incarnation, "key", bytes(32)),
        (Incarnation, "key", bytes(34)),
        (Incarnation, "signature", bytes(73)),
        (Incarnation, "start", 1 << 62),
        (Losses, "neighbors", [[0, 1]]),
        (Losses, "neighbors", [-1]),
        (Losses, "neighbors", [1 << 20]),
        (Losses, "neighbors", [0] * ((1 << 16) + 1)),
        (Statement, "run", bytes(33)),
        (Statement, "kind", "gossip"),
        (Statement, "seq", -1),
        (Statement, "body", bytes((1 << 20) + 1)),
        (Statement, "signature", bytes(73)),
        (Presence, "neighbors", [[0, 1]]),
        (Presence, "neighbors", [[0, 1, 2]] * ((1 << 16) + 1)),
        (Record, "run", bytes(33)),
        (Record, "took_part", [[[1]]]),
        (Record, "members", [0] * ((1 << 16) + 1)),
        (SignedRecord, "signatures", [as_map(STATED)] * ((1 << 16) + 1)),
        (LinkUp, "round", -1),
        (LinkUp, "round", 1 << 62),
        (LinkUp, "round", 1.0),
        (View, "seq", 1 << 62),
        (View, "peer", 1 << 20),
        (View, "counts", [0] * ((1 << 20) + 1)),
        (View, "reason", "a" * 2001),
        (StateReply, "centers", "text"),
        (StateReply, "record", False),
        (Bye, "why", "bored"),
        (Bye, "reason", "a" * 2001),
    ],
)
def test_what_is_too_long_or_out_of_range_is_refused(kind, field, value):
    held = next(as_map(message) for message in EXAMPLES if type(message) is kind)
    refused(msgspec.msgpack.encode(held | {field: value}), kind, rf"at `\$\.{field}")


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\xdd\0\0\0\x01"])
def test_what_is_nested_too_deep_is_refused(message, opening):
    kind = type(message)
    refused(opening * 100_000, kind)
    for name in as_map(message):
        key = msgspec.msgpack.encode(name)
        refused(b"\x81" + key + opening * 100_000, kind)


@pytest.mark.parametrize("kind", [type(message) for message in EXAMPLES])
@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\xc0", b"\x80\x80", b"\xa1a", b"\x81\x01\x01", b"\x81\xa2\xff\xfe\x01",
     b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\xd4\xff\x00"],
)  # fmt: skip
def test_what_is_no_message_is_refused(kind, data):
    refused(data, kind)


def test_untrusted_text_stays_within_one_line_of_a_log():
    for words in ("\x1b[2J\nAll is well.", "a" * 5000):
        refused(msgspec.msgpack.encode({words: 1}), LinkUp, "unknown field")


@settings(deadline=None)
@given(st.sampled_from(EXAMPLES), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(message, data):
    kind = type(message)
    try:
        found = unpack(data, kind)
    except WireError:
        return
    assert isinstance(found, kind)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None)
@given(st.sampled_from(EXAMPLES), st.data())
def test_any_value_in_any_field_is_good_or_a_wire_error(message, data):
    held, kind = as_map(message), type(message)
    if held:
        held[data.draw(st.sampled_from(list(held)))] = data.draw(JSON)
    try:
        found = unpack(msgspec.msgpack.encode(held), kind)
    except WireError:
        return
    assert isinstance(found, kind)


def test_a_message_of_another_language_is_read():
    # {"round": 258}, its number as an int of 16 bits
    assert unpack(b"\x81\xa5round\xcd" + struct.pack(">H", 258), LinkUp) == LinkUp(258)
    assert unpack(b"\x80", StateRequest) == StateRequest()
    assert messages.pack(StateRequest()) == b"\x80"
