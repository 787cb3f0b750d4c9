from __future__ import annotations

import json
from math import inf, nan

import numpy as np
import pytest

import benchmarks
from benchmarks.solvers import cases, claims, comparison, message_formats
from benchmarks.solvers.cases import RING_IRIS, Case, run_solver, tune
from benchmarks.solvers.comparison import Row
from benchmarks.solvers.trajectories import Effort, Trajectory, count_rounds, record
from peerclust.programs.solvers import SOLVERS
from peerclust.runtimes import Loopback, run_program

NAMES = ["auto", *SOLVERS]
CASES = [Case("iris", "ring(10)", "hom"), Case("iris", "ring(50)", "hom")]


def count_naively(gap, level):
    for first in range(len(gap)):
        if all(value <= level for value in gap[first:]):
            return first + 1
    return None


def test_rounds_are_counted_to_the_one_after_which_all_stay_below():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(500):
        gap = rng.choice([0.0, 1.0, 2.0, nan, inf], size=rng.integers(1, 9))
        for level in (0.0, 1.5, 3.0):
            rounds = count_rounds(gap, level)
            assert rounds == count_naively(gap, level)
            seen.add(rounds)
    assert {None, 1, 2, 5} < seen


def test_the_effort_is_that_up_to_the_round_in_which_a_level_is_reached():
    path = Trajectory(
        np.array([5.0, 0.5, 3.0, 0.5]),
        np.array([1.0, 2.0, 4.0, 8.0]),
        np.array([100.0, 200.0, 300.0, 400.0]),
    )
    assert path.reach(1.0) == Effort(4, 400.0, 8.0)
    assert path.reach(3.0) == Effort(2, 200.0, 2.0)
    assert path.reach(0.1) == Effort(inf, inf, inf)


def run_by_hand(problem, program, x, rounds):
    """Return the centers after each round, computed user by user."""
    iterates = []

    def on_round(states, _):
        iterates.append(np.concatenate([state.x for state in states]))

    run_program(
        Loopback(problem.graph), program, problem.users, x, rounds=rounds, on_round=on_round
    )
    return iterates


def pooled_residual(problem, x):
    """Return how far the mean centers are from the means of their rows, in units of the spread."""
    rows, mean = problem.users.rows, x.mean(axis=0)
    nearest = ((rows[:, None] - mean) ** 2).sum(axis=2).argmin(axis=1)
    far = [np.linalg.norm(mean[k] - rows[nearest == k].mean(axis=0)) for k in np.unique(nearest)]
    return max(far) / np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("solver", ["accelerated", "admm", "group-lasso", "exact"])
def test_a_recorded_trajectory_is_what_is_measured_round_by_round(solver):
    problem, x = Case("iris", "ring(10)", "het").prepare(3)
    tuned = tune(problem, x, solver)
    path = record(problem, tuned, x, rounds=60, tol=0.0)
    iterates = run_by_hand(problem, tuned.program, x, 60)
    gap = [max(pooled_residual(problem, each), problem.disagreement(each)) for each in iterates]
    np.testing.assert_allclose(path.gap, gap, rtol=1e-9, atol=1e-13)
    assert (np.diff(path.seconds) > 0).all()
    run = run_solver(problem, tuned, x, rounds=60, tol=0.0)
    assert path.bytes[-1] == run.traffic.bytes
    sizes = set(np.diff(path.bytes).tolist())
    # A number has 8 bytes, and a vote, which sums do not need, 16.
    if solver == "exact":
        # A sum goes up and down a tree of ten users: gradients, curvatures and one count.
        assert sizes == {18 * 8 * (1 + 3 * 5)}
    else:
        # In some rounds admm also sends two maxima per center.
        more = {20 * (8 * (12 + 6) + 16)} if solver == "admm" else set()
        assert path.bytes[0] == 20 * (8 * 12 + 16)
        assert sizes == {path.bytes[0]} | more
    # A gap above the cutoff is recorded as infinity or as it is.
    near = record(problem, tuned, x, rounds=60, tol=0.0, cutoff=1e-2).gap
    assert np.array_equal(near[path.gap <= 1e-2], path.gap[path.gap <= 1e-2])
    assert (near[path.gap > 1e-2] > 1e-2).all()


def test_runs_end_when_their_users_stop():
    problem, x = RING_IRIS.prepare(0)
    path = record(problem, tune(problem, x, "admm"), x, rounds=1000, tol=1e-7)
    assert len(path.gap) < 300
    assert path.gap[-1] < 1e-6


def rows_of(rounds, level=1e-3):
    """Return rows of two cases from {solver: (rounds, rounds)}; "auto" is admm."""
    rounds = dict.fromkeys(NAMES, (inf, inf)) | rounds
    rounds["auto"] = rounds["admm"]
    return [
        Row(case, solver, level, Effort(each[number], 1e6, 1.0), 5, 100.0)
        for number, case in enumerate(CASES)
        for solver, each in rounds.items()
    ]


def test_auto_is_compared_with_the_best_solver_that_sends_only_centers():
    # `exact` is faster, but sends more.
    rows = rows_of({"admm": (30, 80), "group-lasso": (20, 90), "exact": (1, 1)})
    typical, worst = comparison.rate_auto(rows, "admm")
    assert (typical.name, typical.value, typical.target) == ("auto_1e-3_median", 1.25, 1.5)
    assert (worst.name, worst.value, worst.target) == ("auto_1e-3_worst", 1.5, 3.0)
    assert typical.holds
    assert worst.holds
    assert "iris ring(10) hom 1.5 (30, group-lasso 20)" in worst.detail
    assert "median of 2 cases; no such solver solves 0 more" in typical.detail


