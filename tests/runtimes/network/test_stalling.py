"""One liar among joined nodes keeps nobody honest from ending, and nobody honest is dropped."""

import asyncio
import itertools

import numpy as np
import pytest

from joined_nodes import JoinedNodes, Run
from peerclust.graphs import from_edges, ring
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.messages import LinkUp, View
from peerclust.runtimes.network.states import Cause
from peerclust.runtimes.network.wire import Frame, Kind

# A ring of five honest peers, and a liar that is a neighbor of three of them.
GRAPH = from_edges([*((i, (i + 1) % 5) for i in range(5)), (5, 0), (5, 2), (5, 3)])
LIAR = 5


def make_run(**given):
    rng = np.random.default_rng(5)
    parts = [rng.normal(size=(20, 1)) + 3.0 * rng.choice([-1, 1], size=(20, 1)) for _ in range(6)]
    return Run(GRAPH, parts, **given)


def watch(run):
    """Let the honest peers watch their links, on which they hear no heartbeats."""

    async def check(node):
        while True:
            now = node.watchdog._checked = run.net.loop.time()
            for link in node.session.links.values():
                link.heard_at = now
            node.watchdog.check_links(now)
            await asyncio.sleep(0.02)

    run.watching = [run.net.loop.create_task(check(node)) for node in run.net.nodes[:LIAR]]


def repeat(run, act, seconds=0.002):
    """Let the liar act again and again."""
    numbers = itertools.count(1)

    def again():
        if not all(node.session.phase == "done" for node in run.net.nodes[:LIAR]):
            act(next(numbers))
            run.net.loop.call_later(seconds, again)

    again()


def in_first_agreement(run, act):
    """Let the liar call act(agreement) instead of taking part in its first agreement."""
    node = run.net.nodes[LIAR]
    exchange = node.lockstep.exchange

    async def changed(kind, *rest, **given):
        if kind is Kind.AGREE:
            act(node.session.agreement)
            run.net.dead.add(LIAR)  # nobody waits for it to end, or hears what it does not send
            await run.net.loop.create_future()
        return await exchange(kind, *rest, **given)

    node.lockstep.exchange = changed


def send(run, **fields):
    """Let the liar send a frame of an agreement to all."""
    session = run.net.nodes[LIAR].session
    frame = Frame(Kind.AGREE, session.network, np.zeros((2, 1)), session.run, **fields)
    for link in session.links.values():
        session.send_frame(link, wire.encode(frame))


def check_ended(run, outcomes):
    assert set(range(LIAR)) <= set(outcomes)
    assert len({outcomes[i].state.round for i in range(LIAR)}) == 1
    for i in range(LIAR):
        said = [what for _, what in run.net.nodes[i].session.events]
        assert not [what for what in said if not what.startswith("p5 ")], said
        assert outcomes[i].stopped


@pytest.mark.parametrize("lie", ["ever later ones", "ever other views", "both"])
def test_agreements_that_a_liar_begins_inside_of_an_agreement_end_it_for_nobody_else(lie):
    run = make_run()

    def act(now):
        def call(n):
            s = 1 if lie == "ever other views" else now.number + n
            send(run, exchange=0, s=s, view=now.view + (0 if lie == "ever later ones" else n))

        repeat(run, call)

    in_first_agreement(run, act)
    run.net.loop.call_soon(watch, run)
    check_ended(run, run.outcomes())
    assert all(run.net.nodes[i].session.links["p5"].stuck <= 1 for i in (0, 2, 3))


def state_view(run, seq, counts, to):
    """Let the liar state a view, to one neighbor first."""
    node = run.net.nodes[LIAR]
    author = node.flooding.author
    view = View(LIAR, author.incarnation.start, seq, 0, counts)
    author._seqs["view"] = seq - 1
    statement = author.sign("view", messages.pack(view), node.session.run_id)
    link = node.session.links[f"p{to}"]
    node.session.send(link, Kind.STATEMENT, statement)


