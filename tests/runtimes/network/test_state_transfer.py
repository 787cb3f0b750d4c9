"""The state of a run from a neighbor: what is believed, and of whom."""

from dataclasses import replace

import msgspec
import pytest

from joined_nodes import make_agreed
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.contract_validation import make_contract
from peerclust.runtimes.network.messages import (
    Bye,
    Heartbeat,
    SignedRecord,
    StateReply,
    StateRequest,
)
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.record import digest
from peerclust.runtimes.network.session import (
    RestartSetup,
    StateReceived,
)
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.states import Cause, RunEvent
from peerclust.runtimes.network.view_exchange import MAX_SPANS
from peerclust.runtimes.network.wire import Frame, Kind
from single_node import EVERYONE, RUN, RUN_ID, X, agreed_on, lie_of, make_record, state


def offer(node, by, agreed, record=None, signers=()):
    """Let a neighbor answer a request for state; return whether the node believes it."""
    node.session.links[by].state_requested = True
    signed = None
    if record is not None:
        for each in signers:
            each._seqs["record"] = 0  # it has signed no other
        signatures = [each.sign("record", digest(record), record.run) for each in signers]
        signed = SignedRecord(record, signatures)
    said = messages.pack(StateReply(agreed, 2, messages.pack_centers(X), signed))
    node.on_frame(
        node.session.links[by], Frame(Kind.STATE_REPLY, node.session.network, said, RUN, 0)
    )
    try:
        node.session.check_interrupt()
    except StateReceived as received:
        node.session._interrupt = None
        return received.reply.record == signed
    return False


def test_a_result_needs_the_signatures_of_more_than_half_of_all_listed_peers(
    agreeing, processes, start_process
):
    zero, two = processes.values()
    for members in (EVERYONE, (0,), (0, 1)):
        record = make_record(members)
        for signers in ((), (zero,), (zero, start_process("0"))):
            assert not offer(agreeing, "0", record.agreed, record, signers)
        assert offer(agreeing, "0", record.agreed, record, (zero, two))
    assert all(link.banned == "" for link in agreeing.session.links.values())


def test_a_neighbor_that_forges_signatures_of_a_result_is_dropped(agreeing, processes):
    record = make_record()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes["2"], "_key", processes["0"]._key)
        forged = processes["2"].sign("record", digest(record), record.run)
    signed = SignedRecord(record, [processes["0"].sign("record", digest(record), RUN_ID), forged])
    said = messages.pack(StateReply(record.agreed, 2, messages.pack_centers(X), signed))
    node, link = agreeing, agreeing.session.links["0"]
    link.state_requested = True
    node.on_frame(link, Frame(Kind.STATE_REPLY, node.session.network, said, RUN, 0))
    assert link.banned == "A statement must be signed by its origin."
    with pytest.raises(RestartSetup):  # without that one, not with its result
        node.session.check_interrupt()


def test_the_signature_of_a_peer_that_contradicted_itself_does_not_count(agreeing, processes):
    node, record = agreeing, make_record()
    zero, two = processes.values()
    assert offer(node, "0", record.agreed, record, (zero, two))
    lie_of(two, node, by="2")
    node.session._interrupt = None
    assert not offer(node, "0", record.agreed, record, (zero, two))


def test_a_run_is_joined_late_only_if_more_than_half_of_all_listed_peers_agreed_to_it(
    agreeing, processes
):
    node, agreed = agreeing, agreed_on((0, 1, 2))
    run = run_id(node.session.contract, agreed)
    for n, name in enumerate(("0", "2")):
        assert not offer(node, "0", agreed)
        for other in (b"another run", run[:8]):
            state(node, name, processes[name].sign("agreed", digest(agreed), other))
        node.session._interrupt = None
        assert not offer(node, "0", agreed)
        state(node, name, processes[name].sign("agreed", digest(agreed), run))
        node.session._interrupt = None
        assert offer(node, "0", agreed) == (n == 1)
    # What two of three have agreed on is no other agreement.
    other = msgspec.structs.replace(agreed, weight=1e12)
    assert not offer(node, "0", other)


