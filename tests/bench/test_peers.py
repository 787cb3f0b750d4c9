import socket
from contextlib import suppress

import numpy as np
import pytest

from peerclust import bench, graphs
from peerclust.bench import peers, strangers
from peerclust.testing.local_cluster import LocalCluster


def test_peers_are_measured_beside_a_bare_loop_and_with_strangers(monkeypatch):
    # Large messages are the same code, and slow to make rows for.
    monkeypatch.setattr(peers, "_PAYLOADS", peers._PAYLOADS[:1])
    said = []
    report = bench.run("peers", said.append, rounds=40, repeats=1)
    assert [measure.name for measure in report.measures] == ["rounds_96B", "with_strangers"]
    assert all(measure.value > 0 for measure in report.measures)
    assert [measure.target for measure in report.measures] == [0.5, 0.9]
    assert len(said) == 2


@pytest.mark.parametrize(("K", "d", "name"), [each[1:3] + each[:1] for each in peers._PAYLOADS])
def test_payloads_are_called_by_their_size(K, d, name):
    # Two numerals and thousands: 62,720 bytes are 63 KB.
    size = 8 * K * d
    assert name == (f"{size}B" if size < 1000 else f"{round(size / 1000)}KB")


def test_each_kind_of_stranger_says_something(tmp_path):
    parts = [np.zeros((2, 1))] * 3
    with LocalCluster(tmp_path, parts, graphs.ring(3), n_clusters=1, rho=1.0) as fleet:
        kinds = strangers.make_kinds(fleet.contract, "p0", tmp_path)
    assert len(kinds) == 8
    for kind in kinds.values():
        here, there = socket.socketpair()
        with here, there:
            here.settimeout(0.2)
            with suppress(OSError):  # nobody answers
                kind(here)
            assert there.recv(10)
