"""How peers come, go, come late, and are refused: real processes."""

import json
import shutil
import signal
import socket
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from trials import check_ended, check_replay, fleet, iris

import peerclust as pc
from peerclust.initialize import KMeansPlusPlus
from peerclust.peers.commands import check_dates, find_identity
from peerclust.runtimes.network import contract_file
from peerclust.testing import peer_demo
from peerclust.testing.unauthorized_clients import make_kinds


def test_a_peer_asked_to_end_says_goodbye_and_goes_on_from_its_checkpoint(tmp_path):
    # Nobody waits for a timeout: the goodbye is enough.
    with fleet(tmp_path, rho=1000.0, timeout=30.0) as peers:
        peers.start()
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
    peers.start()
    peers.wait_for_round("p3", round_)
    for name in peers.names:
        peers.signal(name, signal.SIGTERM)
    assert set(peers.wait(seconds=20).values()) == {3}


def test_peers_that_all_ended_go_on_together_from_their_checkpoints(tmp_path):
    with fleet(tmp_path, rho=1000.0) as peers:
        run_and_end_all(peers, 300)
        peers.start()
        assert set(peers.wait().values()) == {0}
        assert "All go on from their checkpoints, at round" in peers.log("p0")
        replayed = peers.replay()
        assert all(replayed[name]["same"] for name in peers.names)


def test_a_checkpoint_of_other_rows_is_refused(tmp_path):
    with fleet(tmp_path, rho=1000.0) as peers:
        run_and_end_all(peers, 200)
        lines = peers.data("p3").read_text().splitlines(keepends=True)
        peers.data("p3").write_text("".join(lines[:-2]))
        peers.start("p2", "p3")
        assert peers.wait("p3", seconds=30)["p3"] == 2
        assert "must be of the rows that are given" in peers.error("p3")


def test_a_second_process_of_a_peer_is_refused(tmp_path):
    with fleet(tmp_path, rho=5000.0, rounds=10**6, join_timeout=3.0) as peers:
        peers.start()
        peers.wait_for_round("p2", 50)
        first = peers.processes["p2"]
        # In the same folder by the lock, in another by its port, at another by its neighbors.
        for words, reason in (
            ((), "is running in out-p2 already"),
            (("--out", "again"), "Address already in use. Is this peer running already?"),
            (("--out", "again", "--listen", "127.0.0.1:19999"), "p2 is running already"),
        ):
            peers.start("p2", words=words)
            assert peers.wait("p2", seconds=40)["p2"] == 2
            assert reason in peers.error("p2")
        # p1 dials p2 where the network file says; p2 dials p3.
        assert peers.log("p3").count("p2 was not taken up: p2 is running already") == 1
        peers.processes["p2"] = first
        told = peers.status("p2")
        assert told["phase"] == "running"
        assert told["neighbors"]["p1"]["bytes_heard"] > 0
        assert told["bytes_sent"] > 0
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)


def test_a_peer_that_comes_after_the_end_gets_the_result_and_is_told_so(tmp_path):
    given = {"rho": 30.0, "join_timeout": 2.0, "linger": 30.0}
    with fleet(tmp_path, **given) as peers:
        others = ["p0", "p1", "p2", "p4"]
        peers.start(*others)
        for name in others:
            peers.wait_for_end(name)
        peers.start("p3")
        assert peers.wait("p3", seconds=30)["p3"] == 0
        told = peers.certificate("p3")
        assert told["status"]["name"] == "came late"
        assert "as 'converged without some'" in told["status"]["advice"]
        assert told["rounds"] == peers.certificate("p2")["rounds"]
        assert peers.centers("p3").tolist() in [peers.centers(n).tolist() for n in ("p2", "p4")]
        assert len((peers.out("p3") / "labels.csv").read_text().splitlines()) == 31
        # JSON knows no NaN.
        json.loads((peers.out("p3") / "certificate.json").read_text(), parse_constant=pytest.fail)
        for name in others:
            advice = peers.certificate(name)["status"]["advice"]
            assert "Without p3" in advice
            peers.signal(name, signal.SIGTERM)
        assert set(peers.wait(*others, seconds=20).values()) == {0}


def test_a_peer_that_comes_late_is_taken_up(tmp_path):
    with fleet(tmp_path, rho=1500.0, join_timeout=2.0) as peers:
        peers.start("p0", "p1", "p2", "p4")
        peers.wait_for_round("p2", 100)
        peers.start("p3")
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        assert "p3 does not take part: it did not come within 2 s" in peers.log("p2")
        assert "the centers of a neighbor" in peers.log("p3")
        assert peers.certificate("p0")["agreed"]["members"] == [0, 1, 2, 4]


