"""The oracle finds each kind of violation, and nothing else."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from peerclust.log_events import LogEvent, json_line
from peerclust.runtimes.network.states import Cause
from peerclust.testing.local_cluster import LocalCluster

from .fault_runner import FaultRun, PeerProcess
from .oracle import BLAMED, BROKEN, FORGED, HANG, _check_centers, check_run
from .schedules import NAMES, draw

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def run(tmp_path):
    """A run in which every peer was killed, which violates nothing."""
    schedule = replace(draw(0), liar="", lie="")
    with LocalCluster(tmp_path, schedule.parts, schedule.graph, **schedule.settings) as cluster:
        contract = cluster.contract
    processes = [PeerProcess(name, None, 0, {9}, -9) for name in NAMES]
    for name in NAMES:
        (tmp_path / f"out-{name}").mkdir()
        (tmp_path / f"out-{name}" / "log.jsonl").write_text(f"{json_line('All is well.', NOW)}\n")
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


ACCUSATIONS = ["stuck", "invalid", "ahead", "excess", "mute", "other_views", "contradiction"]
FAULTS = sorted({cause.name.lower() for cause in Cause} - {*ACCUSATIONS})


def write_log(run, name, peer, cause, event="lost"):
    line = LogEvent(event, f"{peer} was lost: it is so.", peer=peer, cause=cause)
    with (run.out(name) / "log.jsonl").open("a") as log:
        log.write(f"{json_line(line, NOW)}\n")


@pytest.mark.parametrize("cause", ACCUSATIONS)
@pytest.mark.parametrize("event", ["lost", "refused"])
def test_an_honest_peer_that_is_dropped_for_misbehaving_is_found(run, cause, event):
    write_log(run, "p4", "p5", cause, event)
    ((kind, what),) = findings(run)
    assert kind == BLAMED
    assert what == "p4 dropped a peer that did nothing wrong: p5 was lost: it is so."


@pytest.mark.parametrize("cause", FAULTS)
def test_a_peer_may_be_lost_for_a_fault_of_its_process_or_link(run, cause):
    write_log(run, "p4", "p5", cause)
    assert findings(run) == []


@pytest.mark.parametrize("cause", ACCUSATIONS)
def test_a_liar_may_be_dropped_and_may_drop_whom_it_likes(run, cause):
    run = replace(run, schedule=replace(run.schedule, liar="p5", lie="contradicts_itself"))
    write_log(run, "p4", "p5", cause)
    write_log(run, "p5", "p4", cause)
    (run.out("p4") / "evidence.json").write_text(json.dumps([{"peer": "p5"}]))
    run.processes[5] = PeerProcess("p5", None, 0, set(), 2)
    assert findings(run) == []


def test_lines_of_stderr_that_are_events_of_the_log_are_no_errors(run):
    lines = [LogEvent("file-failed", "No space left on device."), "compiling kernels, once"]
    lines.append(LogEvent("failed", "p0 left the run. (docs/exit-codes.md#asked-to-end)", code=3))
    stderr = "\n".join(json_line(line, NOW) for line in lines)
    run.processes[0] = PeerProcess("p0", None, 0, set(), 3, stderr)
    assert findings(run) == []


def test_evidence_against_an_honest_peer_is_found(run):
    (run.out("p4") / "evidence.json").write_text(json.dumps([{"peer": "p5"}]))
    assert findings(run) == [(BLAMED, "p4 has evidence against p5")]


@pytest.mark.parametrize(("status", "far"), [("converged", 2.0), ("ran out of rounds", 13.0)])
def test_centers_far_from_all_rows_are_found(run, status, far):
    rows = np.concatenate(run.schedule.parts)
    widths = np.ptp(rows, axis=0)
    for outside, found in ((far - 1.5, 0), (far, 1)):
        x = np.column_stack([[0], [rows.max(axis=0) + outside * widths]])
        np.savetxt(run.out("p1") / "centers.csv", x, delimiter=",", header="center")
        record = {"p1": {"status": {"name": status}}}
        assert [each.kind for each in _check_centers(run, record)] == [FORGED] * found


def test_a_result_that_was_kept_must_be_written_later(run):
    sentence = "out-p0/labels.csv cannot be written: No space left on device. The result is kept in"
    run.processes[0] = PeerProcess("p0", None, 0, set(), 2, f"{sentence} (docs/exit-codes.md#x)")
    assert findings(run) == [(BROKEN, "p0 kept its result, but did not write it later")]


def test_an_error_of_a_disk_must_name_the_file(run):
    (run.folder / "p0.failed").write_text("write out-p0/labels.csv")
    sentence = "No space left on device (docs/exit-codes.md#x)"
    run.processes[0] = PeerProcess("p0", None, 0, set(), 2, sentence)
    assert findings(run) == [(BROKEN, f"p0 does not name the file: {sentence}")]


def test_a_result_that_cannot_be_read_is_findings(run):
    (run.out("p1") / "certificate.json").write_text("{")
    ((kind, what),) = findings(run)
    assert kind == BROKEN
    assert what.startswith("p1's result cannot be read")
