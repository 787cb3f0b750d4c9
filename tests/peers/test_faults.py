"""Runs of real processes in which peers are lost, stopped, cut off, or wrong."""

import signal
import time

import pytest

import misbehaving_peers as rogues
import peerclust as pc
from peer_runs import check_ended, check_replay, make_cluster, wait_for_log

pytestmark = pytest.mark.peers


def test_a_killed_peer_comes_back_with_its_checkpoint(tmp_path):
    with make_cluster(tmp_path) as peers:
        peers.start()
        peers.wait_for_round("p3", 200)
        peers.kill("p3")
        peers.start("p3")
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "the checkpoint of round" in peers.log("p3")
        assert "p3 was lost" in peers.log("p2")
        assert len(peers.certificate("p0")["contributed"]["p3"]) >= 2


def test_a_peer_with_a_torn_checkpoint_comes_back_with_a_neighbor_s_centers(tmp_path):
    with make_cluster(tmp_path) as peers:
        peers.start()
        peers.wait_for_round("p1", 200)
        peers.kill("p1")
        held = peers.out("p1") / "checkpoint"
        held.write_bytes(held.read_bytes()[:-1])
        peers.start("p1")
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "is not whole" in peers.log("p1")
        assert "the centers of a neighbor" in peers.log("p1")


def test_a_peer_killed_for_good_is_named_and_the_others_go_on(tmp_path):
    with make_cluster(tmp_path) as peers:
        peers.start()
        peers.wait_for_round("p2", 200)
        peers.kill("p2")
        codes = peers.wait("p0", "p1", "p3", "p4")
        assert set(codes.values()) == {0}
        check_ended(peers, ["p0", "p1", "p3", "p4"], lost=["p2"])


def test_a_peer_that_stands_still_for_30_seconds_is_lost_and_taken_up_again(tmp_path):
    # A slow peer makes the run last until it wakes up.
    with make_cluster(tmp_path, rho=1500.0) as peers:
        peers.start("p0", run=rogues.late)
        peers.start("p1", "p2", "p3", "p4")
        peers.wait_for_round("p2", 200)
        peers.signal("p2", signal.SIGSTOP)
        time.sleep(30)
        peers.signal("p2", signal.SIGCONT)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "p2 was lost" in peers.log("p1")
        assert "p2 is taken up" in peers.log("p1")


def test_a_cut_link_is_counted_out_on_both_sides_and_up_again(tmp_path):
    with make_cluster(tmp_path, graph=pc.graphs.complete(5), proxied=True) as peers:
        peers.start()
        peers.wait_for_round("p0", 200)
        peers.wire("p0", "p1").cut()
        for one, other in (("p0", "p1"), ("p1", "p0")):
            wait_for_log(peers, one, f"{other} was lost")
        peers.wire("p0", "p1").mend()
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        for one, other in (("p0", "p1"), ("p1", "p0")):
            assert f"{other} was lost" in peers.log(one)
            assert f"{other} is taken up" in peers.log(one)


def test_a_connection_that_breaks_for_a_moment_changes_nothing(tmp_path):
    with make_cluster(tmp_path, proxied=True, timeout=5.0) as peers:
        peers.start()
        for round_ in (100, 200, 300):
            peers.wait_for_round("p0", round_)
            peers.wire("p0", "p1").cut()
            peers.wire("p0", "p1").mend()
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "The connection with p1 broke" in peers.log("p0")
        assert all(not peers.certificate(name)["events"] for name in peers.names)


@pytest.mark.parametrize("forth", [True, False])
def test_a_link_that_carries_one_direction_only_is_counted_out(tmp_path, forth):
    with make_cluster(tmp_path, proxied=True) as peers:
        peers.start()
        peers.wait_for_round("p0", 200)
        peers.wire("p1", "p2").hold(forth=forth)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names, cut=[(1, 2)])
        assert "p2 was lost" in peers.log("p1")
        assert "p1 was lost" in peers.log("p2")


def test_bytes_changed_on_the_wire_break_the_connection_and_nothing_else(tmp_path):
    with make_cluster(tmp_path, proxied=True, timeout=4.0) as peers:
        peers.start()
        peers.wait_for_round("p0", 200)
        spoiled = []

        def flip(data, forth):
            spoiled.append(len(data))
            return data if len(spoiled) > 1 else data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]

        peers.wire("p0", "p1").spoil(flip)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "broke" in peers.log("p0") + peers.log("p1")


def test_delayed_frames_make_a_run_slow_and_nothing_else(tmp_path):
    with make_cluster(tmp_path, proxied=True, rho=30.0) as peers:
        for wire in ("p0", "p1"), ("p2", "p3"):
            peers.wire(*wire).delay(0.005)
        peers.start()
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert all(not peers.certificate(name)["events"] for name in peers.names)


@pytest.mark.parametrize(
    "rogue", [rogues.duplicates, rogues.late, rogues.reorders], ids=lambda rogue: rogue.__name__
)
def test_frames_that_come_twice_late_or_out_of_order_change_nothing(tmp_path, rogue):
    with make_cluster(tmp_path, rho=100.0) as peers:
        peers.start("p0", "p1", "p3", "p4")
        peers.start("p2", run=rogue)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert all(not peers.certificate(name)["events"] for name in peers.names)


