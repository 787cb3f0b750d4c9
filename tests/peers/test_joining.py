"""How real processes join: in time, late, after the end, twice, unauthorized, or never."""

import json
import signal
import socket
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.peers.unauthorized_clients import make_kinds
from peer_runs import check_ended, make_cluster, start_paced
from peerclust.runtimes.network import contract_file

pytestmark = pytest.mark.peers


def test_a_second_process_of_a_peer_is_refused(tmp_path):
    with make_cluster(tmp_path, rho=400.0, join_timeout=3.0) as peers:
        start_paced(peers)
        peers.wait_for_round("p2", 50)
        first = peers.processes["p2"]
        # By the lock in the same directory, by the port in another, by neighbors on another port.
        for options, reason in (
            ((), "is already running in out-p2"),
            (("--out", "again"), "Address already in use. Is this peer running already?"),
            (("--out", "again", "--listen", "127.0.0.1:19999"), "another process of p2 is running"),
        ):
            peers.start("p2", options=options)
            assert peers.wait("p2", seconds=40)["p2"] == 2
            assert reason in peers.error("p2")
        # p1 dials p2 where the network file says; p2 dials p3.
        refused = "p2 was not accepted: another process of p2 is running and connected already"
        assert peers.log("p3").count(refused) == 1
        peers.processes["p2"] = first
        record = peers.status("p2")
        assert record["phase"] == "running"
        assert record["neighbors"]["p1"]["bytes_heard"] > 0
        assert record["bytes_sent"] > 0
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)


def test_a_peer_that_joins_after_the_end_gets_the_result_and_a_status_that_says_so(tmp_path):
    given = {"rho": 30.0, "join_timeout": 2.0, "linger": 30.0}
    with make_cluster(tmp_path, **given) as peers:
        others = ["p0", "p1", "p2", "p4"]
        peers.start(*others)
        for name in others:
            peers.wait_for_end(name)
        peers.start("p3")
        assert peers.wait("p3", seconds=30)["p3"] == 0
        record = peers.certificate("p3")
        assert record["status"]["name"] == "joined late"
        assert "as 'converged without some peers'" in record["status"]["advice"]
        assert record["rounds"] == peers.certificate("p2")["rounds"]
        assert "record that 4 of 5 peers have signed" in record["status"]["advice"]
        assert record["signed_by"] == others
        records = [peers.certificate(name) for name in peers.names]
        for field in ("record", "contributed", "pooled_cost", "heard"):
            assert all(each[field] == record[field] for each in records), field
        mean = np.mean([peers.centers(name) for name in others], axis=0)
        assert np.allclose(peers.centers("p3"), mean, rtol=0, atol=1e-9)
        assert len((peers.out("p3") / "labels.csv").read_text().splitlines()) == 31
        # JSON knows no NaN.
        json.loads((peers.out("p3") / "certificate.json").read_text(), parse_constant=pytest.fail)
        for name in others:
            advice = peers.certificate(name)["status"]["advice"]
            assert "Without p3" in advice
            peers.signal(name, signal.SIGTERM)
        assert set(peers.wait(*others, seconds=20).values()) == {0}


def test_a_peer_that_joins_late_takes_part(tmp_path):
    with make_cluster(tmp_path, rho=300.0, join_timeout=2.0) as peers:
        start_paced(peers, "p0", "p1", "p2", "p4")
        peers.wait_for_round("p2", 100)
        peers.start("p3")
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "p3 does not take part: it did not connect within 2 s" in peers.log("p2")
        assert "the centers of a neighbor" in peers.log("p3")
        assert peers.certificate("p0")["agreed"]["members"] == [0, 1, 2, 4]


def test_all_stop_if_a_peer_never_comes_and_the_network_file_says_so(tmp_path):
    with make_cluster(tmp_path, join_timeout=1.5, on_absent="stop") as peers:
        peers.start("p0", "p1", "p2", "p4")
        assert set(peers.wait(seconds=30).values()) == {2}
        for name in ("p0", "p1", "p2", "p4"):
            error = peers.error(name)
            assert "The run was stopped" in error
            assert "p3 does not take part" in error
            assert not peers.ended(name)


def test_a_peer_that_no_neighbor_joins_names_all_its_neighbors(tmp_path):
    with make_cluster(tmp_path, join_timeout=1.0, on_absent="stop") as peers:
        peers.start("p0")
        assert peers.wait(seconds=30) == {"p0": 2}
        assert "p1 does not take part" in peers.error("p0")
        assert "Nor did p4 connect." in peers.error("p0")


def test_half_of_all_peers_start_no_run_since_nobody_could_join_it(tmp_path):
    with make_cluster(tmp_path, 4, join_timeout=1.5) as peers:
        peers.start("p0", "p1")
        assert set(peers.wait(seconds=30).values()) == {2}
        for name in ("p0", "p1"):
            assert "a run needs more than half of all 4 peers" in peers.error(name)


def test_a_listed_peer_with_another_contract_is_refused_and_named(tmp_path):
    with make_cluster(tmp_path, join_timeout=3.0) as peers:
        others = ["p0", "p1", "p3", "p4"]
        other = tmp_path / "other.toml"
        contract_file.write(other, replace(peers.contract, n_clusters=4))
        peers.start(*others)
        peers.start("p2", options=["--network", other.name])
        codes = peers.wait()
        assert [codes[name] for name in others] == [0, 0, 0, 0]
        assert codes["p2"] == 2
        said = "p2 has n_clusters = 4, here it is 3."
        assert peers.log("p1").count(f"p2 was not accepted: its network file differs: {said}") == 1
        assert "n_clusters = 3, here it is 4" in peers.error("p2")


def test_unauthorized_clients_are_refused_with_a_reason_logged_once(tmp_path):
    with make_cluster(tmp_path, rho=600.0) as peers:
        start_paced(peers)
        peers.wait_for_round("p2", 50)
        port = peers.contract.peers[2].endpoint[1]
        kinds = make_kinds(peers.contract, "p2", tmp_path)
        for _ in range(3):
            for kind in kinds.values():
                with (
                    socket.create_connection(("127.0.0.1", port), 5) as connection,
                    suppress(OSError),
                ):
                    kind(connection)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        log = peers.log("p2")
        for reason in (
            "it did not speak TLS",
            "it spoke plain HTTP",
            "it presented no certificate",
            "it does not speak TLS 1.3",
            "its certificate is not in the network file",
            "it calls itself 'p2', but its certificate is that of p1",
            "its network file differs",
        ):
            assert log.count(f"was refused: {reason}") + log.count(f"accepted: {reason}") == 1, log
        assert "2 more connections of strangers were refused: it did not speak TLS." in log
