"""Runs of real processes of which some misbehave; see `misbehaving_peers`."""

import numpy as np
import pytest

import misbehaving_peers as wrong
import peerclust as pc
from peer_runs import check_ended, check_replay, iris, make_cluster
from peerclust.peers import configuration
from peerclust.runtimes.network.messages import Agreed

pytestmark = pytest.mark.peers

# Five honest peers on a ring, and four others that each have two of them as neighbors.
HONEST = ["p0", "p1", "p2", "p3", "p4"]
GUESTS = ["p5", "p6", "p7", "p8"]
SURROUNDED = pc.graphs.from_edges(
    [
        *((i, (i + 1) % 5) for i in range(5)),
        *((5 + k, (k + j) % 5) for k in range(4) for j in (0, 2)),
    ]
)


@pytest.mark.parametrize(
    "reasons",
    [
        {
            wrong.truncates: "must be as long as its header says",
            wrong.flips_a_bit: "must have the checksum of its bytes",
            wrong.says_it_is_done: "it has ended",
            wrong.hurries: "must not be ahead",
        },
        {
            wrong.says_nan: "centers that are not finite",
            wrong.says_infinite: "centers that are not finite",
            wrong.says_far_off: "outside the box",
            wrong.says_another_shape: "an array of shape (2, 4)",
        },
    ],
    ids=["frames", "centers"],
)
def test_peers_that_send_what_they_must_not_are_dropped_and_named(tmp_path, reasons):
    with make_cluster(tmp_path, 9, SURROUNDED, rho=75.0, join_timeout=4.0) as peers:
        peers.start(*HONEST)
        for name, run in zip(GUESTS, reasons, strict=True):
            peers.start(name, run=run)
        codes = peers.wait()
        assert {name: codes[name] for name in HONEST} == dict.fromkeys(HONEST, 0)
        assert {name: codes[name] for name in GUESTS} == dict.fromkeys(GUESTS, 2)
        check_ended(peers, HONEST, lost=GUESTS)
        for name in HONEST:
            events = [event["what"] for event in peers.certificate(name)["events"]]
            for guest, reason in zip(GUESTS, reasons.values(), strict=True):
                assert any(guest in what and reason in what for what in events), reason


def test_duplicate_late_or_reordered_frames_a_full_disk_and_a_jumping_clock_change_nothing(
    tmp_path,
):
    with make_cluster(tmp_path, rho=100.0) as peers:
        for name, run in zip(
            peers.names,
            (
                wrong.has_a_clock_that_jumps,
                wrong.duplicates,
                wrong.late,
                wrong.reorders,
                wrong.has_a_full_disk,
            ),
            strict=True,
        ):
            peers.start(name, run=run)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert all(not peers.certificate(name)["events"] for name in peers.names)
        assert "A checkpoint could not be written" in peers.log("p4")
        assert "No space left" in peers.log("p4")