@pytest.mark.parametrize(
    ("rogue", "reason"),
    [
        (rogues.truncates, "must be as long as its header says"),
        (rogues.flips_a_bit, "must have the checksum of its bytes"),
        (rogues.says_it_is_done, "it has ended"),
        (rogues.hurries, "must not be ahead"),
        (rogues.says_nan, "centers that are not finite"),
        (rogues.says_infinite, "centers that are not finite"),
        (rogues.says_far_off, "outside the box"),
        (rogues.says_another_shape, "an array of shape (2, 4)"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_peer_that_sends_what_it_must_not_is_dropped_and_named(tmp_path, rogue, reason):
    with make_cluster(tmp_path, join_timeout=4.0) as peers:
        others = ["p0", "p1", "p3", "p4"]
        peers.start(*others)
        peers.start("p2", run=rogue)
        codes = peers.wait()
        assert [codes[name] for name in others] == [0, 0, 0, 0]
        assert codes["p2"] == 2
        check_ended(peers, others, lost=["p2"])
        for name in others:
            events = [event["what"] for event in peers.certificate(name)["events"]]
            assert any("p2" in what and reason in what for what in events)


def test_a_full_disk_at_a_checkpoint_is_told_and_the_run_goes_on(tmp_path):
    with make_cluster(tmp_path) as peers:
        peers.start("p0", "p1", "p2", "p3")
        peers.start("p4", run=rogues.has_a_full_disk)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "A checkpoint could not be written" in peers.log("p4")
        assert "No space left" in peers.log("p4")


def test_a_clock_that_jumps_changes_nothing(tmp_path):
    with make_cluster(tmp_path) as peers:
        peers.start("p0", "p1", "p2", "p3")
        peers.start("p4", run=rogues.has_a_clock_that_jumps)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert all(not peers.certificate(name)["events"] for name in peers.names)


def test_three_of_ten_peers_may_be_lost_if_the_graph_stays_connected(tmp_path):
    graph = pc.graphs.erdos_renyi(10, 0.5, random_state=3)
    with make_cluster(tmp_path, 10, graph, rho=100.0) as peers:
        peers.start()
        for name, round_ in (("p1", 50), ("p4", 100), ("p8", 150)):
            peers.wait_for_round("p0", round_)
            peers.kill(name)
        left = [name for name in peers.names if name not in ("p1", "p4", "p8")]
        assert set(peers.wait(*left).values()) == {0}
        check_ended(peers, left, lost=["p1", "p4", "p8"])


def test_parts_that_fell_apart_claim_no_success(tmp_path):
    with make_cluster(tmp_path, 6, proxied=True) as peers:
        peers.start()
        peers.wait_for_round("p0", 200)
        peers.wire("p0", "p5").cut()
        peers.wire("p2", "p3").cut()
        assert set(peers.wait().values()) == {1}
        for part in (["p0", "p1", "p2"], ["p3", "p4", "p5"]):
            for name in part:
                told = peers.certificate(name)
                assert told["status"]["name"] == "fell apart"
                assert told["heard"] == part
                assert "fell apart" in (peers.folder / f"{name}.out").read_text()
        check_replay(peers, ["p0", "p1", "p2"])


@pytest.mark.parametrize(
    ("rogue", "members"),
    [
        (rogues.dies_in_a_maximum, [0, 1, 2, 4]),
        (rogues.dies_in_an_average, [0, 1, 2, 4]),
        (rogues.dies_at_the_barrier, [0, 1, 2, 3, 4]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_agreement_that_loses_a_peer_starts_again_unless_all_is_agreed(tmp_path, rogue, members):
    with make_cluster(tmp_path) as peers:
        left = ["p0", "p1", "p2", "p4"]
        peers.start(*left)
        peers.start("p3", run=rogue)
        assert set(peers.wait(*left).values()) == {0}
        for name in left:
            told = peers.certificate(name)
            assert told["status"]["name"] == "converged without some"
            assert told["agreed"] == peers.certificate("p0")["agreed"]
            assert told["agreed"]["members"] == members
        if members == [0, 1, 2, 4]:
            check_replay(peers, left)


def test_numbers_that_no_average_can_have_are_refused_and_their_sender_named(tmp_path):
    with make_cluster(tmp_path) as peers:
        left = ["p0", "p1", "p3", "p4"]
        peers.start(*left)
        peers.start("p2", run=rogues.averages_wildly)
        assert set(peers.wait(*left).values()) == {0}
        for name in left:
            assert peers.certificate(name)["agreed"]["members"] == [0, 1, 3, 4]
        log = peers.log("p1") + peers.log("p3")
        assert "p2 does not take part: it sent numbers larger than they can be" in log


def test_a_listed_peer_cannot_take_another_s_name(tmp_path):
    with make_cluster(tmp_path, join_timeout=3.0) as peers:
        left = ["p0", "p1", "p3", "p4"]
        peers.start(*left)
        peers.start("p2", run=rogues.calls_itself_p0)
        codes = peers.wait()
        assert [codes[name] for name in left] == [0, 0, 0, 0]
        assert codes["p2"] == 2
        said = "it calls itself 'p0', and its certificate is that of p2"
        assert f"p2 was not taken up: {said}." in peers.log("p1")
