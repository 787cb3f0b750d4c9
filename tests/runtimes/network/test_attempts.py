"""Attempts at the set-up: what restarts one, at its barrier, too, and what does not."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.messages import (
    Losses,
    Statement,
)
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.session import (
    RestartSetup,
)
from peerclust.runtimes.network.states import Cause, RunEvent
from peerclust.runtimes.network.wire import Kind
from single_node import RUN, RUN_ID, begin_setup, greet, lost, play, round_frame, start_setup, state


def test_a_loss_during_the_set_up_restarts_it_and_the_others_learn_of_it(agreeing):
    node = agreeing
    node.membership.drop(node.session.links["0"], Cause.SILENT, "it was silent")
    with pytest.raises(RestartSetup):
        node.session.check_interrupt()
    said = node.session.links["2"].connection.said
    sent = [messages.unpack(f.payload, Statement) for f in said if f.kind is Kind.STATEMENT]
    node.flooding.gossip.verifier.check_statement(sent[-1])
    assert (sent[-1].kind, sent[-1].origin) == ("losses", node.flooding.author.incarnation)
    assert messages.unpack(sent[-1].body, Losses).neighbors == [node.session.links["0"].number]
    assert node.attempts.lost == {(0, node.session.number)}


def test_a_process_restarted_during_the_set_up_is_not_sent_the_frames_of_the_former_one(
    agreeing, start_process
):
    node = agreeing
    start_setup(node, RUN)
    for at in range(3):
        play(node, *((name, round_frame(node, exchange=at)) for name in ("0", "2")))
    node.on_disconnect(node.session.links["0"], "it was killed")
    second = start_process("0")
    line, reason = greet(node, second, counts=False)
    assert reason == ""
    assert Kind.ROUND not in line.kinds()
    node.session.check_interrupt()
    # Every process begins with a statement.
    state(node, "0", lost(second))
    with pytest.raises(RestartSetup):
        node.session.check_interrupt()


def test_a_set_up_that_knows_of_a_new_process_does_not_restart_for_it(agreeing, start_process):
    node, second = agreeing, start_process("0")
    node.on_disconnect(node.session.links["0"], "it was killed")
    news = lost(second)
    state(node, "2", news)
    with pytest.raises(RestartSetup):
        node.session.check_interrupt()
    start_setup(node, RUN)
    node.session.links["0"].outbox.append(wire.encode(round_frame(node)))
    line, _ = greet(node, second, counts=False)
    state(node, "0", news)
    node.session.check_interrupt()
    assert node.session.links["0"].active
    assert Kind.ROUND in line.kinds()


def test_a_set_up_does_not_restart_for_a_loss_that_it_knows_from_the_other_end(agreeing, processes):
    node = agreeing
    begin_setup(node, processes)
    node.membership.drop(node.session.links["0"], Cause.SILENT, "it was silent")
    with pytest.raises(RestartSetup):
        node.session.check_interrupt()
    start_setup(node, b"setup 2", (1, 2))
    # Its neighbors are in the same attempt and would not repeat their frames.
    state(node, "2", lost(processes["0"], 1))
    node.session.check_interrupt()
    node.on_invalid(node.session.links["0"], "it lies")
    node.session.check_interrupt()
    # A loss that is new restarts it.
    state(node, "2", lost(processes["2"], 1))
    with pytest.raises(RestartSetup):
        node.session.check_interrupt()


def own_losses(line):
    """Return the sequence numbers of what the node has stated about its losses."""
    said = [messages.unpack(f.payload, Statement) for f in line.said if f.kind is Kind.STATEMENT]
    return [each.seq for each in said if each.kind == "losses" and each.origin.peer == 1]


def test_a_set_up_that_restarts_for_a_new_process_tells_those_at_its_barrier(
    agreeing, processes, start_process
):
    node = agreeing
    begin_setup(node, processes)
    line = node.session.links["2"].connection
    before = len(own_losses(line))
    second = start_process("0")
    for _ in range(3):
        state(node, "2", lost(second))
    assert len(own_losses(line)) == before + 1
    with pytest.raises(RestartSetup):
        node.session.check_interrupt()


@pytest.mark.parametrize("first", ["the new process", "the call to restart"])
def test_at_the_barrier_only_a_process_that_is_not_there_yet_makes_a_set_up_restart(
    agreeing, processes, start_process, first
):
    node = agreeing
    begin_setup(node, processes)
    node.session.move(RunEvent.COMPLETE)
    news = [lost(start_process("0")), lost(processes["2"])]
    for statement in news if first == "the new process" else news[::-1]:
        # Others may have passed the barrier, and the new process then takes part late.
        node.session.check_interrupt()
        state(node, "2", statement)
    with pytest.raises(RestartSetup):
        node.session.check_interrupt()


def test_a_new_process_that_connects_at_the_barrier_is_not_awaited_there(
    agreeing, processes, start_process
):
    node, second = agreeing, start_process("0")
    begin_setup(node, processes)
    node.session.move(RunEvent.COMPLETE)
    node.on_disconnect(node.session.links["0"], "it was killed")
    state(node, "2", lost(second))
    assert greet(node, second, counts=False)[1] == ""
    node.session.check_interrupt()
    assert not node.session.links["0"].active


def test_what_a_process_lost_before_it_started_a_run_does_not_keep_a_late_peer_out(
    base, identities, processes
):
    node = Node(base, "10", identities["10"])
    greet(node, processes["0"], phase="running", counts=False, known=None)
    state(node, "0", processes["0"].sign("agreed", bytes(32), RUN_ID))
    state(node, "0", lost(processes["0"], 1))
    assert node.attempts.lost == set()
    greet(node, processes["2"], counts=False, known=None)
    state(node, "2", lost(processes["2"], 1))
    assert node.attempts.lost == {(1, 2)}
    state(node, "2", processes["2"].sign("agreed", bytes(32), RUN_ID))
    assert node.attempts.lost == set()
    # A neighbor that connects reads them in the same order.
    line, _ = greet(node, processes["0"], counts=False)
    said = [messages.unpack(f.payload, Statement) for f in line.said if f.kind is Kind.STATEMENT]
    kinds = [each.kind for each in said if each.origin.peer != node.session.number]
    assert kinds == ["agreed", "agreed", "losses", "losses"]
    node.session.loop.close()


def test_a_set_up_restarts_if_a_process_whose_losses_it_counts_has_started_a_run(
    agreeing, processes
):
    node = agreeing
    begin_setup(node, processes)
    state(node, "0", lost(processes["0"], 1))
    with pytest.raises(RestartSetup):
        node.session.check_interrupt()
    start_setup(node, b"setup 2", (1, 2))
    state(node, "2", processes["0"].sign("agreed", bytes(32), RUN_ID))
    with pytest.raises(RestartSetup):
        node.session.check_interrupt()


@pytest.mark.parametrize("phase", ["agreeing", "running", "done"])
def test_which_links_are_lost_does_not_depend_on_what_a_neighbor_calls_its_phase(
    base, identities, processes, phase
):
    node = Node(base, "10", identities["10"])
    greet(node, processes["0"], phase=phase, counts=False, known=None)
    state(node, "0", lost(processes["0"], 1))
    # Peers further away know only what it states.
    assert node.attempts.lost == {(0, 1)}
    node.session.loop.close()


def test_a_peer_waits_for_neighbors_that_never_came_and_starts_without_them(base, identities):
    quick = replace(base, join_timeout=0.05, timeout=0.2, on_absent="start")
    node = Node(quick, "10", identities["10"])
    watch = node.session.loop.create_task(node.watchdog.watch())
    lost, members = node.session.loop.run_until_complete(
        asyncio.wait_for(node.attempts.meet_members(), 20)
    )
    assert (lost, members) == ({(0, 1), (1, 2)}, (1,))
    watch.cancel()
    with suppress(asyncio.CancelledError):
        node.session.loop.run_until_complete(watch)
    node.session.loop.close()
