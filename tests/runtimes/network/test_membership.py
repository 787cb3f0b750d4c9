"""Neighbors that are lost in a run or rejoin, and the views of all."""

import asyncio
import copy
import re
from dataclasses import replace

import numpy as np
import pytest

from joined_nodes import make_agreed
from peerclust.programs.certificate import Certify
from peerclust.programs.dgc import DGC
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.journal import Journal
from peerclust.runtimes.network.lockstep import Called
from peerclust.runtimes.network.plan import RunPlan
from peerclust.runtimes.network.rounds import RoundLoop
from peerclust.runtimes.network.session import Stopping
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.states import Cause, LinkState, RunEvent
from peerclust.runtimes.network.wire import Frame, Kind
from peerclust.theory import Curvature
from peerclust.users import Users
from peerclust.users.public_bounds import PublicBounds
from single_node import EVERYONE, RUN, RUN_ID, X, come_back, greet, link_up, state


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

    async def wait():
        exchange = node.session.loop.create_task(
            node.lockstep.exchange(Kind.AGREE, X, lambda _: "")
        )
        for event in events if heard_first == "the view" else events[::-1]:
            await asyncio.sleep(0.01)
            assert not exchange.done()
            event()
        await exchange

    with pytest.raises(Called):
        node.session.loop.run_until_complete(asyncio.wait_for(wait(), 5))
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
        node.view_exchange.changed_at -= 3 * timeout
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


def test_a_neighbor_that_is_slow_is_not_accused_of_views_of_an_agreement_that_is_complete(
    node, processes
):
    link, timeout = node.session.links["2"], node.session.contract.timeout

    def answer(view, exchange):
        frame = Frame(Kind.AGREE, node.session.network, X, RUN, exchange, s=1, view=view)
        node.on_frame(link, frame)

    async def wait():
        # A peer rejoins, which ends no agreement; this one takes long after that.
        node.membership.begin_agreement()
        before = node.membership.views.checksum
        answer(before, 0)
        changed = messages.View(0, processes["0"].incarnation.start, 1, 0, [1])
        state(node, "0", processes["0"].sign("view", messages.pack(changed), RUN_ID))
        node.view_exchange.changed_at -= 3 * timeout
        answer(before, 1)
        view, received_at = link.agreement_view
        link.agreement_view = view, received_at - timeout
        node.membership.end_agreement()
        # In the next one, the neighbor has sent nothing yet.
        node.membership.begin_agreement()
        assert node.session.agreement.view != before
        exchange = node.session.loop.create_task(
            node.lockstep.exchange(Kind.AGREE, X, lambda _: "")
        )
        await asyncio.sleep(0)
        link.heard_at = link.progress_at = node.session.loop.time() + 1
        node.watchdog.check(link, link.heard_at)
        exchange.cancel()

    node.session.loop.run_until_complete(wait())
    assert link.banned == ""
    assert link.active


def test_a_neighbor_rejoins_after_the_later_of_both_rounds(node, processes):
    link = node.session.links["0"]
    come_back(node, processes["0"])
    assert Kind.LINK_UP in link.connection.kinds()
    link_up(node, link, 41)
    assert (link.active, link.active_from) == (True, 42)
    assert [each.name for each in node.session.active_links()] == ["2"]


def test_the_log_has_the_cause_of_a_loss_in_one_word(node):
    said = []
    node.session.log = said.append
    zero, two = node.session.links.values()
    node.membership.drop(zero, Cause.SILENT)
    node.membership.drop(zero, Cause.OTHER_VIEWS)
    node.on_invalid(two, "it sent nonsense")
    lost = [each for each in said if each.event in ("lost", "refused")]
    assert [(each.event, each.fields["peer"], each.fields["cause"]) for each in lost] == [
        ("lost", "0", "silent"),
        ("refused", "0", "other_views"),
        ("lost", "2", "invalid"),
    ]


def test_a_neighbor_that_is_lost_in_the_set_up_has_a_cause_in_the_log(agreeing):
    said = []
    agreeing.session.log = said.append
    agreeing.membership.drop(agreeing.session.links["0"], Cause.MISMATCH)
    (lost,) = (each for each in said if each.event == "lost")
    assert lost.fields == {"peer": "0", "round": 0, "cause": "mismatch"}


