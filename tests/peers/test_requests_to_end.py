"""SIGTERM and Ctrl-C end a peer within 2 s, whatever it is doing: real processes."""

import random
import signal
import subprocess
import sys
import time

import pytest

import busy_peers
import peerclust as pc
from peer_runs import make_cluster

pytestmark = pytest.mark.peers

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# A peer ends within 2 s; this machine may have other work.
SECONDS = 4.0


def wait_until(ready, seconds=60.0):
    limit = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda each: each.name)
@pytest.mark.parametrize(
    "busy",
    [
        busy_peers.reading,
        busy_peers.computing_in_the_main_thread,
        busy_peers.agreeing,
        busy_peers.computing_a_start,
        busy_peers.computing_a_step,
        busy_peers.writing,
    ],
    ids=lambda each: each.__name__,
)
def test_a_busy_peer_ends_on_request(tmp_path, busy, number):
    with make_cluster(tmp_path, 2, pc.graphs.path(2), timeout=10.0) as peers:
        peers.start("p1")
        peers.start("p0", run=busy)
        wait_until((tmp_path / "busy").exists)
        peers.signal("p0", number)
        assert peers.wait("p0", seconds=SECONDS) == {"p0": 3}
        *_, last = peers.error("p0").splitlines()
        assert last.startswith("p0 ")
        assert last.endswith("(docs/exit-codes.md#asked-to-end)")
        if busy is busy_peers.writing:
            # The result is in the checkpoint: it is written without the other peer.
            peers.wait("p1")
            peers.start("p0")
            assert peers.wait("p0") == {"p0": 0}
            assert peers.certificate("p0")["rounds"] == peers.certificate("p1")["rounds"]


def test_a_peer_that_leaves_while_a_thread_computes_says_goodbye(tmp_path):
    with make_cluster(tmp_path, 2, pc.graphs.path(2), timeout=30.0, on_loss="stop") as peers:
        peers.start("p1")
        peers.start("p0", run=busy_peers.computing_a_step)
        wait_until((tmp_path / "busy").exists)
        peers.signal("p0", signal.SIGTERM)
        # No timeout: p1 hears it.
        assert peers.wait("p1", seconds=15) == {"p1": 2}
        assert "it was asked to end" in peers.error("p1")
        assert (peers.out("p0") / "checkpoint").exists()
        assert "broke" not in (peers.out("p0") / "log.txt").read_text()


def start_command(peers, name):
    """Start `peerclust peer run` as a shell does, with all its imports."""
    command = [sys.executable, "-m", "peerclust", "peer", "run", "--network", peers.network.name]
    command += ["--me", name, "--data", peers.data(name).name, "--out", peers.out(name).name]
    return subprocess.Popen(
        command, cwd=peers.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_peer_that_starts_and_waits_for_others_ends_on_request_at_any_moment(tmp_path):
    rng = random.Random(0)
    with make_cluster(tmp_path, 2, pc.graphs.path(2)) as peers:
        for number in SIGNALS * 4:
            process = start_command(peers, "p0")
            time.sleep(rng.uniform(0.3, 3.0))
            process.send_signal(number)
            begun = time.monotonic()
            _, said = process.communicate(timeout=20)
            assert time.monotonic() - begun < SECONDS
            # Before the first line of its code, Python ends as any process does.
            assert process.returncode in (3, 130, -number), said
            if process.returncode == 3:
                assert said.splitlines()[-1].endswith("(docs/exit-codes.md#asked-to-end)")
                assert "Traceback" not in said


@pytest.mark.parametrize("number", SIGNALS, ids=lambda each: each.name)
def test_a_peer_that_lingers_ends_on_request_with_its_result(tmp_path, number):
    given = {"rho": 2.0, "join_timeout": 2.0, "linger": 60.0}
    with make_cluster(tmp_path, 3, pc.graphs.path(3), **given) as peers:
        peers.start("p0", "p1")
        peers.wait_for_end("p0")
        time.sleep(0.5)
        peers.signal("p0", number)
        assert peers.wait("p0", seconds=SECONDS) == {"p0": 0}, peers.error("p0")


def test_a_peer_asked_to_end_once_it_has_signed_hears_the_others_signatures(tmp_path):
    with make_cluster(tmp_path, 3, pc.graphs.ring(3), rho=2.0) as peers:
        peers.start("p0", "p1", run=busy_peers.signing_late)
        peers.start("p2", run=busy_peers.asked_to_end_once_it_has_signed)
        assert peers.wait() == {"p0": 0, "p1": 0, "p2": 0}, peers.log("p2")
        assert peers.certificate("p2")["signed_by"] == ["p0", "p1", "p2"]
        assert "p2 was asked to end" in peers.log("p2")
