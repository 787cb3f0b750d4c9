"""Peers that end on request and resume from their checkpoints: real processes."""

import signal

import pytest

from peer_runs import check_ended, make_cluster, start_paced

pytestmark = pytest.mark.peers


def test_a_peer_asked_to_end_says_goodbye_and_resumes_from_its_checkpoint(tmp_path):
    # No peer waits for a timeout: the goodbye is enough.
    with make_cluster(tmp_path, rho=400.0, timeout=30.0) as peers:
        start_paced(peers)
        peers.wait_for_round("p3", 200)
        peers.signal("p3", signal.SIGTERM)
        assert peers.wait("p3", seconds=10)["p3"] == 3
        assert "p3 left the run in round" in peers.error("p3")
        assert (peers.out("p3") / "checkpoint").exists()
        at = peers.wait_for_round("p2", 400)
        peers.start("p3")
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "p3 was lost" in peers.log("p2")
        assert "it was asked to end" in peers.log("p2")
        assert "the checkpoint of round" in peers.log("p3")
        assert peers.certificate("p0")["rounds"] > at
        assert not (peers.out("p3") / "checkpoint").exists()


def run_and_end_all(peers, round_):
    """Start all peers and ask them to end in a round, each with a checkpoint."""
    start_paced(peers)
    peers.wait_for_round("p3", round_)
    for name in peers.names:
        peers.signal(name, signal.SIGTERM)
    assert set(peers.wait(seconds=20).values()) == {3}


def test_peers_that_all_ended_resume_together_from_their_checkpoints(tmp_path):
    with make_cluster(tmp_path, rho=300.0) as peers:
        run_and_end_all(peers, 300)
        peers.start()
        assert set(peers.wait().values()) == {0}
        assert "All peers resume from their checkpoints, at round" in peers.log("p0")
        replayed = peers.replay()
        assert all(replayed[name]["same"] for name in peers.names)


def test_a_checkpoint_of_other_rows_is_refused(tmp_path):
    with make_cluster(tmp_path, rho=300.0) as peers:
        run_and_end_all(peers, 200)
        lines = peers.data("p3").read_text().splitlines(keepends=True)
        peers.data("p3").write_text("".join(lines[:-2]))
        peers.start("p2", "p3")
        assert peers.wait("p3", seconds=30)["p3"] == 2
        assert "must belong to the given rows" in peers.error("p3")


def test_admm_stops_for_all_when_a_peer_is_lost(tmp_path):
    given = {"solver": "admm", "rho": "auto", "on_loss": "stop", "tol": 0.0}
    with make_cluster(tmp_path, **given) as peers:
        peers.start()
        peers.wait_for_round("p1", 100)
        peers.kill("p1")
        others = ["p0", "p2", "p3", "p4"]
        assert set(peers.wait(*others, seconds=30).values()) == {2}
        for name in others:
            assert "p1 was lost" in peers.error(name)
