"""What must not be after a schedule of faults is found when it is there."""

from collections import Counter

import pytest

from peerclust.bench.oracle import BROKEN, HANG, judge
from peerclust.bench.ordeal import Life, Trial
from peerclust.bench.schedules import NAMES, draw
from peerclust.testing.local_cluster import LocalCluster


@pytest.fixture
def trial(tmp_path):
    """A schedule in which every peer was killed, which is nobody's fault."""
    schedule = draw(0)
    with LocalCluster(tmp_path, schedule.parts, schedule.graph, **schedule.settings) as fleet:
        contract = fleet.contract
    lives = [Life(name, None, 0, {9}, -9) for name in NAMES]
    for name in NAMES:
        (tmp_path / f"out-{name}").mkdir()
        (tmp_path / f"out-{name}" / "log.txt").write_text("2026-01-01 00:00:00 All is well.\n")
    return Trial(schedule, tmp_path, contract, lives, Counter(), 1.0)


def found(trial):
    return [(finding.kind, finding.what) for finding in judge(trial).findings]


def test_nothing_is_found_where_nothing_is(trial):
    assert found(trial) == []


@pytest.mark.parametrize(
    ("life", "kind", "what"),
    [
        ({"code": None, "standing": "round 7"}, HANG, "p0 did not end: round 7"),
        ({"code": -11}, BROKEN, "p0 ended by signal 11, which nobody sent"),
        ({"code": 4}, BROKEN, "p0 ended with code 4"),
        ({"code": -9, "said": "Traceback"}, BROKEN, "p0 ended with -9 and said 'Traceback'"),
        ({"code": 2}, BROKEN, "p0 ended with 2 and said ''"),
        ({"code": 0}, BROKEN, "p0 ended with 0 without"),
    ],
)
def test_a_life_that_did_not_end_as_it_must_is_found(trial, life, kind, what):
    trial.lives[0] = Life("p0", None, 0, {9}, **life)
    ((got, said),) = found(trial)
    assert got == kind
    assert said.startswith(what)


@pytest.mark.parametrize("blame", ["it must not be ahead, and is by 2 exchanges", "it sent zeros"])
def test_a_peer_that_is_blamed_is_found(trial, blame):
    with (trial.out("p4") / "log.txt").open("a") as log:
        log.write(f"2026-01-01 00:00:01 p5 was lost in round 9: {blame}.\n")
    ((kind, what),) = found(trial)
    assert kind == BROKEN
    assert what == f"p4 blamed a peer that did nothing wrong: p5 was lost in round 9: {blame}."


def test_a_result_that_cannot_be_read_is_found(trial):
    (trial.out("p1") / "certificate.json").write_text("{")
    ((kind, what),) = found(trial)
    assert kind == BROKEN
    assert what.startswith("p1's result cannot be read")
