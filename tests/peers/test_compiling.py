"""Peers that compile their kernels: real processes, with an empty cache."""

import signal
import time

import numpy as np
import pytest

import busy_peers
from peer_runs import check_ended, make_cluster

pytestmark = pytest.mark.peers


def start(directory, **settings):
    """Start two peers with compiled kernels, and p1, which has none."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(1200, 2)) + 8 * (np.arange(1200) % 3)[:, None] for _ in range(3)]
    peers = make_cluster(directory, 3, parts=parts, **settings)
    peers.start("p0", "p2")
    peers.start("p1", run=busy_peers.compiling)
    return peers


def wait_for_kernels(directory, n):
    """Wait until n kernels are compiled."""
    limit = time.monotonic() + 100
    while len(list((directory / "cache").rglob("*.types"))) < n:
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize(("solver", "on_loss"), [("accelerated", "continue"), ("exact", "stop")])
def test_a_peer_answers_while_it_compiles(tmp_path, solver, on_loss):
    given = {"solver": solver, "on_loss": on_loss, "rho": "auto", "search": "swaps"}
    with start(tmp_path, timeout=1.0, **given) as peers:
        assert set(peers.wait().values()) == {0}, peers.error("p1")
        for name in peers.names:
            assert peers.certificate(name)["events"] == []
        wait_for_kernels(tmp_path, 4)


# After one kernel the peers still agree; after a round, p1 compiles what boxes need.
@pytest.mark.parametrize("runs", [False, True])
def test_a_peer_asked_to_end_while_it_compiles_ends_within_two_seconds(tmp_path, runs):
    with start(tmp_path, timeout=30.0) as peers:
        wait_for_kernels(tmp_path, 1)
        if runs:
            peers.wait_for_round("p1", 1)
        for name in peers.names:
            peers.signal(name, signal.SIGTERM)
        assert set(peers.wait(seconds=2).values()) == {3}
        assert "p1 left " in peers.error("p1")
        assert "Traceback" not in peers.error("p1")
        assert (peers.out("p1") / "checkpoint").exists() == runs
        peers.start()
        assert set(peers.wait().values()) == {0}, peers.error("p1")
        check_ended(peers, peers.names)
