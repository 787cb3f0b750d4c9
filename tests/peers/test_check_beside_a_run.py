"""A check does not disturb a run: real processes."""

import json
import os
import signal

import pytest

from checked_sites import LONG, NAMES, Net, bad

pytestmark = pytest.mark.peers


@pytest.fixture
def net(tmp_path):
    return Net(tmp_path)


def test_a_check_before_the_start_changes_nothing_of_the_run(net):
    net.agree(linger=0.0, tol=1e-4)
    with net.running("a", "b") as running:
        net.wait("b", lambda status: status["neighbors"]["a"]["connected"])
        lines = net.check("c")
        assert not bad(lines)
        assert "agrees; it is waiting for others" in lines["b"].detail
        with net.running("c") as last:
            for process in (*running.values(), *last.values()):
                assert process.wait(LONG) == 0
    for name in NAMES:
        record = json.loads((net.path / name / "out" / "certificate.json").read_text())
        assert record["status"]["name"] == "converged"
        assert record["events"] == []
        assert "The set-up starts again" not in (net.path / name / "out" / "log.txt").read_text()


def test_a_check_while_others_run_without_this_peer_changes_nothing_of_the_run(net):
    triangle = (("a", "b"), ("a", "c"), ("b", "c"))
    net.agree(triangle, on_absent="start", join_timeout=2.0, tol=0.0, rounds=10**9)
    with net.running("a", "b") as running:
        for name in ("a", "b"):
            before = net.wait(name, lambda status: status["phase"] == "running")
            assert [what.split(":")[0] for what in before["events"]] == ["c does not take part"]
        lines = net.check("c")
        assert not bad(lines)
        for name in ("a", "b"):
            assert lines[name].detail.startswith(f"answers at 127.0.0.1:{net.ports[name]} and")
            assert "it is running" in lines[name].detail
        lines = net.check("a", seconds=0.5)
        assert [*bad(lines)] == ["c"]
        assert lines["port"].detail == f"this peer is already running at 127.0.0.1:{net.ports['a']}"
        assert "agrees; it is running" in lines["b"].detail
        for name in ("a", "b"):
            now = net.status(name)
            later = net.wait(name, lambda status, now=now: status["round"] > now["round"] + 10)
            assert later["events"] == before["events"]
            assert [link["counted"] for link in later["neighbors"].values()] == [True, False]
        assert (
            "c was not accepted: it is only a check."
            in (net.path / "b" / "out" / "log.txt").read_text()
        )
        for process in running.values():
            os.kill(process.pid, signal.SIGTERM)
        for process in running.values():
            assert process.wait(LONG) == 3
