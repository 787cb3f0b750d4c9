"""The tables of docs/wire.md are those of the code."""

import re
from pathlib import Path

import pytest

from peerclust.runtimes.network import messages
from peerclust.runtimes.network.wire import VERSION, Kind

DOCUMENT = (Path(__file__).parents[3] / "docs" / "wire.md").read_text()


def read_fields():
    """Return the fields of each message and map in the document's tables, in their order."""
    fields, at = {}, ""
    start = DOCUMENT.index("## Messages")
    for row in re.findall(r"^\|.*\|$", DOCUMENT[start : DOCUMENT.index("## Tags")], re.MULTILINE):
        name, names, *_ = (cell.strip() for cell in row.strip("|").split("|"))
        at = name or at
        fields.setdefault(at, []).extend(re.findall(r"`(\w+)`", names))
    return fields


FIELDS = read_fields()
NAMED = {
    "HELLO": messages.Hello,
    "PROOF": messages.Proof,
    "HEARTBEAT": messages.Heartbeat,
    "STATEMENT": messages.Statement,
    "EVIDENCE": messages.Evidence,
    "LINK_UP": messages.LinkUp,
    "STATE_REQUEST": messages.StateRequest,
    "STATE_REPLY": messages.StateReply,
    "BYE": messages.Bye,
    "INCARNATION": messages.Incarnation,
    "LOSSES": messages.Losses,
    "VIEW": messages.View,
    "WAITS": messages.Waits,
    "PRESENCE": messages.Presence,
    "AGREED": messages.Agreed,
    "RECORD": messages.Record,
}


@pytest.mark.parametrize("name", NAMED)
def test_the_document_has_every_field_of_a_message_in_its_order(name):
    assert tuple(FIELDS[name]) == NAMED[name].__struct_fields__


def test_the_document_has_every_kind_of_message_and_no_other():
    assert set(FIELDS) - {"message", "map", "---"} == set(NAMED)
    kinds = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", DOCUMENT, re.MULTILINE)
    assert kinds == [(str(kind.value), kind.name) for kind in Kind]
    assert f"| 4 | 1 | version | {VERSION} |" in DOCUMENT
