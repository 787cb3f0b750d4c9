"""Which process of a neighbor a node accepts, and what it is sent then."""

import pytest

from peerclust import graphs
from peerclust.errors import ParameterError
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.contract import Peer
from peerclust.runtimes.network.contract_validation import make_contract
from peerclust.runtimes.network.handshake import Greeting
from peerclust.runtimes.network.identity import make_identity, read_certificate
from peerclust.runtimes.network.messages import (
    Hello,
    Proof,
)
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.session import RestartSetup, Stopping
from peerclust.runtimes.network.states import Cause
from peerclust.runtimes.network.wire import Frame, Kind
from single_node import OWN, RUN, THEIRS, Line, greet, lost, play, round_frame, state


def test_a_neighbor_that_was_dropped_is_refused_from_then_on(node, processes):
    play(node, ("0", round_frame(node, network=b"another!")), ("2", round_frame(node)))
    node.session.links["0"].detach()
    assert "it was dropped from this run" in greet(node, processes["0"])[1]


def test_a_connection_made_again_in_time_is_sent_the_last_frames(node, processes):
    for _ in range(6):
        at = node.session.at
        play(node, ("0", round_frame(node, exchange=at)), ("2", round_frame(node, exchange=at)))
    node.on_disconnect(node.session.links["0"], "it broke")
    assert node.session.links["0"].active
    line, reason = greet(node, processes["0"], phase="running")
    assert reason == ""
    again = [frame.exchange for frame in line.said if frame.kind is Kind.ROUND]
    assert again == [2, 3, 4, 5]


def test_a_connection_that_broke_is_logged_but_not_one_that_this_process_closes(node):
    said = []
    node.session.log = said.append
    node.on_disconnect(node.session.links["0"], "it broke")
    node.on_disconnect(node.session.links["2"], "")
    assert said == ["The connection to 0 broke: it broke."]


def test_a_new_process_of_a_neighbor_is_inactive_at_first_and_a_second_one_refused(
    node, processes, start_process
):
    second, line = start_process("0"), node.session.links["0"].connection
    _, reason = greet(node, second, phase="agreeing", counts=False)
    assert reason == "another process of 0 is running and connected already"
    assert node.session.links["0"].connection is line
    node.on_disconnect(node.session.links["0"], "it was killed")
    _, reason = greet(node, second, phase="agreeing", counts=False)
    assert reason == ""
    assert not node.session.links["0"].active
    assert "its process was restarted" in node.session.events[-1][1]
    # The former one may not come back, whoever has its key.
    node.on_disconnect(node.session.links["0"], "it was killed")
    assert greet(node, processes["0"])[1] == "a later process of 0 was here before"


def test_a_set_up_ends_if_a_neighbor_relays_ever_new_processes_of_another_peer(
    agreeing, start_process
):
    limit = 2 * 16
    for n in range(1, limit + 2):
        agreeing.session.cancel_interrupt(RestartSetup)
        state(agreeing, "2", lost(start_process("0")))
        assert agreeing.session.is_pending(Stopping) is (n > limit)
    with pytest.raises(Stopping, match="0 has started 33 processes during the set-up"):
        agreeing.session.check_interrupt()
    assert not any(link.banned for link in agreeing.session.links.values())


def test_hello_names_the_latest_process_of_which_others_have_told(agreeing, start_process):
    node, link = agreeing, agreeing.session.links["0"]
    later = start_process("0")
    state(node, "2", lost(later))
    # A process with a clock that was set back learns from it that it must be later.
    sent = wire.decode(node.handshake.hello(link, bytes(32)), limit=1 << 20)
    assert messages.unpack(sent.message, Hello).known == later.incarnation


def test_a_process_whose_proof_is_that_of_another_is_refused(node, start_process):
    node.on_disconnect(node.session.links["0"], "it broke")
    honest, thief = start_process("0"), start_process("0")
    hello = Hello("0", honest.incarnation, None, THEIRS, "running", counts=True, settings="{}")
    frame = Frame(Kind.HELLO, node.session.network, b"", RUN, node.session.at)
    mine, link = node.flooding.author.incarnation, node.session.links["0"]
    for proof in (
        thief.prove(mine, THEIRS, OWN),
        honest.prove(mine, OWN, THEIRS),
        honest.prove(mine, THEIRS, bytes(32)),
        honest.prove(thief.incarnation, THEIRS, OWN),
        b"",
    ):
        greeting = Greeting(link, Line(), hello, frame, OWN)
        reason = node.handshake.accept(greeting, Proof(proof))
        assert reason == "A proof must be signed by its origin."
        assert not link.connected
    line, proof = Line(), Proof(honest.prove(mine, THEIRS, OWN))
    assert node.handshake.accept(Greeting(link, line, hello, frame, OWN), proof) == ""
    assert link.connection is line


def test_the_hello_of_a_large_network_fits_the_limit_of_a_node(tmp_path):
    m, d = 60, 2000
    peers = []
    for i in range(m):
        identity = make_identity(f"p{i:02}", tmp_path)
        peers.append(
            Peer(identity.name, f"host:{4000 + i}", read_certificate(identity.certificate))
        )
    names = [peer.name for peer in peers]
    links = [(names[i], names[j]) for i, j in graphs.complete(m).pairs]
    values = {"links": links, "n_clusters": 2, "features": [f"feature {j}" for j in range(d)]}
    contract = make_contract(peers, values, "here")
    node = Node(contract, "p59", identity)
    limit = node._connections._limit
    assert (
        len(node.handshake.hello(node.session.links["p08"], bytes(32))) - wire.HEADER_BYTES <= limit
    )
    node.session.loop.close()
    long = {"features": [f"{'f' * 99}{j}" for j in range(20_000)]}
    with pytest.raises(ParameterError, match="must fit in 1,048,576 bytes"):
        make_contract(peers, values | long, "here")


def test_a_neighbor_may_be_dropped_while_its_proof_is_accepted(node, processes):
    link = node.session.links["2"]
    node.membership.drop(link, Cause.SILENT, "it was silent")
    manager, mine, line = node._connections, node.flooding.author.incarnation, Line()
    process = processes["2"]
    hello = Hello("2", process.incarnation, mine, THEIRS, "running", False, "{}")
    # Its frames are of another run.
    frame = Frame(Kind.HELLO, node.session.network, b"", b"8 others", 0)
    proof = messages.pack(Proof(process.prove(mine, THEIRS, OWN)))
    greeting = Greeting(link, line, hello, frame, OWN)
    manager._pending.add(line, (True, b""))
    manager._owner[line], manager._nonces[line], manager._greetings[line] = link, OWN, greeting
    line.close = lambda reason, *, refused: manager._closed(line, reason)
    assert manager._check_proof(greeting, frame._replace(kind=Kind.PROOF, payload=proof)) == ""
    assert "it is in another run" in link.banned
    assert not link.connected
