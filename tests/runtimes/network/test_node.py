"""One peer's node, with fake connections that record what is sent."""

import asyncio
import copy
import itertools
from contextlib import suppress
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from joined_nodes import make_agreed
from peerclust import graphs
from peerclust.errors import ParameterError
from peerclust.programs.certificate import Certify
from peerclust.programs.dgc import DGC
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.contract import Peer
from peerclust.runtimes.network.contract_validation import make_contract
from peerclust.runtimes.network.handshake import Greeting
from peerclust.runtimes.network.identity import make_identity, private_key, read_certificate
from peerclust.runtimes.network.journal import Journal
from peerclust.runtimes.network.membership import MAX_SPANS
from peerclust.runtimes.network.messages import (
    Bye,
    Hello,
    Losses,
    Proof,
    Record,
    SignedRecord,
    Statement,
    StateReply,
)
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.record import digest
from peerclust.runtimes.network.rounds import RoundLoop
from peerclust.runtimes.network.session import (
    RestartSetup,
    StateReceived,
    Stopping,
    ViewChanged,
)
from peerclust.runtimes.network.statements import Author, run_id
from peerclust.runtimes.network.states import Cause, LinkState, RunEvent
from peerclust.runtimes.network.wire import Frame, Kind
from peerclust.theory import Curvature
from peerclust.users import Users
from peerclust.users.public_bounds import PublicBounds

RUN_ID = b"the run! And 24 bytes more of it"
RUN = RUN_ID[: wire.TAG_BYTES]
X = np.arange(6.0).reshape(3, 2)


class Line:
    """A connection that records what is sent."""

    def __init__(self):
        self.said, self.is_open, self.reason = [], True, None
        self.sent = self.heard = 0

    def send(self, data):
        self.said.append(wire.decode(data, limit=1 << 22))

    def close(self, reason="", *, refused=False):
        self.is_open, self.reason = False, reason

    abort = close

    def kinds(self):
        return [frame.kind for frame in self.said]


EVERYONE = (0, 1, 2)


@pytest.fixture
def start_process(base, identities):
    """Starts the next process of a peer, which signs what it states."""
    starts = itertools.count(1)

    def start(name):
        return Author(base, base.number(name), private_key(identities[name]), next(starts))

    return start


@pytest.fixture
def processes(start_process):
    """The first processes of both neighbors."""
    return {name: start_process(name) for name in ("0", "2")}


@pytest.fixture
def agreeing(base, identities, processes):
    """The peer "10", in the middle of a path, in the set-up, connected to both neighbors."""
    here = Node(base, "10", identities["10"])
    for process in processes.values():
        assert greet(here, process)[1] == ""
    start_setup(here, b"agreeing")
    yield here
    here.session.loop.close()


def start_setup(node, run, members=EVERYONE):
    """Let a node begin an attempt at the set-up."""
    node.session.move(RunEvent.MEET)
    node.attempts.start(run, members)


@pytest.fixture
def node(agreeing, base):
    """The same peer, in round 0 of a run."""
    agreeing.membership.start_run(RUN_ID, make_agreed(EVERYONE), 0)
    for link in agreeing.session.links.values():
        link.connection.said.clear()
    return agreeing


OWN, THEIRS = b"the node's nonce, by its 32 bytes", b"its neighbor's, for the same proof"


def greet(node, process, **said):
    """Let a neighbor connect, send HELLO and PROOF; return its connection and the answer."""
    line, name, mine = (
        Line(),
        node.session.contract.names[process.incarnation.peer],
        node.flooding.author.incarnation,
    )
    values = {"known": mine, "phase": "agreeing", "counts": True, **said}
    hello = Hello(name, process.incarnation, nonce=THEIRS, settings="{}", **values)
    frame = Frame(Kind.HELLO, node.session.network, b"", node.session.run, node.session.at)
    proof = Proof(process.prove(mine, THEIRS, OWN))
    greeting = Greeting(node.session.links[name], line, hello, frame, OWN)
    return line, node.handshake.refuse(greeting) or node.handshake.accept(greeting, proof)


def state(node, by, statement):
    """Let a neighbor send a statement."""
    said = messages.pack(statement)
    node.on_frame(
        node.session.links[by],
        Frame(Kind.STATEMENT, node.session.network, said, node.session.run, node.session.at),
    )


def lost(process, *neighbors):
    """Return what a process states about the neighbors that it has lost."""
    return process.sign("losses", messages.pack(Losses(list(neighbors))))


def round_frame(node, x=X, **changes):
    return Frame(Kind.ROUND, node.session.network, x, RUN, node.session.at)._replace(**changes)


