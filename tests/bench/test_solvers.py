from __future__ import annotations

import json
from math import inf, nan

import numpy as np
import pytest

from peerclust import bench
from peerclust.bench import (
    solver_cases,
    solver_claims,
    solver_courses,
    solver_exchange,
    solvers,
)
from peerclust.bench.solver_cases import RING_IRIS, Case, tune
from peerclust.bench.solver_courses import Course, Effort, count_rounds, follow
from peerclust.bench.solvers import Row
from peerclust.clustering.certificate import measure_pooled
from peerclust.clustering.solvers import SOLVERS
from peerclust.errors import ParameterError

CASES = [Case("iris", "ring(10)", "hom"), Case("iris", "ring(50)", "hom")]


def count_naively(far, level):
    for first in range(len(far)):
        if all(value <= level for value in far[first:]):
            return first + 1
    return None


def test_rounds_are_counted_to_the_one_after_which_all_stay_below():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(500):
        far = rng.choice([0.0, 1.0, 2.0, nan, inf], size=rng.integers(1, 9))
        for level in (0.0, 1.5, 3.0):
            rounds = count_rounds(far, level)
            assert rounds == count_naively(far, level)
            seen.add(rounds)
    assert {None, 1, 2, 5} < seen


def test_the_effort_is_that_up_to_the_round_in_which_a_level_is_reached():
    course = Course(
        np.array([5.0, 0.5, 3.0, 0.5]),
        np.array([1.0, 2.0, 4.0, 8.0]),
        np.array([100.0, 200.0, 300.0, 400.0]),
    )
    assert course.reach(1.0) == Effort(4, 400.0, 8.0)
    assert course.reach(3.0) == Effort(2, 200.0, 2.0)
    assert course.reach(0.1) == Effort(inf, inf, inf)


def drive(problem, program, x, rounds):
    """Give the centers after each round, by hand."""
    problem.users.reset_cache()
    state, passed = program.start(problem.users, x), []
    for _ in range(rounds):
        heard, _ = problem.runtime.deliver(program.say(state))
        state = program.hear(problem.users, state, heard)
        passed.append(state.x)
    return passed


@pytest.mark.parametrize("solver", ["accelerated", "admm", "group-lasso", "exact"])
def test_an_onlooker_sees_what_is_measured_round_by_round(solver):
    problem, x = Case("iris", "ring(10)", "het").prepare(3)
    program = tune(problem, solver).program
    course = follow(problem, program, x, rounds=60, tol=0.0)
    passed = drive(problem, program, x, 60)
    far = [max(measure_pooled(problem, each)[1], problem.disagreement(each)) for each in passed]
    np.testing.assert_allclose(course.far, far, rtol=1e-9, atol=1e-13)
    assert (np.diff(course.seconds) > 0).all()
    numbers = 3 * 5 if solver == "exact" else 3 * 4
    run = problem.run(program, x, 60, 0.0)
    assert course.bytes[-1] == run.traffic.bytes
    assert course.bytes[0] == 20 * (8 * numbers + 16)
    each = set(np.diff(course.bytes).tolist())
    # Now and then admm tells two maxima a center.
    more = {20 * (8 * numbers + 16 + 8 * 6)} if solver == "admm" else set()
    assert each == {course.bytes[0]} | more
    # What is further than asked for is told as infinity, or as it is.
    near = follow(problem, program, x, rounds=60, tol=0.0, beyond=1e-2).far
    assert np.array_equal(near[course.far <= 1e-2], course.far[course.far <= 1e-2])
    assert (near[course.far > 1e-2] > 1e-2).all()


def test_runs_end_when_their_users_stop():
    problem, x = RING_IRIS.prepare(0)
    program = tune(problem, "admm").program
    course = follow(problem, program, x, rounds=1000, tol=1e-7)
    assert len(course.far) < 200
    assert course.far[-1] < 1e-6


def rows_of(rounds, level=1e-3):
    """Give rows of two cases from {solver: (rounds, rounds)}, "auto" being admm."""
    rounds = dict.fromkeys(SOLVERS, (inf, inf)) | rounds
    rounds["auto"] = rounds["admm"]
    return [
        Row(case, solver, level, Effort(each[number], 1e6, 1.0), 5, 100.0)
        for number, case in enumerate(CASES)
        for solver, each in rounds.items()
    ]


