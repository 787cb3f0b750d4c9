"""The oracle finds each kind of violation, and nothing else."""

from collections import Counter

import pytest

from peerclust.testing.local_cluster import LocalCluster

from .fault_runner import FaultRun, PeerProcess
from .oracle import BROKEN, HANG, check_run
from .schedules import NAMES, draw


@pytest.fixture
def run(tmp_path):
    """A run in which every peer was killed, which violates nothing."""
    schedule = draw(0)
    with LocalCluster(tmp_path, schedule.parts, schedule.graph, **schedule.settings) as cluster:
        contract = cluster.contract
    processes = [PeerProcess(name, None, 0, {9}, -9) for name in NAMES]
    for name in NAMES:
        (tmp_path / f"out-{name}").mkdir()
        (tmp_path / f"out-{name}" / "log.txt").write_text("2026-01-01T00:00:00Z All is well.\n")
    return FaultRun(schedule, tmp_path, contract, processes, Counter(), 1.0)


def findings(run):
    return [(finding.kind, finding.what) for finding in check_run(run).findings]


def test_a_run_without_violations_has_no_findings(run):
    assert findings(run) == []


@pytest.mark.parametrize(
    ("ending", "kind", "what"),
    [
        ({"code": None, "status": "round 7"}, HANG, "p0 did not end: round 7"),
        ({"code": -11}, BROKEN, "p0 was ended by signal 11, which was not sent"),
        ({"code": 4}, BROKEN, "p0 ended with exit code 4"),
        ({"code": -9, "stderr": "Traceback"}, BROKEN, "p0 ended with -9 and wrote 'Traceback'"),
        ({"code": 2}, BROKEN, "p0 ended with 2 and wrote ''"),
        ({"code": 0}, BROKEN, "p0 ended with 0 without"),
    ],
)
def test_a_process_that_ends_wrongly_is_found(run, ending, kind, what):
    run.processes[0] = PeerProcess("p0", None, 0, {9}, **ending)
    ((found, sentence),) = findings(run)
    assert found == kind
    assert sentence.startswith(what)


@pytest.mark.parametrize("reason", ["it must not be ahead, but is by 2 exchanges", "it sent zeros"])
def test_a_peer_that_is_dropped_for_misbehaving_is_found(run, reason):
    with (run.out("p4") / "log.txt").open("a") as log:
        log.write(f"2026-01-01T00:00:01Z p5 was lost in round 9: {reason}.\n")
    ((kind, what),) = findings(run)
    assert kind == BROKEN
    assert what == f"p4 dropped a peer that did nothing wrong: p5 was lost in round 9: {reason}."


def test_a_result_that_cannot_be_read_is_findings(run):
    (run.out("p1") / "certificate.json").write_text("{")
    ((kind, what),) = findings(run)
    assert kind == BROKEN
    assert what.startswith("p1's result cannot be read")