def test_all_stop_if_a_peer_never_comes_and_the_network_file_says_so(tmp_path):
    with fleet(tmp_path, join_timeout=1.5, on_absent="stop") as peers:
        peers.start("p0", "p1", "p2", "p4")
        assert set(peers.wait(seconds=30).values()) == {2}
        for name in ("p0", "p1", "p2", "p4"):
            said = peers.error(name)
            assert "The run was stopped" in said
            assert "p3 does not take part" in said
            assert not peers.ended(name)


def test_a_peer_to_whom_nobody_comes_names_all_its_neighbors(tmp_path):
    with fleet(tmp_path, join_timeout=1.0, on_absent="stop") as peers:
        peers.start("p0")
        assert peers.wait(seconds=30) == {"p0": 2}
        assert "p1 does not take part" in peers.error("p0")
        assert "Nor did p4 come." in peers.error("p0")


def test_admm_stops_for_all_when_a_peer_is_lost(tmp_path):
    given = {"solver": "admm", "rho": "auto", "on_loss": "stop", "tol": 0.0}
    with fleet(tmp_path, **given) as peers:
        peers.start()
        peers.wait_for_round("p1", 100)
        peers.kill("p1")
        others = ["p0", "p2", "p3", "p4"]
        assert set(peers.wait(*others, seconds=30).values()) == {2}
        for name in others:
            assert "p1 was lost" in peers.error(name)


@pytest.mark.parametrize(
    ("solver", "rho", "exchange"),
    [
        ("admm", "auto", "float64"),
        ("admm", "auto", "8-bit"),
        ("group-lasso", "auto", "float64"),
        ("exact", "auto", "float64"),
        ("accelerated", 150.0, "8-bit"),
        ("dgc", 30.0, "float32"),
        ("dgc", 1.0, "8-bit"),
    ],
)
def test_every_solver_ends_where_its_replay_and_the_pooled_problem_do(
    tmp_path, solver, rho, exchange
):
    on_loss = "continue" if solver in ("dgc", "accelerated") else "stop"
    tol = 1e-4 if exchange == "float32" else 1e-5
    given = {"solver": solver, "rho": rho, "exchange": exchange, "on_loss": on_loss, "tol": tol}
    with fleet(tmp_path, scale="none", **given) as peers:
        peers.start()
        assert set(peers.wait().values()) == {0}
        assert all(each["same"] for each in peers.replay().values())
        rows = np.concatenate(iris(5))
        told = [peers.certificate(name) for name in peers.names]
        centers = [pc.Solution.load(peers.out(name) / "solution.npz").consensus
                   for name in peers.names]  # fmt: skip
        mean = np.mean(centers, axis=0)
        square = ((rows[:, None] - mean) ** 2).sum(axis=2)
        # What the peers found among themselves is what an onlooker finds.
        assert {each["pooled_cost"] for each in told} == {told[0]["pooled_cost"]}
        assert np.isclose(told[0]["pooled_cost"], 0.5 * square.min(axis=1).sum(), rtol=1e-9)
        labels = square.argmin(axis=1)
        gradient = [len(rows[labels == k]) * mean[k] - rows[labels == k].sum(axis=0)
                    for k in range(3)]  # fmt: skip
        spread = np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
        residual = np.linalg.norm(gradient, axis=1).max() / (len(rows) * spread)
        assert np.isclose(told[0]["pooled_residual"], residual, rtol=1e-6, atol=1e-12)
        if on_loss == "stop":
            assert residual < 1e-5


def test_an_empty_site_takes_part(tmp_path):
    rows, _ = pc.datasets.iris()
    parts = [rows[::2], rows[:0], rows[1:3], rows[3::2]]
    with fleet(tmp_path, 4, parts=parts, rho=30.0, tol=1e-4) as peers:
        peers.start()
        assert set(peers.wait().values()) == {0}
        assert peers.certificate("p1")["rows"] == 0
        assert all(each["same"] for each in peers.replay().values())


def test_more_clusters_than_rows_is_one_sentence_everywhere(tmp_path):
    rows, _ = pc.datasets.iris()
    parts = [rows[:1], rows[1:2], rows[2:3]]
    with fleet(tmp_path, 3, parts=parts, n_clusters=5, mean_of=1) as peers:
        peers.start()
        assert set(peers.wait(seconds=30).values()) == {2}
        for name in peers.names:
            last = peers.error(name).splitlines()[-1]
            assert "must be at most the number of rows of all sites, 3. Got 5." in last