def test_auto_is_set_beside_the_best_solver_that_tells_only_centers():
    # `exact` is faster, but tells more.
    rows = rows_of({"admm": (30, 80), "group-lasso": (20, 90), "exact": (1, 1)})
    typical, worst = solvers.judge_auto(rows, "admm")
    assert (typical.name, typical.value, typical.target) == ("auto_1e-3_median", 1.25, 1.5)
    assert (worst.name, worst.value, worst.target) == ("auto_1e-3_worst", 1.5, 3.0)
    assert typical.holds
    assert worst.holds
    assert "iris ring(10) hom 1.5 (30 beside 20 of group-lasso)" in worst.detail
    assert "median of 2 cases; no such solver solves 0 others" in typical.detail


def test_a_slow_auto_misses_its_targets():
    rows = rows_of({"admm": (61, 61), "accelerated": (20, 40)}, level=1e-6)
    typical, worst = solvers.judge_auto(rows, "admm")
    assert worst.name == "auto_1e-6_worst"
    assert not typical.holds
    assert not worst.holds


def test_an_auto_that_does_not_arrive_where_another_does_misses_its_target():
    typical, worst = solvers.judge_auto(rows_of({"admm": (10, inf), "dgc": (inf, 99)}), "admm")
    assert worst.value == "not reached"
    assert not worst.holds
    assert not typical.holds


def test_a_case_that_no_solver_solves_is_left_out():
    typical, worst = solvers.judge_auto(rows_of({"admm": (10, inf), "exact": (5, 5)}), "admm")
    assert typical.value == worst.value == 1.0
    assert "median of 1 cases; no such solver solves 1 others" in typical.detail
    typical, worst = solvers.judge_auto(rows_of({}), "admm")
    assert typical.value == worst.value == "not reached"
    assert not typical.holds


def test_words_in_place_of_a_number_meet_no_target():
    assert bench.Measure("some", "not reached", "").holds
    assert not bench.Measure("some", "not reached", "", at_most=3).holds
    assert not bench.Measure("some", "not reached", "", at_least=3).holds


def test_every_solver_says_what_it_took_or_that_it_did_not_arrive(monkeypatch):
    monkeypatch.setattr(solvers, "SEEDS", range(3))
    monkeypatch.setattr(solvers, "ROUNDS", 120)
    rows = solvers.compare(RING_IRIS, "admm")
    assert [(row.solver, row.level) for row in rows[::2]] == [(each, 1e-3) for each in SOLVERS]
    told = {row.measure.name: row.measure for row in rows}
    slow = told["iris ring(10) hom dgc 1e-3"]
    assert (slow.value, slow.detail) == ("not reached", "by the end, after 120 rounds")
    assert told["iris ring(10) hom auto 1e-6"].value == told["iris ring(10) hom admm 1e-6"].value
    median = sorted(
        count_naively(follow(*started("admm", seed), rounds=120, tol=1e-7).far, 1e-6)
        for seed in range(3)
    )[1]
    assert told["iris ring(10) hom admm 1e-6"].value == median
    assert told["iris ring(10) hom admm 1e-6"].detail.startswith("rounds; ")
    json.dumps([measure.as_dict() for measure in told.values()], allow_nan=False)


def started(solver, seed):
    problem, x = RING_IRIS.prepare(seed)
    return problem, tune(problem, solver).program, x


def test_seeds_that_did_not_arrive_are_told():
    row = Row(RING_IRIS, "dgc", 1e-6, Effort(70.0, 2e6, 0.5), 3, 90.0)
    assert row.measure.detail == "rounds; 2 MB, 0.5 s; reached from 3 of 5 seeds"