def test_a_slow_auto_misses_its_targets():
    rows = rows_of({"admm": (61, 61), "accelerated": (20, 40)}, level=1e-6)
    typical, worst = comparison.rate_auto(rows, "admm")
    assert worst.name == "auto_1e-6_worst"
    assert not typical.holds
    assert not worst.holds


def test_auto_misses_its_target_if_only_another_solver_reaches_the_level():
    typical, worst = comparison.rate_auto(rows_of({"admm": (10, inf), "dgc": (inf, 99)}), "admm")
    assert worst.value == "not reached"
    assert not worst.holds
    assert not typical.holds


def test_a_case_that_no_solver_solves_is_left_out():
    typical, worst = comparison.rate_auto(rows_of({"admm": (10, inf), "exact": (5, 5)}), "admm")
    assert typical.value == worst.value == 1.0
    assert "median of 1 cases; no such solver solves 1 more" in typical.detail
    typical, worst = comparison.rate_auto(rows_of({}), "admm")
    assert typical.value == worst.value == "not reached"
    assert not typical.holds


def test_every_solver_has_its_effort_or_has_not_reached_the_level(monkeypatch):
    monkeypatch.setattr(comparison, "SEEDS", range(3))
    monkeypatch.setattr(comparison, "ROUNDS", 300)
    rows = comparison.compare_solvers(RING_IRIS, "admm")
    assert [(row.solver, row.level) for row in rows[::2]] == [(each, 1e-3) for each in NAMES]
    found = {row.measure.name: row.measure for row in rows}
    slow = found["iris ring(10) hom dgc 1e-3"]
    assert (slow.value, slow.detail) == ("not reached", "within 300 rounds")
    assert found["iris ring(10) hom auto 1e-6"].value == found["iris ring(10) hom admm 1e-6"].value
    median = sorted(
        count_naively(record(*started("admm", seed), rounds=300, tol=1e-7).gap, 1e-6)
        for seed in range(3)
    )[1]
    assert found["iris ring(10) hom admm 1e-6"].value == median
    assert found["iris ring(10) hom admm 1e-6"].detail.startswith("rounds; ")
    json.dumps([measure.as_dict() for measure in found.values()], allow_nan=False)


def started(solver, seed):
    problem, x = RING_IRIS.prepare(seed)
    return problem, tune(problem, x, solver), x


def test_the_number_of_seeds_that_reached_a_level_is_reported():
    row = Row(RING_IRIS, "dgc", 1e-6, Effort(70.0, 2e6, 0.5), 3, 90.0)
    assert row.measure.detail == "rounds; 2 MB, 0.5 s; reached with 3 of 5 seeds"


@pytest.mark.parametrize(("solver", "alpha"), [("dgc", "paper"), ("accelerated", "auto")])
def test_a_fixed_point_is_near_once_all_centers_are(solver, alpha):
    problem, x = RING_IRIS.prepare(1, init="random")
    tuned = tune(problem, x, solver, rho=10.0, alpha=alpha)
    end = claims.find_fixed_point(problem, tuned, x)
    iterates = run_by_hand(problem, tuned.program, x, 2000)
    centers = [each.reshape(-1, 4) for each in iterates]
    distance = [
        max(np.linalg.norm(a - b) for a, b in zip(each, centers[-1], strict=True))
        for each in centers
    ]
    assert end.rounds == count_naively(distance, 1e-3)
    final = iterates[-1]
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
    monkeypatch.setattr(claims, "SEEDS", range(2))
    rounds, cost = claims._compare_with_dgc(20.0, 0.5)
    assert 0 < rounds.value < 0.5
    assert cost.value == pytest.approx(1.0, abs=1e-6)
    most = claims._count_rounds("it", "exact", RING_IRIS, "kmeans", level=1e-9, target=9)
    assert not most.holds
    # A maximum, a sum of the starts, and at least one sum for each step of Lloyd's method.
    assert 30 < most.value < 600


def test_bits_are_those_that_a_link_has_carried():
    float64, *_, rounded = message_formats.trace_formats(rounds=30, tol=0.0)
    assert (float64.form, rounded.form) == ("float64", "8-bit")
    full, byte = 8 * (12 * 8 + 16), 8 * (12 + 5)
    assert float64.bits.tolist() == [full * (t + 1) for t in range(30)]
    assert rounded.bits.tolist() == [full + byte * t for t in range(30)]
    assert float64.cost[-1] < float64.cost[0]


def test_8_bit_messages_are_compared_with_float64(monkeypatch):
    monkeypatch.setattr(message_formats, "SEEDS", range(1))
    measures = list(message_formats.measure_formats(lambda _: None))
    assert [each.name for each in measures] == [
        f"8-bit_{data}_{what}" for data in ("iris", "digits") for what in ("cost", "bytes")
    ]
    assert all(each.holds for each in measures)


def test_a_small_comparison_has_measures_and_figures(monkeypatch, tmp_path):
    monkeypatch.setattr(comparison, "measure_claims", lambda _: [])
    monkeypatch.setattr(comparison, "measure_formats", lambda _: [])
    monkeypatch.setattr(comparison, "DATA", {"iris": cases.DATA["iris"]})
    monkeypatch.setattr(comparison, "GRAPHS", {"ring(10)": cases.GRAPHS["ring(10)"]})
    monkeypatch.setattr(comparison, "SEEDS", range(1))
    monkeypatch.setattr(comparison, "ROUNDS", 150)
    lines = []
    report = benchmarks.run("solvers", lines.append, out=tmp_path / "it.png")
    assert lines == ["iris ring(10) hom, 1 seeds", "iris ring(10) het, 1 seeds", "figures"]
    assert len(report.measures) == 4 + 2 * len(NAMES) * len(comparison.LEVELS)
    for name in ("it.png", "it-exchange.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
