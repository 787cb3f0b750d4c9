"""Statements that a node receives and forwards: who is dropped for them, and who is not."""

import asyncio

import msgspec
import pytest

from joined_nodes import make_agreed
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.messages import (
    Losses,
    Statement,
)
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.wire import Frame, Kind
from single_node import EVERYONE, RUN, RUN_ID, begin_setup, lie_of, state


@pytest.mark.parametrize("by", ["0", "2"])
def test_a_peer_that_contradicts_itself_is_dropped_whoever_relays_it_and_all_hear_why(
    node, processes, by
):
    kept = []
    node.flooding.on_evidence = lambda name, evidence: kept.append((name, evidence))
    zero, two = (node.session.links[name].connection for name in ("0", "2"))
    lie = lie_of(processes["0"], node, by)
    assert "it signed two different presences as one" in node.session.links["0"].banned
    assert node.session.links["2"].banned == ""
    assert not zero.is_open
    assert two.is_open
    evidence = messages.Evidence(*lie)
    sent = [frame.payload for frame in two.said if frame.kind is Kind.EVIDENCE]
    assert [messages.unpack(each, messages.Evidence) for each in sent] == [evidence]
    assert kept == [("0", evidence)]
    assert "0 is dropped: it signed two different presences as one" in node.session.events[0][1]
    # It is dropped once, however often that is said.
    node.on_frame(
        node.session.links["2"],
        Frame(Kind.EVIDENCE, node.session.network, messages.pack(evidence), RUN, node.session.at),
    )
    assert (len(kept), node.session.links["2"].banned) == (1, "")


def test_who_sends_evidence_that_proves_nothing_is_dropped_not_whom_it_accuses(node, processes):
    one = processes["0"].sign("view", b"one", RUN_ID)
    for other in (processes["0"].sign("view", b"two", RUN_ID), one):
        said = messages.pack(messages.Evidence(one, other))
        node.on_frame(
            node.session.links["2"],
            Frame(Kind.EVIDENCE, node.session.network, said, RUN, node.session.at),
        )
    assert "must be two statements that contradict each other" in node.session.links["2"].banned
    assert node.session.links["0"].banned == ""
    assert not node.flooding.gossip.liars


INVALID = {
    "view of another": ("view", messages.View(2, 1, 1, 0, [])),
    "view of no neighbor": ("view", messages.View(0, 1, 1, 0, [2])),
    "view far ahead": ("view", messages.View(0, 1, 1, 1 << 61, [1])),
    "no view": ("view", messages.StateRequest()),
    "losses of no neighbor": ("losses", Losses([2])),
    "losses of everybody": ("losses", Losses(list(range(1000)))),
    "no losses": ("losses", messages.StateRequest()),
}


@pytest.mark.parametrize(("kind", "body"), INVALID.values(), ids=INVALID)
def test_a_relay_is_not_blamed_for_what_it_relays_and_the_origin_only_if_it_says_it_itself(
    node, processes, kind, body
):
    origin = processes["0"]
    if isinstance(body, messages.View):
        body = msgspec.structs.replace(body, start=origin.incarnation.start)
    statement = origin.sign(kind, messages.pack(body), RUN_ID)
    assert statement.seq == 1
    state(node, "2", statement)
    assert [link.banned for link in node.session.links.values()] == ["", ""]
    assert node.membership.views[0].counts == [1]
    assert node.flooding.gossip.latest(0, kind) is None
    sent = [f.payload for f in node.session.links["2"].connection.said if f.kind is Kind.STATEMENT]
    assert messages.pack(statement) not in sent
    # It is known already, so it must state it anew.
    again = origin.sign(kind, messages.pack(body), RUN_ID)
    state(node, "0", again)
    assert node.session.links["0"].banned
    assert node.session.links["2"].banned == ""


@pytest.mark.parametrize(("kind", "body"), INVALID.values(), ids=INVALID)
def test_what_is_invalid_harms_no_peer_in_the_set_up(agreeing, processes, kind, body):
    node, origin = agreeing, processes["0"]
    begin_setup(node, processes)
    if isinstance(body, messages.View):
        body = msgspec.structs.replace(body, start=origin.incarnation.start)
    agreed = make_agreed(EVERYONE)
    state(node, "2", origin.sign(kind, messages.pack(body), run_id(node.session.contract, agreed)))
    assert node.attempts.lost == set()
    node.session.check_interrupt()
    node.membership.start_run(run_id(node.session.contract, agreed), agreed, 0)
    assert node.membership.views[0].counts == [1]
    assert [link.banned for link in node.session.links.values()] == ["", ""]


def test_a_relay_is_dropped_for_what_nobody_has_signed(node, processes):
    statement = processes["0"].sign("view", b"body", RUN_ID)
    state(node, "2", msgspec.structs.replace(statement, body=b"changed"))
    assert node.session.links["2"].banned == "A statement must be signed by its origin."
    assert node.session.links["0"].banned == ""


def test_statements_are_forwarded_to_all_others_once(node, processes):
    zero, two = (node.session.links[name].connection for name in ("0", "2"))
    view = messages.View(0, processes["0"].incarnation.start, 1, 5, [])
    statement = processes["0"].sign("view", messages.pack(view), RUN_ID)
    for _ in range(3):
        state(node, "0", statement)
    assert node.membership.views[0] == view
    sent = [f.payload for f in two.said if f.kind is Kind.STATEMENT]
    assert sent == [messages.pack(statement)]
    assert Kind.STATEMENT not in zero.kinds()


def test_a_flood_of_statements_is_forwarded_as_a_few_with_the_latest_at_the_end(node, processes):
    two, start = node.session.links["2"].connection, processes["0"].incarnation.start
    for seq in range(1, 81):
        view = messages.View(0, start, seq, 5, [1] * (seq % 2))
        state(node, "0", processes["0"].sign("view", messages.pack(view), RUN_ID))
    node.session.loop.run_until_complete(asyncio.sleep(0.3))
    sent = [messages.unpack(f.payload, Statement) for f in two.said if f.kind is Kind.STATEMENT]
    assert len(sent) < 20
    assert sent[-1].seq == 80
    assert not node.flooding._waiting