def test_a_returning_peer_counts_what_its_earlier_process_agreed_to_last(
    agreeing, processes, start_process
):
    node, agreed, former = agreeing, agreed_on((0, 1)), start_process("10")
    run = run_id(node.session.contract, agreed)
    state(node, "0", processes["0"].sign("agreed", digest(agreed), run))
    node.session._interrupt = None
    assert not offer(node, "0", agreed)
    # Its key has signed it, whoever relays that; it is one peer, however often that comes.
    for by in ("0", "2"):
        state(node, by, former.sign("agreed", digest(agreed), run))
    assert node.session.links["2"].banned == ""
    assert offer(node, "0", agreed)
    # With nobody else it is no majority.
    lie_of(processes["0"], node, by="2")
    node.session._interrupt = None
    assert not offer(node, "2", agreed)


def test_what_an_earlier_process_agreed_to_before_another_run_does_not_count(
    agreeing, processes, start_process
):
    node, agreed = agreeing, agreed_on((0, 1))
    first, second, run = *map(start_process, ("10", "10")), run_id(node.session.contract, agreed)
    state(node, "0", processes["0"].sign("agreed", digest(agreed), run))
    state(node, "2", second.sign("agreed", b"another", b"another run"))
    state(node, "0", first.sign("agreed", digest(agreed), run))
    node.session._interrupt = None
    assert not offer(node, "0", agreed)


def test_the_answer_with_a_record_of_a_large_network_fits_the_limit_of_a_node(
    base, identities, processes
):
    K, d = 50, 2000
    values = {"links": base.links, "n_clusters": K, "features": [f"feature {j}" for j in range(d)]}
    contract = make_contract(base.peers, values, "here")
    node = Node(contract, "10", identities["10"])
    numbers, spans = (
        [-1.2345678e300] * d,
        [(10**6 + 4 * n, 10**6 + 4 * n + 2) for n in range(2 * MAX_SPANS)],
    )
    agreed = make_agreed(
        EVERYONE, curvature=[1e300] * K, evenness=[1e300] * K,
        **dict.fromkeys(("mean", "deviation", "low", "high"), numbers),
    )  # fmt: skip
    centers = bytes(8 * K * d)
    record = msgspec.structs.replace(
        make_record(), agreed=agreed, centers=centers, took_part=[spans] * 3
    )
    signatures = [processes["0"].sign("record", digest(record), RUN_ID)] * 3
    reply = StateReply(agreed, 2, centers, SignedRecord(record, signatures))
    assert len(messages.pack(reply)) <= node._connections._limit
    node.session.loop.close()


def test_nothing_stops_a_peer_that_has_its_result_and_signs_it(node, processes):
    node.session.contract = replace(node.session.contract, on_loss="stop")
    node.session.move(RunEvent.SIGN)
    bye = messages.pack(Bye("stops", "a late whim"))
    node.on_frame(node.session.links["0"], Frame(Kind.BYE, node.session.network, bye, RUN, 0))
    for link in node.session.links.values():
        node.membership.drop(link, Cause.SILENT, "it was silent")
    record = make_record()
    assert not offer(node, "0", record.agreed, record, processes.values())
    node.session.check_interrupt()


@pytest.mark.parametrize("at_barrier", [False, True])
def test_a_peer_that_restarted_a_set_up_which_others_completed_asks_for_the_state(
    agreeing, at_barrier
):
    node, link = agreeing, agreeing.session.links["0"]
    if at_barrier:
        node.session.move(RunEvent.COMPLETE)
    beat = messages.pack(Heartbeat("running"))
    node.on_frame(link, Frame(Kind.HEARTBEAT, node.session.network, beat, RUN, 0))
    assert (Kind.STATE_REQUEST in link.connection.kinds()) != at_barrier


def test_a_neighbor_that_asks_for_the_state_of_the_run_it_is_in_joins_late(node):
    link, record = node.session.links["0"], make_record()
    reply = StateReply(record.agreed, 0, record.centers)
    node.state_transfer.make_reply = lambda: reply
    asked = messages.pack(StateRequest())
    node.on_frame(link, Frame(Kind.STATE_REQUEST, node.session.network, asked, RUN, 0))
    assert (link.active, link.banned) == (False, "")
    assert link.connected
    assert Kind.STATE_REPLY in link.connection.kinds()
