"""How a run ended, from its joint record."""

from dataclasses import replace
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from joined_nodes import identity_of, make_agreed, make_contract
from peerclust.graphs import ring
from peerclust.peers.verdict import judge, list_events, make_record
from peerclust.programs.certificate import Found
from peerclust.runtimes.network.agreements import Place
from peerclust.runtimes.network.identity import private_key
from peerclust.runtimes.network.messages import Presence, SignedRecord, View
from peerclust.runtimes.network.record import digest, find_rounds
from peerclust.runtimes.network.rounds import Outcome
from peerclust.runtimes.network.statements import Author
from peerclust.runtimes.network.views import MembershipViews

END = 100


def outcome(residual=1e-7, stopped=True, rounds=END, radius=0.25):
    """Return the end of a run whose agreed residual is this length."""
    state = SimpleNamespace(round=rounds, x=np.zeros((1, 3, 4)))
    found = Found(
        residual=residual, pooled_residual=4e-4, cost=5.0, pooled_cost=70.0,
        radius=np.full(3, radius), radius_stacked=0.4, weights=np.array([30.0, 0.0, 50.0]),
        curvature=np.ones(3), evenness=np.ones(3), mean=np.arange(12.0).reshape(3, 4),
    )  # fmt: skip
    return Outcome(state, 1e-7, stopped, 1.0, found, Place(rounds))


def sign(contract, signers, *, members, presences=None, spread=1.0, **given):
    """Return the record of a run on a ring, signed by some peers."""
    took_part = find_rounds(contract, members, presences or {}, END)
    agreed = make_agreed(range(5), spread=spread)
    record = make_record(contract, agreed, outcome(**given), members, took_part)
    signatures = [
        Author(contract, i, private_key(identity_of(f"p{i}")), 1).sign(
            "record", digest(record), record.run
        )
        for i in signers
    ]
    return SignedRecord(record, signatures)


def judge_ring(signers, *, m=5, members=None, late=False, **given):
    contract = make_contract(ring(m))
    members = list(range(m)) if members is None else members
    signed = sign(contract, signers, members=members, **given)
    return judge(contract, signed, late=late, residual=1e-7)


def test_a_run_converged_if_all_peers_say_so():
    verdict = judge_ring(range(5), spread=2.0)
    assert verdict.status.name == "converged"
    assert verdict.heard == verdict.signed_by == ["p0", "p1", "p2", "p3", "p4"]
    assert verdict.disagreement == 0.25


def test_what_those_present_found_together_is_reported_after_losses_too():
    left = [0, 1, 3, 4]
    verdict = judge_ring(left, members=left, residual=1.8e-6, radius=0.2, spread=2.0)
    assert verdict.status.name == "converged without some peers"
    assert (verdict.cost, verdict.pooled_cost) == (5.0, 70.0)
    assert verdict.pooled_residual == pytest.approx(4e-4 / 2.0)
    assert verdict.largest_residual == pytest.approx(0.9e-6)
    assert verdict.disagreement == pytest.approx(2 * 0.2 / 2.0)
    assert verdict.as_dict()["residual"] == 1e-7


@pytest.mark.parametrize(
    ("residual", "signers", "stopped", "status"),
    [
        (1e-3, 5, True, "ran out of rounds"),
        (1.1e-6, 5, True, "ran out of rounds"),
        (1e-7, 2, True, "stopped"),
        (1e-7, 5, False, "ran out of rounds"),
        (1e-7, 3, True, "converged"),
        (1e-7, 5, True, "converged"),
    ],
)
def test_success_needs_an_agreed_residual_below_tol_and_the_signatures_of_more_than_half(
    residual, signers, stopped, status
):
    verdict = judge_ring(range(signers), residual=residual, stopped=stopped)
    assert verdict.status.name == status
    assert verdict.signed_by == [f"p{i}" for i in range(signers)]


