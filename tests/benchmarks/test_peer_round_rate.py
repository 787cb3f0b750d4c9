import socket
from contextlib import suppress

import numpy as np
import pytest

import benchmarks
from benchmarks.peers import round_rate, unauthorized_clients
from peerclust import graphs
from peerclust.testing.local_cluster import LocalCluster


@pytest.mark.peers
def test_peers_are_compared_with_a_bare_loop_and_with_unauthorized_clients(monkeypatch):
    # Large messages run the same code, and their rows take long to make.
    monkeypatch.setattr(round_rate, "_PAYLOADS", round_rate._PAYLOADS[:1])
    lines = []
    report = benchmarks.run("peers", lines.append, rounds=40, repeats=1)
    assert [measure.name for measure in report.measures] == ["rounds_96B", "with_strangers"]
    assert all(measure.value > 0 for measure in report.measures)
    assert [measure.target for measure in report.measures] == [0.4, 0.9]
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("K", "d", "name"), [each[1:3] + each[:1] for each in round_rate._PAYLOADS]
)
def test_payloads_are_named_by_their_size(K, d, name):
    # Rounded to thousands: 62,720 bytes are 63 KB.
    size = 8 * K * d
    assert name == (f"{size}B" if size < 1000 else f"{round(size / 1000)}KB")


def test_each_kind_of_unauthorized_client_sends_something(tmp_path, monkeypatch):
    monkeypatch.setattr(unauthorized_clients, "_TIMEOUT", 0.2)
    parts = [np.zeros((2, 1))] * 3
    with LocalCluster(tmp_path, parts, graphs.ring(3), n_clusters=1, rho=1.0) as cluster:
        kinds = unauthorized_clients.make_kinds(cluster.contract, "p0", tmp_path)
    assert len(kinds) == 8
    for kind in kinds.values():
        here, there = socket.socketpair()
        with here, there:
            here.settimeout(0.2)
            with suppress(OSError):  # there is no answer
                kind(here)
            assert there.recv(10)