def play(node, *frames, check=lambda _: "", x=X):
    """Make an exchange in which these frames come, as (name, frame)."""
    for step, (name, frame) in enumerate(frames):
        node.session.loop.call_later(0.001 * step, node.on_frame, node.session.links[name], frame)

    async def limited():
        async with asyncio.timeout(5):
            return await node.lockstep.exchange(Kind.ROUND, x, check, s=4, R=9, view=7)

    return node.session.loop.run_until_complete(limited())


def come_back(node, process):
    """Lose a neighbor and let it return, so that it is sent the current round."""
    link = node.session.links[node.session.contract.names[process.incarnation.peer]]
    node.membership.drop(link, Cause.SILENT, "it was silent")
    link.detach()
    greet(node, process, phase="running", counts=False)
    assert (link.state, link.offered) == (LinkState.OFFERED, node.session.round)


def link_up(node, link, round_):
    said = messages.pack(messages.LinkUp(round_))
    node.on_frame(link, Frame(Kind.LINK_UP, node.session.network, said, RUN, round_))


def test_an_exchange_sends_to_all_neighbors_and_ends_when_all_have_sent(node):
    heard = play(node, ("2", round_frame(node, 2 * X)), ("0", round_frame(node, 3 * X)))
    assert {i: frame.payload.tolist() for i, frame in heard.items()} == {
        node.session.links[name].number: (factor * X).tolist()
        for name, factor in (("0", 3), ("2", 2))
    }
    assert list(heard) == sorted(heard)
    for link in node.session.links.values():
        (frame,) = link.connection.said
        assert (frame.kind, frame.run, frame.exchange) == (Kind.ROUND, RUN, 0)
        assert (frame.s, frame.R, frame.view, frame.payload.tolist()) == (4, 9, 7, X.tolist())
    assert node.session.at == 1


def test_frames_that_come_early_twice_or_late_are_used_once_and_in_their_exchange(node):
    zero, two = node.session.links["0"], node.session.links["2"]
    early, late = round_frame(node, 5 * X, exchange=1), round_frame(node)
    play(
        node,
        ("0", round_frame(node)),
        ("0", round_frame(node)),
        ("0", early),
        ("2", round_frame(node)),
    )
    node.on_frame(zero, late)
    heard = play(node, ("2", round_frame(node, exchange=1)))
    assert heard[zero.number].payload.tolist() == (5 * X).tolist()
    assert not zero.inbox
    assert not two.inbox


def test_a_neighbor_is_not_blamed_for_the_time_before_this_peer_began_to_wait_for_it(node):
    link, patience = node.session.links["2"], node.session.contract.patience
    # Another neighbor held up this peer, and so the next frame of this one, for long.
    link.progress_at -= 2 * patience

    async def wait():
        exchange = node.session.loop.create_task(
            node.lockstep.exchange(Kind.ROUND, X, lambda _: "")
        )
        await asyncio.sleep(0)
        for seconds, active in ((0, True), (patience - 1, True), (patience + 1, False)):
            link.heard_at = node.session.loop.time() + seconds
            node.watchdog.check(link, link.heard_at)
            assert link.active is active
        exchange.cancel()

    node.session.loop.run_until_complete(wait())
    assert node.session.events[-1][1].endswith(
        f"it was alive but made no progress for {patience:g} s"
    )


@pytest.mark.parametrize("heard_first", ["the view", "the neighbor"])
def test_an_agreement_begins_again_with_neighbors_that_began_it_with_a_peer_that_rejoined(
    node, processes, heard_first
):
    start = processes["2"].incarnation.start
    gone, back = (messages.View(2, start, seq, 0, counts) for seq, counts in ((1, []), (2, [1])))
    state(node, "2", processes["2"].sign("view", messages.pack(gone), RUN_ID))
    assert node.membership.begin_agreement() == (0, 1)
    later = copy.deepcopy(node.membership.views)
    later.update(back)
    frame = Frame(Kind.AGREE, node.session.network, X, RUN, 0, s=1, view=later.checksum)
    events = [
        lambda: state(node, "2", processes["2"].sign("view", messages.pack(back), RUN_ID)),
        lambda: node.on_frame(node.session.links["0"], frame),
    ]
    for event in events if heard_first == "the view" else events[::-1]:
        node.session.check_interrupt()
        event()
    with pytest.raises(ViewChanged):
        node.session.check_interrupt()
    assert node.membership.begin_agreement() == (0, 1, 2)