def test_views_of_a_peer_that_is_no_member_change_no_agreement_and_no_vote():
    run = make_run(timeout=2.0)
    run.net.settle()
    run.net.dead.add(LIAR)
    for i in (0, 2, 3):
        # It is connected, but takes no part.
        node = run.net.nodes[i]
        node.membership.drop(node.session.links["p5"], Cause.ENDED)
    run.net.settle()
    honest = run.net.nodes[:LIAR]
    (before,) = {node.membership.views.checksum for node in honest}

    def act(n):
        state_view(run, n, [[0, 2, 3], []][n % 2], (0, 2, 3)[n % 3])

    repeat(run, act, 0.005)
    check_ended(run, run.outcomes())
    for node in honest:
        assert node.membership.views[LIAR].seq > 3
        assert node.membership.views.checksum == before


@pytest.fixture
def node():
    joined = JoinedNodes(ring(4), timeout=2.0, on_loss="continue")
    yield joined.nodes[0]
    joined.close()


def test_a_round_waits_for_an_answer_longer_than_for_a_first_neighbor_and_others_go_on():
    run = make_run(timeout=0.5, join_timeout=0.1)
    run.net.settle()
    run.net.dead.add(LIAR)
    for i in (0, 2, 3):
        link = run.net.nodes[i].session.links["p5"]
        run.net.nodes[i].membership.drop(link, Cause.FORGOT)
        run.net.nodes[i].membership.sync_phase(link)  # it sends LINK_UP, which is not answered
    run.net.loop.call_soon(watch, run)
    check_ended(run, run.outcomes())
    assert run.net.nodes[0].session.links["p5"].banned == Cause.MUTE.description


def rejoin(node, name="p1"):
    """Let a neighbor forget this peer, and offer to rejoin."""
    link = node.session.links[name]
    node.membership.on_link_up(link, LinkUp(0))
    return link


def test_a_neighbor_that_rejoins_again_and_again_in_an_agreement_is_dropped(node):
    node.membership.begin_agreement()
    for n in range(1, 6):
        node.session.links["p1"].rejoined_at.clear()  # much later
        link = rejoin(node)
        assert bool(link.banned) is (n > 3)
        if link.banned:
            break
        node.session.cancel_interrupt(Exception)
        node.membership.begin_agreement()
    assert link.banned == "it left and rejoined too often"
    # Its other neighbor has seen fewer changes of its view than it tolerates.
    assert node.flooding.author.next_seq("view") - 1 <= 8


def test_a_neighbor_that_rejoins_now_and_then_in_rounds_is_not_dropped(node):
    for _ in range(20):
        node.session.links["p1"].rejoined_at.clear()
        assert not rejoin(node).banned


def test_a_neighbor_that_leaves_before_the_patience_with_it_ends_is_dropped_the_fourth_time(node):
    link, patience = node.session.links["p1"], node.session.contract.patience
    for n in range(1, 5):
        node.lockstep.awaited, node.lockstep.missing = ("a frame",), {1}
        node.lockstep.awaited_since = start = node.session.loop.time() + 1e4 * n
        link.heard_at = start + 0.9 * patience
        node.watchdog.check(link, link.heard_at)
        assert link.active
        link = rejoin(node)
        link.rejoined_at.clear()
        assert bool(link.banned) is (n == 4)


def test_a_neighbor_that_was_awaited_shortly_may_leave_and_return_often(node):
    link, timeout = node.session.links["p1"], node.session.contract.timeout
    for n in range(1, 20):
        node.lockstep.awaited, node.lockstep.missing = ("a frame",), {1}
        node.lockstep.awaited_since = start = node.session.loop.time() + 1e4 * n
        link.heard_at = start + timeout
        node.watchdog.check(link, link.heard_at)
        link = rejoin(node)
        link.rejoined_at.clear()
        assert not link.banned
