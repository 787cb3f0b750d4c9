"""One exchange with all active neighbors, by a node with fake connections."""

import asyncio

import numpy as np
import pytest

from joined_nodes import make_agreed
from peerclust.runtimes.network.wire import Frame, Kind
from single_node import EVERYONE, RUN, RUN_ID, X, play, round_frame


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


def test_frames_of_an_attempt_at_the_set_up_that_was_given_up_call_nobody_to_an_agreement(agreeing):
    node, link = agreeing, agreeing.session.links["0"]
    node.on_frame(link, Frame(Kind.AGREE, node.session.network, X, node.session.run, 1))
    # An agreement of the run, which a neighbor may begin first, does.
    early = Frame(Kind.AGREE, node.session.network, X, RUN, 0, s=1)
    node.on_frame(node.session.links["2"], early)
    node.membership.start_run(RUN_ID, make_agreed(EVERYONE), 0)
    assert not link.is_elsewhere(None)
    assert node.session.links["2"].is_elsewhere(None)


def test_an_agreement_that_a_neighbor_begins_first_replaces_no_frame_of_the_barrier(agreeing):
    node, link = agreeing, agreeing.session.links["0"]
    barrier = Frame(Kind.AGREE, node.session.network, X, node.session.run, 0)
    node.on_frame(link, barrier)
    # After the barrier it has lost a link, and begun an agreement.
    node.on_frame(link, barrier._replace(run=RUN, s=1, view=5))
    assert [frame.run for frame in link.inbox.values()] == [node.session.run, RUN]


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
