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


def outcome(residual=1e-7, stopped=True, rounds=END, radius=0.25):
    """Return the end of a run whose agreed residual is this length."""
    state = SimpleNamespace(round=rounds, x=np.zeros((1, 3, 4)))
    found = Found(
        residual=residual, pooled_residual=4e-4, cost=5.0, pooled_cost=70.0,
        radius=np.full(3, radius), radius_stacked=0.4, weights=np.array([30.0, 0.0, 50.0]),
        curvature=np.ones(3), evenness=np.ones(3), mean=np.zeros((3, 4)),
    )  # fmt: skip
    return Outcome(state, 1e-7, stopped, 1.0, found)


def agreed(spread):
    return SimpleNamespace(spread=spread, rho=50.0)


def node(m=5, me=0):
    terms = make_path_contract(m, links=tuple((f"p{i}", f"p{(i + 1) % m}") for i in range(m)))
    views = MembershipViews(terms.graph, range(m), ())
    return SimpleNamespace(contract=terms, views=views, number=me, events=[])


def end(views, peer, residual=1e-7):
    old = views[peer]
    views.update(View(peer, old.seq + 1, END, old.counts, "", Ended(END, residual)))


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


def test_what_those_present_found_together_is_reported_after_losses_too():
    here = node()
    lose(here.views, 1, 2, 30)
    lose(here.views, 3, 2, 30)
    for i in (0, 1, 3, 4):
        end(here.views, i)
    verdict = judge(here, outcome(1.8e-6, radius=0.2), agreed(2.0))
    assert verdict.status.name == "converged without some peers"
    assert (verdict.cost, verdict.pooled_cost) == (5.0, 70.0)
    assert verdict.pooled_residual == pytest.approx(4e-4 / 2.0)
    assert verdict.largest_residual == pytest.approx(0.9e-6)
    assert verdict.disagreement == pytest.approx(2 * 0.2 / 2.0)
    assert verdict.as_dict()["residual"] == 1e-7


@pytest.mark.parametrize(
    ("residual", "reported", "stopped", "status"),
    [
        (1e-3, 5, True, "ran out of rounds"),
        (1.1e-6, 5, True, "ran out of rounds"),
        (1e-7, 4, True, "stopped"),
        (1e-7, 5, False, "ran out of rounds"),
        (1e-7, 5, True, "converged"),
    ],
)
def test_success_needs_an_agreed_residual_below_tol_and_a_report_of_every_peer(
    residual, reported, stopped, status
):
    here = node()
    for i in range(reported):
        end(here.views, i)
    assert judge(here, outcome(residual, stopped), agreed(1.0)).status.name == status


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