@pytest.mark.parametrize("late", [False, True])
def test_a_neighbor_that_is_slow_after_views_changed_is_not_accused_but_one_with_views_of_its_own(
    node, processes, late
):
    link, timeout = node.session.links["2"], node.session.contract.timeout

    def answer(view, exchange=0):
        frame = Frame(Kind.AGREE, node.session.network, X, RUN, exchange, s=1, view=view)
        node.on_frame(link, frame)

    async def wait():
        node.membership.begin_agreement()
        answer(node.membership.views.checksum)
        changed = messages.View(0, processes["0"].incarnation.start, 1, 0, [])
        state(node, "0", processes["0"].sign("view", messages.pack(changed), RUN_ID))
        node.membership.views_changed_at -= 3 * timeout
        if late:
            answer(5)
        node.membership.begin_agreement()
        exchange = node.session.loop.create_task(
            node.lockstep.exchange(Kind.AGREE, X, lambda _: "")
        )
        await asyncio.sleep(0)
        # For the other one, the frame of the former views came before the change.
        view, received_at = link.agreement_view
        link.agreement_view = view, received_at - (1 if late else 4) * timeout
        link.heard_at = link.progress_at = node.session.loop.time() + 1
        node.watchdog.check(link, link.heard_at)
        exchange.cancel()

    node.session.loop.run_until_complete(wait())
    accused = "it takes part in agreements with other views than those stated"
    assert link.banned == (accused if late else "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"payload": np.zeros((2, 2))}, "it sent an array of shape (2, 2)"),
        ({"payload": np.full((3, 2), 8.0)}, "it sent eights"),
        ({"exchange": 2}, "it must not be ahead, but is by 2 exchanges"),
        ({"network": b"another!"}, "its frames must be of this network"),
    ],
)
def test_a_neighbor_that_sends_what_it_must_not_is_dropped_and_the_exchange_ends_without_it(
    node, changes, reason
):
    line = node.session.links["0"].connection
    heard = play(
        node,
        ("0", round_frame(node)._replace(**changes)),
        ("2", round_frame(node)),
        check=lambda x: "eights" if (x == 8).all() else "",
    )
    assert list(heard) == [node.session.links["2"].number]
    assert not node.session.links["0"].active
    assert [what for _, what in node.session.events if reason in what]
    assert line.said[-1].kind is Kind.BYE
    assert not line.is_open


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


def test_a_neighbor_rejoins_after_the_later_of_both_rounds(node, processes):
    link = node.session.links["0"]
    come_back(node, processes["0"])
    assert Kind.LINK_UP in link.connection.kinds()
    link_up(node, link, 41)
    assert (link.active, link.active_from) == (True, 42)
    assert [each.name for each in node.session.active_links()] == ["2"]


def test_a_neighbor_that_offers_to_rejoin_at_the_barrier_of_an_agreement_does_after_it(node):
    link = node.session.links["0"]
    node.membership.begin_agreement()
    node.session.move(RunEvent.COMPLETE)
    link_up(node, link, 5)
    assert link.state is LinkState.LEAVING
    node.membership.end_agreement()
    node.membership.resume_rounds()
    assert Kind.LINK_UP in link.connection.kinds()
    assert (link.state, link.active_from) == (LinkState.ACTIVE, 6)


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


def begin_setup(node, processes):
    """Begin a set-up of processes that are all known."""
    for name, process in processes.items():
        state(node, name, lost(process))
    node.session._interrupt = None
    start_setup(node, RUN)


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


def make_record(members=EVERYONE, **given):
    """Return the record of a run of these members, K = 3 and d = 2."""
    numbers = dict.fromkeys(
        ("residual", "pooled_residual", "disagreement", "cost", "pooled_cost"), 1e-9
    )
    counts = dict.fromkeys(("round", "search_rounds", "moves", "moves_kept", "used"), 3)
    plain = {"centers": messages.pack_centers(X), "took_part": [[(0, 2)]] * 3, "run": RUN_ID}
    return Record(
        agreed=agreed_on(members), members=list(members), stopped=True,
        **numbers, **counts, **plain | given,
    )  # fmt: skip


def agreed_on(members=EVERYONE):
    lost = [(i, i + 1) for i in range(2) if not {i, i + 1} <= set(members)]
    two, three = [1.0, 2.0], [1.0] * 3
    given = {"mean": two, "deviation": two, "low": two, "high": two}
    return make_agreed(members, lost, curvature=three, evenness=three, **given)


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


def lie_of(process, node, by):
    """Let a neighbor relay two statements in the same place; return both."""
    one = process.sign("presence", b"one", RUN_ID)
    process._seqs["presence"] -= 1
    two = process.sign("presence", b"two", RUN_ID)
    state(node, by, one)
    state(node, by, two)
    return one, two


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


def test_a_neighbor_is_dropped_for_too_many_views_and_the_last_ones_are_those_of_all(
    node, processes
):
    # Another neighbor may have accepted more of them, and forwards the last.
    start, seq = processes["0"].incarnation.start, 0
    while not node.session.links["0"].banned:
        seq += 1
        view = messages.View(0, start, seq, 5, [1] * (seq % 2))
        statement = processes["0"].sign("view", messages.pack(view), RUN_ID)
        state(node, "0", statement)
    assert 90 < seq < 200
    assert node.membership.views[0].seq == seq - 1
    state(node, "2", statement)
    assert node.membership.views[0] == view
    assert node.session.links["2"].banned == ""