@pytest.mark.parametrize(("solver", "alpha"), [("dgc", "paper"), ("accelerated", "auto")])
def test_a_fixed_point_is_near_from_the_round_on_in_which_all_centers_are(solver, alpha):
    problem, x = RING_IRIS.prepare(1, init="random")
    tuned = tune(problem, solver, rho=10.0, alpha=alpha)
    end = solver_claims.find_end(problem, tuned, x)
    passed = drive(problem, tuned.program, x, 2000)
    centers = [each.reshape(-1, 4) for each in passed]
    far = [
        max(np.linalg.norm(a - b) for a, b in zip(each, centers[-1], strict=True))
        for each in centers
    ]
    assert end.rounds == count_naively(far, 1e-3)
    final = passed[-1]
    rows = [problem.users.rows[a:b] for a, b in zip(*offsets(problem), strict=True)]
    costs = [
        0.5 * ((y[:, None] - own) ** 2).sum(axis=2).min(axis=1).sum()
        for y, own in zip(rows, final, strict=True)
    ]
    apart = 0.5 * sum(((final[i] - final[i - 1]) ** 2).sum() for i in range(10))
    assert end.cost == pytest.approx(sum(costs) / 10.0 + apart)


def offsets(problem):
    return problem.users.offsets[:-1], problem.users.offsets[1:]


def test_claims_are_measured(monkeypatch):
    monkeypatch.setattr(solver_claims, "SEEDS", range(2))
    rounds, cost = solver_claims._beside_dgc(20.0, 0.5)
    assert 0 < rounds.value < 0.5
    assert cost.value == pytest.approx(1.0, abs=1e-6)
    most = solver_claims._most_rounds("it", "exact", RING_IRIS, "kmeans", level=1e-9, most=9)
    assert not most.holds
    assert most.value % 5 == 0  # ring(10) averages in 5 rounds


def test_bits_are_those_that_a_link_carried():
    float64, *_, coarse = solver_exchange.trace_forms(rounds=30, tol=0.0)
    assert (float64.form, coarse.form) == ("float64", "8-bit")
    full, byte = 8 * (12 * 8 + 16), 8 * (12 + 5)
    assert float64.bits.tolist() == [full * (t + 1) for t in range(30)]
    assert coarse.bits.tolist() == [full + byte * t for t in range(30)]
    assert float64.cost[-1] < float64.cost[0]


def test_8_bit_messages_are_set_beside_float64(monkeypatch):
    monkeypatch.setattr(solver_exchange, "SEEDS", range(1))
    measures = list(solver_exchange.measure_exchange(lambda _: None))
    assert [each.name for each in measures] == [
        f"8-bit_{data}_{what}" for data in ("iris", "digits") for what in ("cost", "bytes")
    ]
    assert all(each.holds for each in measures)


def test_measures_and_pictures_of_a_small_comparison(monkeypatch, tmp_path):
    monkeypatch.setattr(solvers, "measure_claims", lambda _: [])
    monkeypatch.setattr(solvers, "measure_exchange", lambda _: [])
    monkeypatch.setattr(solvers, "DATA", {"iris": solver_cases.DATA["iris"]})
    monkeypatch.setattr(solvers, "GRAPHS", {"ring(10)": solver_cases.GRAPHS["ring(10)"]})
    monkeypatch.setattr(solvers, "SEEDS", range(1))
    monkeypatch.setattr(solvers, "ROUNDS", 150)
    said = []
    report = bench.run("solvers", said.append, out=tmp_path / "it.png")
    assert said == ["iris ring(10) hom, 1 seeds", "iris ring(10) het, 1 seeds", "pictures"]
    assert len(report.measures) == 4 + 2 * len(SOLVERS) * len(solvers.LEVELS)
    for name in ("it.png", "it-exchange.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(("rounds", "shown"), [(12.0, 12.0), (inf, "not reached")])
def test_rounds_are_shown_as_a_number_or_as_words(rounds, shown):
    assert solver_courses.show_rounds(rounds) == shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"out": "courses.jpg"}, "must end in .png. Got courses.jpg"),
        ({"out": "no/such/folder/it.png"}, "must be in a folder that exists"),
        ({"schedules": 3}, "must be left out with solvers"),
    ],
)
def test_bad_options_end_before_anything_is_measured(options, words):
    said = []
    with pytest.raises(ParameterError, match=words):
        bench.run("solvers", said.append, **options)
    assert said == []
