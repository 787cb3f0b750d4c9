"""Neighbors that say why they do not take part, or whose certificate says so."""

from dataclasses import replace

import pytest

from peerclust.runtimes.network import messages
from peerclust.runtimes.network.identity import read_certificate
from peerclust.runtimes.network.messages import (
    Bye,
)
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.session import (
    RestartSetup,
    Stopping,
)
from peerclust.runtimes.network.wire import Frame, Kind
from single_node import RUN


def say_bye(node, name, why, reason="an error at its site"):
    frame = Frame(
        Kind.BYE,
        node.session.network,
        messages.pack(Bye(why, reason)),
        node.session.run,
        node.session.at,
    )
    node.on_frame(node.session.links[name], frame)


def test_in_the_set_up_a_neighbor_that_fails_is_lost_at_once_and_one_that_leaves_may_return(
    agreeing,
):
    say_bye(agreeing, "0", "leaves", "it was asked to end")
    assert agreeing.session.links["0"].active
    assert agreeing.session.links["0"].refusal == "it left (it was asked to end)"
    say_bye(agreeing, "2", "fails")
    assert not agreeing.session.links["2"].active
    assert agreeing.session.events[-1] == (0, "2 does not take part: an error at its site")
    with pytest.raises(RestartSetup):
        agreeing.session.check_interrupt()


@pytest.mark.parametrize("on_absent", ["start", "stop"])
def test_a_farewell_ends_the_wait_for_a_neighbor_and_names_the_reason(base, identities, on_absent):
    node = Node(replace(base, on_absent=on_absent), "10", identities["10"])
    node.on_farewell(node.session.links["0"], Bye("fails", "its data cannot be used"))
    # It is heard once; what it says again changes nothing.
    node.on_farewell(node.session.links["0"], Bye("fails", "its clock is wrong"))
    assert list(node.session.events) == [(0, "0 does not take part: its data cannot be used")]
    with pytest.raises(Stopping if on_absent == "stop" else RestartSetup) as raised:
        node.session.check_interrupt()
    if on_absent == "stop":
        assert str(raised.value) == "0 does not take part: its data cannot be used."
    node.on_farewell(node.session.links["2"], Bye("stops", "0 does not take part"))
    with pytest.raises(Stopping, match="2 stopped the run: 0 does not take part"):
        node.session.check_interrupt()
    node.session.loop.close()


def test_a_process_with_a_copied_key_says_nothing_for_a_neighbor_that_is_connected(agreeing):
    for link in agreeing.session.links.values():
        for why in ("fails", "stops"):
            agreeing.on_farewell(link, Bye(why, "its data cannot be used"))
        agreeing.on_mismatch(link, "its network file differs")
        assert link.active
    assert not agreeing.session.events
    agreeing.session.check_interrupt()


def test_a_refusal_by_a_neighbor_is_logged_once_per_reason(base, identities):
    said = []
    node = Node(base, "10", identities["10"], log=said.append)
    for reason in ("it lies", "it lies.", "it is slow", "it lies"):
        say_bye(node, "2", "refuses", reason)
    assert said == ["2 refused this peer: it lies.", "2 refused this peer: it is slow."]
    assert {each.event for each in said} == {"refused"}
    node.session.loop.close()


def test_a_neighbor_whose_certificate_is_not_valid_is_not_waited_for(base, identities, sites):
    expired = read_certificate(sites["old"].certificate)
    peers = tuple(replace(peer, certificate=expired) if peer.name == "2" else peer
                  for peer in base.peers)  # fmt: skip
    node = Node(replace(base, peers=peers), "10", identities["10"], listen=("127.0.0.1", 0))
    node.open()
    (event,) = node.session.events
    assert "2 does not take part: its certificate has expired: it is valid from 20" in event[1]
    assert "UTC, and the clock here shows 20" in event[1]
    with pytest.raises(Stopping):
        node.session.check_interrupt()
    node.close("stops", "")


def test_what_a_neighbor_refuses_this_peer_for_is_not_said_of_the_neighbor(node):
    bye = messages.pack(Bye("refuses", "it sent NaN"))
    node.on_frame(node.session.links["2"], Frame(Kind.BYE, node.session.network, bye, RUN, 0))
    assert node.session.events[-1] == (
        0, "2 was lost in round 0: it refused this peer: it sent NaN",
    )  # fmt: skip
