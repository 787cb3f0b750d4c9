"""Runs of real processes in which peers are killed or stopped."""

import signal
import time

import pytest

import peerclust as pc
from peer_runs import check_ended, make_cluster, start_paced
from peerclust.runtimes.network import checkpoint, messages
from peerclust.runtimes.network.checkpoint import Checkpoint
from peerclust.runtimes.network.journal import read_journal

pytestmark = pytest.mark.peers


def test_a_killed_peer_rejoins_from_its_checkpoint(tmp_path):
    with make_cluster(tmp_path) as peers:
        peers.start()
        peers.wait_for_round("p3", 200)
        peers.kill("p3")
        peers.start("p3")
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "the checkpoint of round" in peers.log("p3")
        assert "p3 was lost" in peers.log("p2")
        assert "majority" not in peers.log("p3")
        assert len(peers.certificate("p0")["contributed"]["p3"]) >= 2


@pytest.mark.parametrize(
    ("tol", "rounds", "status"),
    [(1e-9, 30_000, "converged"), (1e-15, 2_000, "ran out of rounds")],
    ids=["until it has converged", "until the last round"],
)
def test_a_peer_that_returns_in_a_search_ends_with_the_others(tmp_path, tol, rounds, status):
    with make_cluster(tmp_path, search="auto", tol=tol, rounds=rounds) as peers:
        peers.start()
        # The first run has ended by then.
        peers.wait_for_round("p3", 800)
        peers.kill("p3")
        peers.start("p3")
        peers.wait()
        ends = {name: peers.certificate(name) for name in peers.names}
        assert {end["status"]["name"] for end in ends.values()} == {status}, peers.log("p3")
        fields = ("rounds", "search_rounds", "moves", "moves_kept", "contributed", "signed_by")
        assert all(ends[name][each] == ends["p0"][each] for name in ends for each in fields)
        assert ends["p0"]["signed_by"] == peers.names
        assert ends["p0"]["search_rounds"] > 0
        assert len(ends["p0"]["contributed"]["p3"]) == 2
        assert all(each["same"] for each in peers.replay().values())
        # Others may have heard the killed process in the round that the new one learned of.
        journal = read_journal(peers.out("p3") / "journal.jsonl")
        (again,) = [i for i, e in enumerate(journal) if e["event"] == "agreed"][1:]
        assert [e["event"] for e in journal[again : again + 3]] == ["agreed", "start", "heard"]


@pytest.mark.parametrize("damage", ["truncated", "short centers", "another round"])
def test_a_peer_refuses_a_damaged_checkpoint_and_rejoins_once_it_is_moved_away(tmp_path, damage):
    with make_cluster(tmp_path) as peers:
        start_paced(peers)
        peers.wait_for_round("p1", 200)
        peers.kill("p1")
        path = peers.out("p1") / "checkpoint"
        saved = path.read_bytes()
        if damage == "truncated":
            path.write_bytes(saved[:-1])
        else:
            # The checksum is right.
            held = messages.unpack(saved[32:], Checkpoint)
            fields = {name: getattr(held, name) for name in held.__struct_fields__}
            wrong = {"centers": held.centers[:-8]}
            if damage == "another round":
                wrong = {"round": 1 << 40}
            checkpoint.save(path, Checkpoint(**fields | wrong))
        peers.start("p1")
        assert peers.wait("p1", seconds=30) == {"p1": 2}
        *_, last = peers.error("p1").splitlines()
        assert "The checkpoint out-p1/checkpoint must " in last
        assert "Move it away; the same command then starts without it." in last
        assert "Traceback" not in peers.error("p1")
        path.rename(tmp_path / "away")
        peers.start("p1")
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "the centers of a neighbor" in peers.log("p1")


def test_a_peer_that_never_returns_is_named_and_the_others_continue(tmp_path):
    with make_cluster(tmp_path) as peers:
        peers.start()
        peers.wait_for_round("p2", 200)
        peers.kill("p2")
        codes = peers.wait("p0", "p1", "p3", "p4")
        assert set(codes.values()) == {0}
        check_ended(peers, ["p0", "p1", "p3", "p4"], lost=["p2"])


def test_a_suspended_peer_is_lost_and_taken_up_again(tmp_path):
    # The run lasts until it wakes up, which is after all timeouts.
    with make_cluster(tmp_path, rho=500.0, join_timeout=10.0) as peers:
        start_paced(peers)
        peers.wait_for_round("p2", 200)
        peers.signal("p2", signal.SIGSTOP)
        time.sleep(12)
        peers.signal("p2", signal.SIGCONT)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "p2 was lost" in peers.log("p1")
        assert "p2 and p1 exchange from round" in peers.log("p1")


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