@pytest.mark.parametrize("phase", ["running", "done"])
def test_a_neighbor_must_answer_the_offer_to_rejoin_unless_it_has_ended(node, processes, phase):
    link = node.session.links["0"]
    come_back(node, processes["0"])
    link.phase = phase
    late = link.offered_at + node.session.contract.timeout + 1.0
    link.heard_at = late
    node.watchdog.check(link, late)
    assert link.banned == (Cause.MUTE.description if phase == "running" else "")


def test_a_neighbor_that_offers_to_rejoin_at_the_barrier_of_an_agreement_does_after_it(node):
    link = node.session.links["0"]
    node.membership.begin_agreement()
    node.session.move(RunEvent.COMPLETE)
    link_up(node, link, 5)
    assert link.state is LinkState.LEAVING
    node.membership.end_agreement()
    node.membership.resume_rounds()
    lost = [what for _, what in node.session.events if "was lost" in what]
    assert lost == [f"0 was lost after an agreement: {Cause.FORGOT.description}"]
    assert Kind.LINK_UP in link.connection.kinds()
    assert (link.state, link.active_from) == (LinkState.ACTIVE, 6)


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


def test_a_loss_stops_the_run_where_the_network_file_says_so(node):
    node.session.contract = replace(node.session.contract, on_loss="stop")
    node.membership.drop(node.session.links["2"], Cause.SILENT, "it was silent")
    with pytest.raises(Stopping, match=r"2 was lost in round 0 \(it was silent\)"):
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
    assert "1 of 3 peers are left, and the run cannot converge unless 1 more peer returns." in lost
    assert (lost.event, lost.fields) == ("majority-lost", {"connected": 1})
    assert (back.event, back.fields) == ("majority-back", {"connected": 2})


@pytest.fixture
def running(node, tmp_path):
    """The peer's run, in round 5."""
    users, program = Users(np.zeros((4, 2)), np.array([0, 4])), DGC(rho=1.0, alpha=0.1)
    plan = RunPlan(node.session.contract, program, Certify(m=3), users, spread=1.0)
    made = RoundLoop(
        node, plan, X[None], 5,
        curvature=Curvature(np.empty((0, 3)), np.ones(3), np.ones(3)),
        check=PublicBounds(X[0], X[2]).refuse,
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


@pytest.mark.parametrize(("joined_in", "first"), [(5, 81), (2, 2)])
def test_the_first_round_of_a_late_peer_is_the_one_in_which_its_first_link_is_active(
    node, running, processes, joined_in, first
):
    node.view_exchange.first_round = joined_in
    for process in processes.values():
        come_back(node, process)
    for link in node.session.links.values():
        node.session.loop.call_soon(link_up, node, link, 80)
    assert begin(running) == 81
    assert node.view_exchange.first_round == first


def test_a_peer_whose_neighbor_rejoins_stays_in_its_round_and_waits_for_the_answer(
    node, running, processes
):
    zero, two = node.session.links.values()
    come_back(node, processes["0"])
    running.state, node.session.at = replace(running.state, round=6), 6
    node.session.loop.call_later(0.05, link_up, node, zero, 3)
    assert begin(running) == node.session.at == 6
    assert (zero.active, zero.active_from, two.active_from) == (True, 6, 0)


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


@pytest.mark.parametrize("solver", ["accelerated", "exact"])
def test_a_loss_elsewhere_stops_a_run_whose_solver_needs_a_fixed_graph(node, processes, solver):
    node.session.contract = replace(node.session.contract, solver=solver, on_loss="stop")
    view = messages.View(2, processes["2"].incarnation.start, 1, 7, [], "lost 10: it was silent")
    state(node, "0", processes["2"].sign("view", messages.pack(view), RUN_ID))
    if solver == "accelerated":
        node.session.check_interrupt()
        return
    fixed = (
        "10 was lost in round 7 (2 lost 10: it was silent), and the solver 'exact' needs a fixed"
    )
    with pytest.raises(Stopping, match=re.escape(fixed)):
        node.session.check_interrupt()