def test_a_peer_that_signs_twice_counts_once():
    verdict = judge_ring([0, 0, 0, 1, 1])
    assert (verdict.status.name, verdict.signed_by) == ("stopped", ["p0", "p1"])


def test_half_of_the_peers_is_no_success():
    verdict = judge_ring(range(4), m=4, members=[0, 1])
    assert verdict.status.name == "partitioned"
    assert verdict.heard == ["p0", "p1"]


@pytest.mark.parametrize(
    ("given", "name", "ended"),
    [
        ({"members": [0, 1, 3, 4]}, "joined late", "converged without some peers"),
        ({"residual": 1e-3}, "joined late, not converged", "ran out of rounds"),
        ({"members": [0, 1]}, "joined late, not converged", "partitioned"),
    ],
)
def test_a_site_that_comes_after_the_end_has_the_verdict_of_those_that_signed(given, name, ended):
    late = judge_ring([0, 1, 3, 4], late=True, **given)
    there = judge_ring([0, 1, 3, 4], **given)
    assert late.status.name == name
    assert f"ended in round {END} as '{ended}' without this peer" in late.status.advice
    assert "4 of 5 peers have signed" in late.status.advice
    assert late.as_dict() | {"status": None} == there.as_dict() | {"status": None}


def test_lost_peers_are_named_with_the_rounds_they_contributed_to():
    presences = {
        0: Presence(1, 0, [(1, 0, 99), (4, 0, 99)]),
        1: Presence(1, 0, [(0, 0, 99), (2, 0, 29)]),
        3: Presence(1, 0, [(2, 0, 30), (4, 0, 99)]),
        4: Presence(1, 0, [(3, 0, 99), (0, 0, 99)]),
    }
    verdict = judge_ring([0, 1, 3, 4], members=[0, 1, 3, 4], presences=presences)
    assert verdict.status.name == "converged without some peers"
    assert "Without p2" in verdict.status.advice
    assert verdict.contributed["p2"] == [[0, 30]]
    assert verdict.contributed["p0"] == [[0, END - 1]]


def test_events_are_those_of_this_site_and_the_losses_that_others_reported_by_round():
    contract = make_contract(ring(5))
    views = MembershipViews(contract.graph, range(5), ())
    for peer, round_, lost in ((3, 31, "p2"), (1, 30, "p2"), (0, 40, "p1")):
        views.update(View(peer, 7, 1, round_, [], f"lost {lost}: silent"))
    events = [(40, "p1 was lost in round 40: silent")]
    here = SimpleNamespace(
        session=SimpleNamespace(contract=contract, number=0, events=events),
        membership=SimpleNamespace(views=views),
    )
    assert list_events(here) == [
        (30, "p1 lost p2: silent"),
        (31, "p3 lost p2: silent"),
        (40, "p1 was lost in round 40: silent"),
    ]


def test_every_number_of_a_record_is_in_its_digest():
    contract = make_contract(ring(5))
    record = sign(contract, [], members=range(5)).record
    seen = {digest(record)}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, bytes):
            other = bytes([value[0] ^ 1]) + value[1:]
        elif isinstance(value, bool):
            other = not value
        elif isinstance(value, float):
            other = np.nextafter(value, 1e9).item()
        elif isinstance(value, int):
            other = value + 1
        elif name == "agreed":
            other = msgspec.structs.replace(value, rho=value.rho + 1)
        else:
            other = value[::-1][:-1]
        changed = digest(msgspec.structs.replace(record, **{name: other}))
        assert changed not in seen, name
        seen.add(changed)


def test_sites_with_other_residuals_of_their_own_make_the_same_record():
    contract = make_contract(ring(5))
    agreed, ends = (
        make_agreed(range(5)),
        [outcome(), replace(outcome(), residual=1e-9, seconds=9.0)],
    )
    records = [make_record(contract, agreed, end, range(5), [[]] * 5) for end in ends]
    assert digest(records[0]) == digest(records[1])