def test_a_view_of_another_run_does_not_hide_one_of_this_run_from_a_late_peer(agreeing, processes):
    node, zero, agreed = agreeing, processes["0"], make_agreed(EVERYONE)
    run, start = run_id(agreeing.session.contract, agreed), zero.incarnation.start
    views = [messages.View(0, start, seq, 5, []) for seq in (1, 2)]
    good = zero.sign("view", messages.pack(views[0]), run)
    state(node, "0", zero.sign("view", messages.pack(views[1]), b"another run"))
    state(node, "2", good)
    node.membership.start_run(run, agreed, 0)
    # Neighbors send what they know again when the link becomes active.
    state(node, "2", good)
    assert node.membership.views[0] == views[0]


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
    assert not node.flooding.is_forwarding


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


def test_a_loss_stops_the_run_where_the_network_file_says_so(node):
    node.session.contract = replace(node.session.contract, on_loss="stop")
    node.membership.drop(node.session.links["2"], Cause.SILENT, "it was silent")
    with pytest.raises(Stopping, match=r"2 was lost in round 0 \(it was silent\)"):
        node.session.check_interrupt()


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


def test_what_a_neighbor_refuses_this_peer_for_is_not_said_of_the_neighbor(node):
    bye = messages.pack(Bye("refuses", "it sent NaN"))
    node.on_frame(node.session.links["2"], Frame(Kind.BYE, node.session.network, bye, RUN, 0))
    assert node.session.events[-1] == (
        0, "2 was lost in round 0: it refused this peer: it sent NaN",
    )  # fmt: skip


def test_a_neighbor_that_has_ended_the_run_is_no_loss_that_stops_it(node):
    node.session.contract = replace(node.session.contract, on_loss="stop")
    node.membership.drop(node.session.links["2"], Cause.ENDED, "it has ended the run")
    assert not node.session.links["2"].active
    node.session.check_interrupt()
    # A solver that needs a fixed graph cannot go on even then.
    node.session.contract = replace(node.session.contract, solver="admm")
    node.membership.drop(node.session.links["0"], Cause.ENDED, "it has ended the run")
    with pytest.raises(Stopping, match="it has ended the run"):
        node.session.check_interrupt()


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


def test_a_lost_majority_is_announced_and_so_is_its_return(node, processes):
    said = []
    node.session.log = said.append
    for name in ("0", "2"):
        link = node.session.links[name]
        node.membership.drop(link, Cause.SILENT, "it was silent")
        link.detach()
    greet(node, processes["2"], phase="running", counts=False)
    link_up(node, node.session.links["2"], 0)
    lost, back = (each for each in said if each.event.startswith("majority"))
    assert "1 of 3 peers are left, and the run cannot converge unless 1 returns." in lost
    assert (lost.event, lost.fields) == ("majority-lost", {"connected": 1})
    assert (back.event, back.fields) == ("majority-back", {"connected": 2})


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


@pytest.fixture
def running(node, tmp_path):
    """The peer's run, in round 5."""
    users, program = Users(np.zeros((4, 2)), np.array([0, 4])), DGC(rho=1.0, alpha=0.1)
    made = RoundLoop(
        node, program, users, X[None], 5, spread=1.0,
        curvature=Curvature(np.empty((0, 3)), np.ones(3), np.ones(3)),
        check=PublicBounds(X[0], X[2]).refuse, certify=Certify(m=3),
        journal=Journal(tmp_path / "journal.jsonl", pytest.fail),
    )  # fmt: skip
    node.session.at = 5
    return made


def begin(running):
    running._session.loop.run_until_complete(asyncio.wait_for(running._start_round(), 5))
    return running.state.round


def test_a_peer_that_rejoins_begins_at_the_earliest_round_that_a_neighbor_names(
    node, running, processes
):
    zero, two = node.session.links.values()
    come_back(node, processes["0"])
    come_back(node, processes["2"])
    node.session.loop.call_soon(link_up, node, two, 90)
    node.session.loop.call_later(0.05, link_up, node, zero, 80)
    assert begin(running) == node.session.at == 81
    assert (zero.active_from, two.active_from) == (81, 91)


def test_a_peer_whose_neighbor_rejoins_stays_in_its_round_and_waits_for_the_answer(
    node, running, processes
):
    zero, two = node.session.links.values()
    come_back(node, processes["0"])
    running.state, node.session.at = replace(running.state, round=6), 6
    node.session.loop.call_later(0.05, link_up, node, zero, 3)
    assert begin(running) == node.session.at == 6
    assert (zero.active, zero.active_from, two.active_from) == (True, 6, 0)


# Neighbors that say why they do not take part


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
    assert agreeing.session.links["0"].refusal == "it left: it was asked to end"
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
