"""How a run ended, from views alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from peer_runs import make_path_contract
from peerclust.peers.verdict import contributions, judge
from peerclust.programs.certificate import Found
from peerclust.runtimes.network.messages import Ended, View
from peerclust.runtimes.network.rounds import Outcome
from peerclust.runtimes.network.views import MembershipViews

END = 100


def outcome(residual=1e-7, stopped=True, rounds=END, found=None):
    state = SimpleNamespace(round=rounds, x=np.zeros((1, 3, 4)))
    return Outcome(state, residual, 0.5, stopped, 1.0, found)


def agreed(spread):
    return SimpleNamespace(spread=spread, weight=100.0, W=20.0, rho=50.0)


def node(m=5, me=0):
    terms = make_path_contract(m, links=tuple((f"p{i}", f"p{(i + 1) % m}") for i in range(m)))
    views = MembershipViews(terms.graph, range(m), ())
    return SimpleNamespace(contract=terms, views=views, number=me, events=[])


def end(views, peer, residual=1e-7):
    old = views[peer]
    views.update(View(peer, old.seq + 1, END, old.counts, "", Ended(END, residual, 0.5)))


def lose(views, peer, neighbor, round_):
    old = views[peer]
    left = [i for i in old.counts if i != neighbor]
    views.update(View(peer, old.seq + 1, round_, left, f"lost p{neighbor}: silent"))


def test_a_run_converged_if_all_peers_say_so():
    here = node()
    for i in range(5):
        end(here.views, i)
    verdict = judge(here, outcome(), agreed(2.0))
    assert verdict.status.name == "converged"
    assert verdict.heard == ["p0", "p1", "p2", "p3", "p4"]
    assert verdict.disagreement == 0.25


def test_what_all_found_together_is_reported_unless_a_peer_was_lost():
    found = Found(
        gradient=2e-6, cost=5.0, pooled_cost=70.0, pooled_gradient=4e-4,
        radius=np.array([0.1, 0.3]), radius_stacked=0.4,
    )  # fmt: skip
    here = node()
    for i in range(5):
        end(here.views, i)
    verdict = judge(here, outcome(found=found), agreed(2.0))
    assert (verdict.cost, verdict.pooled_cost) == (5.0, 70.0)
    assert verdict.pooled_residual == pytest.approx(4e-4 / (100.0 * 2.0))
    assert verdict.disagreement == pytest.approx(2 * 0.2 / 2.0)
    assert verdict.largest_residual == pytest.approx(2e-6 / (20.0 * 2.0))
    lose(here.views, 1, 2, 30)
    alone = judge(here, outcome(found=found), agreed(2.0))
    assert alone.as_dict()["pooled_cost"] is None
    assert alone.disagreement == 0.25


@pytest.mark.parametrize(
    ("own", "others", "stopped", "status"),
    [
        (1e-3, 1e-7, True, "stopped"),
        (1e-7, 1e-3, True, "stopped"),
        (1e-7, None, True, "stopped"),
        (1e-7, 1e-7, False, "ran out of rounds"),
    ],
)
def test_no_success_is_claimed_for_others_that_did_not_converge(own, others, stopped, status):
    here = node()
    for i in range(1, 5 if others is not None else 4):
        end(here.views, i, others or 1e-7)
    assert judge(here, outcome(own, stopped), agreed(1.0)).status.name == status


def test_lost_peers_are_named_with_the_rounds_they_contributed_to():
    here = node()
    lose(here.views, 1, 2, 30)
    lose(here.views, 3, 2, 31)
    for i in (0, 1, 3, 4):
        end(here.views, i)
    verdict = judge(here, outcome(), agreed(1.0))
    assert verdict.status.name == "converged without some peers"
    assert "Without p2" in verdict.status.advice
    assert verdict.contributed["p2"] == [[0, 30]]
    assert verdict.contributed["p0"] == [[0, END - 1]]
    assert [event for event in verdict.events if "p2" in event[1]] == [
        (30, "p1 lost p2: silent"),
        (31, "p3 lost p2: silent"),
    ]


def test_half_of_the_peers_is_no_success():
    here = node(4)
    lose(here.views, 0, 3, 30)
    lose(here.views, 1, 2, 30)
    for i in range(4):
        end(here.views, i)
    verdict = judge(here, outcome(), agreed(1.0))
    assert verdict.status.name == "partitioned"
    assert verdict.heard == ["p0", "p1"]


def test_a_peer_taken_up_again_contributed_twice():
    here = node()
    for peer in (1, 3):
        lose(here.views, peer, 2, 30)
        old = here.views[peer]
        here.views.update(View(peer, old.seq + 1, 60, sorted([*old.counts, 2])))
    assert contributions(here.contract, here.views, END, 0)["p2"] == [[0, 29], [60, END - 1]]


def test_a_peer_counted_only_by_one_that_is_lost_itself_does_not_contribute():
    here = node(5)
    lose(here.views, 1, 2, 20)
    lose(here.views, 4, 3, 40)
    spans = contributions(here.contract, here.views, END, 0)
    assert spans["p2"] == spans["p3"] == [[0, 39]]