@pytest.mark.parametrize(
    ("run", "members"),
    [
        (wrong.dies_in_a_maximum, [0, 1, 2, 4]),
        (wrong.dies_in_a_sum, [0, 1, 2, 4]),
        (wrong.dies_at_the_barrier, [0, 1, 2, 3, 4]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_agreement_that_loses_a_peer_starts_again_unless_all_is_agreed(tmp_path, run, members):
    with make_cluster(tmp_path) as peers:
        left = ["p0", "p1", "p2", "p4"]
        peers.start(*left)
        peers.start("p3", run=run)
        assert set(peers.wait(*left).values()) == {0}
        for name in left:
            record = peers.certificate(name)
            assert record["status"]["name"] == "converged without some peers"
            assert record["agreed"] == peers.certificate("p0")["agreed"]
            assert record["agreed"]["members"] == members
        if members == [0, 1, 2, 4]:
            check_replay(peers, left)


@pytest.mark.parametrize(
    "run",
    [
        wrong.dies_in_a_maximum,
        wrong.dies_in_a_sum,
        wrong.dies_at_the_barrier,
        wrong.dies_in_the_last_exchange_of_the_barrier,
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_peer_that_dies_in_the_set_up_and_comes_back_at_once_takes_part(tmp_path, run):
    with make_cluster(tmp_path, timeout=6.0, rho=100.0) as peers:
        others = ["p0", "p1", "p2", "p4"]
        peers.start(*others)
        peers.start("p3", run=run)
        assert peers.wait("p3", seconds=60) == {"p3": 9}
        peers.start("p3")
        assert set(peers.wait().values()) == {0}
        records = [peers.certificate(name) for name in peers.names]
        for record in records:
            assert record["status"]["name"] == "converged"
            assert record["record"] == records[0]["record"]
            assert record["signed_by"] == record["heard"] == list(peers.names)
            assert record["contributed"] == records[0]["contributed"]


def test_a_peer_killed_during_the_certificate_leaves_one_of_those_present(tmp_path):
    with make_cluster(tmp_path, rho=30.0) as peers:
        left = ["p0", "p1", "p2", "p4"]
        peers.start(*left)
        peers.start("p3", run=wrong.dies_in_the_certificate)
        assert set(peers.wait(*left).values()) == {0}
        check_ended(peers, left, lost=["p3"])
        records = [peers.certificate(name) for name in left]
        assert len({record["pooled_cost"] for record in records}) == 1
        scale = configuration.make_scale(peers.contract, Agreed(**records[0]["agreed"]))
        mean = scale.forward(np.mean([peers.centers(name) for name in left], axis=0))
        numbers = [peers.contract.number(name) for name in left]
        rows = scale.forward(np.concatenate([iris(5)[i] for i in numbers]))
        square = ((rows[:, None] - mean) ** 2).sum(axis=2)
        assert np.isclose(records[0]["pooled_cost"], 0.5 * square.min(axis=1).sum(), rtol=1e-9)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (wrong.agrees_wildly, "NaN, or a magnitude above 1e+100"),
        (wrong.sends_integers_where_none_are_due, "an array of shape"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_numbers_that_no_sum_can_have_are_refused_and_their_sender_named(tmp_path, run, reason):
    with make_cluster(tmp_path) as peers:
        left = ["p0", "p1", "p3", "p4"]
        peers.start(*left)
        peers.start("p2", run=run)
        assert set(peers.wait(*left).values()) == {0}
        for name in left:
            assert peers.certificate(name)["agreed"]["members"] == [0, 1, 3, 4]
        log = peers.log("p1") + peers.log("p3")
        assert f"p2 does not take part: it sent {reason}" in log


def test_a_listed_peer_cannot_take_another_s_name(tmp_path):
    with make_cluster(tmp_path, join_timeout=3.0) as peers:
        left = ["p0", "p1", "p3", "p4"]
        peers.start(*left)
        peers.start("p2", run=wrong.calls_itself_p0)
        codes = peers.wait()
        assert [codes[name] for name in left] == [0, 0, 0, 0]
        assert codes["p2"] == 2
        reason = "it calls itself 'p0', but its certificate is that of p2"
        assert f"p2 was not accepted: {reason}." in peers.log("p1")


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (wrong.weighs_too_much, "a total weight of 549755813888, which must be 0 to 40"),
        (wrong.is_too_stiff, "a curvature of 549755813888, which must be 0 to 30"),
        (wrong.is_too_stiff_in_the_end, "a curvature of 549755813888, which must be 0 to 30"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_peer_that_claims_too_much_cannot_make_others_say_that_they_converged(
    tmp_path, run, reason
):
    ranges = {f"x{j}": (0.0, 10.0) for j in range(4)}
    with make_cluster(tmp_path, rho="auto", ranges=ranges, max_weight=40) as peers:
        left = ["p0", "p1", "p3", "p4"]
        peers.start(*left)
        peers.start("p2", run=run)
        assert set(peers.wait(*left).values()) == {0}
        for name in left:
            record = peers.certificate(name)
            assert record["status"]["name"] == "converged without some peers"
            assert "p2" in record["status"]["advice"]
            assert record["agreed"]["W"] == 30
        assert any(f"it sent {reason}" in peers.log(name) for name in ("p1", "p3"))
        check_replay(peers, left)
        records = [peers.certificate(name) for name in left]
        scale = configuration.make_scale(peers.contract, Agreed(**records[0]["agreed"]))
        mean = scale.forward(np.mean([peers.centers(name) for name in left], axis=0))
        rows = scale.forward(np.concatenate([iris(5)[peers.contract.number(n)] for n in left]))
        square = ((rows[:, None] - mean) ** 2).sum(axis=2)
        assert np.isclose(records[0]["pooled_cost"], 0.5 * square.min(axis=1).sum(), rtol=1e-9)
        # A step of Lloyd on all rows but those of p2 moves the mean centers little.
        moved = np.stack([rows[square.argmin(axis=1) == k].mean(axis=0) for k in range(3)])
        assert np.abs(moved - mean).max() < 0.1


def test_with_exact_a_peer_that_claims_too_much_stops_the_run_and_is_named(tmp_path):
    given = {"rho": "auto", "solver": "exact", "on_loss": "stop", "on_absent": "stop"}
    with make_cluster(tmp_path, **given, max_weight=40) as peers:
        left = ["p0", "p1", "p3", "p4"]
        peers.start(*left)
        peers.start("p2", run=wrong.is_too_steep_in_a_sum)
        assert set(peers.wait(*left).values()) == {2}
        reason = "it sent a count of overflows of 1"
        assert any(
            "p2 was lost in round" in peers.error(n) and reason in peers.error(n) for n in left
        )


def test_rows_outside_of_the_ranges_stop_their_site_before_it_sends_anything(tmp_path):
    ranges = {f"x{j}": (0.0, 6.0) for j in range(4)}
    with make_cluster(tmp_path, 2, pc.graphs.path(2), ranges=ranges) as peers:
        peers.start("p0")
        assert peers.wait("p0") == {"p0": 2}
        assert "Column 'x0' of p0.csv must lie in its range of the network file, 0 to 6." in (
            peers.error("p0")
        )