def test_a_listed_peer_with_another_contract_is_refused_and_named(tmp_path):
    with fleet(tmp_path, rho=1000.0, join_timeout=3.0) as peers:
        others = ["p0", "p1", "p3", "p4"]
        other = tmp_path / "other.toml"
        contract_file.write(other, replace(peers.contract, n_clusters=4))
        peers.start(*others)
        peers.start("p2", words=["--network", other.name])
        codes = peers.wait()
        assert [codes[name] for name in others] == [0, 0, 0, 0]
        assert codes["p2"] == 2
        said = "p2 has n_clusters = 4, here it is 3."
        assert (
            peers.log("p1").count(f"p2 was not taken up: it has another network file: {said}") == 1
        )
        assert "n_clusters = 3, here it is 4" in peers.error("p2")


def test_strangers_are_refused_with_a_reason_logged_once(tmp_path):
    with fleet(tmp_path, rho=1500.0) as peers:
        peers.start()
        peers.wait_for_round("p2", 50)
        port = peers.contract.peers[2].endpoint[1]
        kinds = make_kinds(peers.contract, "p2", tmp_path)
        for _ in range(3):
            for kind in kinds.values():
                with socket.create_connection(("127.0.0.1", port), 5) as line, suppress(OSError):
                    kind(line)
        assert set(peers.wait().values()) == {0}
        check_ended(peers, peers.names)
        log = peers.log("p2")
        for reason in (
            "it did not speak TLS",
            "it spoke plain HTTP",
            "it showed no certificate",
            "it does not speak TLS 1.3",
            "its certificate is not one of the network's",
            "it calls itself 'p2', and its certificate is that of p1",
            "it has another network file",
        ):
            assert log.count(reason) == 1, log


def test_a_replay_needs_every_site_that_agreed(tmp_path):
    with fleet(tmp_path, rho=30.0) as peers:
        peers.start()
        peers.wait()
        check_replay(peers, peers.names)
        shutil.rmtree(peers.out("p1"))
        with pytest.raises(pc.errors.DataError, match="Got none of p1"):
            peers.replay()


def test_a_replay_names_the_site_whose_rows_are_others(tmp_path):
    with fleet(tmp_path, rho=30.0) as peers:
        peers.start()
        peers.wait()
        peers.data("p3").write_text(peers.data("p1").read_text())
        with pytest.raises(pc.errors.DataError, match=r"The rows of p3 must be those of the run"):
            peers.replay()


def test_an_expired_certificate_ends_a_peer_at_once(tmp_path):
    with fleet(tmp_path) as peers:
        identity = find_identity(peers.contract, "p2", tmp_path)
        check_dates(identity, datetime.now(UTC))
        for days in (4000, -1):
            with pytest.raises(pc.errors.ParameterError, match="must be valid now"):
                check_dates(identity, datetime.now(UTC) + timedelta(days=days))


def test_weights_a_matrix_and_several_updates_are_as_in_the_simulator(tmp_path):
    rng = np.random.default_rng(0)
    parts = [np.column_stack([part, rng.uniform(0.5, 2.0, len(part))]) for part in iris(4)]
    A = np.diag([2.0, 1.0, 1.0, 3.0])
    given = {"solver": "dgc", "rho": 30.0, "tol": 0.0, "rounds": 60, "B": 3}
    terms = {"weights_column": "x4", "matrix": A.tolist(), "scale": "none"}
    with fleet(tmp_path, 4, parts=parts, **given, **terms) as peers:
        peers.start()
        assert set(peers.wait().values()) == {1}  # out of rounds, as tol = 0 asks
        solution = pc.cluster(
            [part[:, :4] for part in parts],
            n_clusters=3,
            graph=peers.contract.graph,
            distance=pc.Mahalanobis(A),
            weights=[part[:, 4] for part in parts],
            init=KMeansPlusPlus(mean_of=5),
            random_state=0,
            **given,
        )
        for i, name in enumerate(peers.names):
            assert np.array_equal(peers.centers(name), solution.centers[i])
        assert all(each["same"] for each in peers.replay().values())


def test_the_demo_holds(tmp_path, monkeypatch):
    # Ten processes beside other tests would take long; five show the same.
    monkeypatch.setattr(peer_demo, "PEERS", 5)
    monkeypatch.setitem(peer_demo._SETTINGS, "rho", 1000.0)
    found = peer_demo.run(tmp_path / "demo", 0, lambda _: None)
    assert found.holds
    assert len(found.contributed) >= 2
