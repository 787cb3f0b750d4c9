"""Curves round by round: kept rounds, averages over runs, the cost and the scores of a run."""

from itertools import product

import numpy as np
import pytest

from peerclust import paper
from peerclust.paper import score_curves
from peerclust.paper.cost_curves import cost_curves, trace_cost
from peerclust.paper.curves import METHODS, curve, kept_rounds
from peerclust.paper.experiment import RunOptions
from peerclust.paper.method_jobs import run_method
from peerclust.paper.score_curves import run_on, split_iris, trace_accuracy, trace_ari
from peerclust.paper.settings import make_task
from peerclust.report import figures


def rows_of(experiment, options):
    return [row for job in experiment.plan(options) for row in job.work(**job.given)]


def test_a_curve_averages_the_runs_round_by_round():
    rows = [{"round": t, "cost": value} for t, value in [(1, 4.0), (2, 2.0), (1, 6.0), (2, 2.0)]]
    x, mean, std = curve(rows, "cost")
    assert (x.tolist(), mean.tolist(), std.tolist()) == ([1, 2], [5, 2], [1, 0])


@pytest.mark.parametrize("rounds", [1, 2, 7, 500, 4000])
def test_the_kept_rounds_are_few_and_hold_the_first_the_middle_and_the_last(rounds):
    kept = kept_rounds(rounds)
    assert kept == sorted(set(kept))
    assert {1, max(rounds // 2, 1), rounds} <= set(kept)
    assert len(kept) <= 201
    assert kept[-1] == rounds


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("rho", "B"), [(1, 1), (100, 1), (10, 5)])
def test_the_cost_of_a_run_never_rises(method, rho, B):
    rows = trace_cost(method=method, rho=rho, B=B, rounds=30, seed=0)
    costs = [row["cost"] for row in rows]
    assert costs == sorted(costs, reverse=True)
    assert {row["rises"] for row in rows} == {0}
    assert all(row["above_last"] == row["cost"] - costs[-1] for row in rows)


@pytest.mark.parametrize("normalized", [False, True])
def test_a_cost_figure_has_finite_lines_one_curve_per_value_and_a_picture(normalized, tmp_path):
    experiment = cost_curves("small", "", rho=(1, 10), rounds=6, normalized=normalized)
    options = RunOptions(runs=1)
    summary = experiment.summarize(rows_of(experiment, options), options)
    assert len(summary.lines) == 4 * 2 * 2
    assert all(np.isfinite(line.ours.mean) for line in summary.lines)
    assert [panel.title for panel in summary.picture.panels] == list(METHODS)
    for panel in summary.picture.panels:
        assert [series.label for series in panel.series] == ["rho = 1", "rho = 10"]
        # The last value minus itself has no place on a log axis.
        assert all(series.x[-1] == (5 if normalized else 6) for series in panel.series)
    assert summary.notes == ["J_rho rose in 0 of 48 rounds (in none, by the theory)."]
    figures.draw(summary.picture, tmp_path / "figure.png")


@pytest.mark.paper
@pytest.mark.parametrize(("name", "rounds"), [("figure-2", "8,000"), ("figure-6", "16,000")])
def test_figures_2_and_6_never_see_the_cost_rise(name, rounds):
    options = RunOptions(runs=1)
    summary = paper.get(name).summarize(rows_of(paper.get(name), options), options)
    assert summary.notes == [f"J_rho rose in 0 of {rounds} rounds (in none, by the theory)."]
    assert all(np.isfinite(line.ours.mean) for line in summary.lines)


def test_figure_8_labels_by_the_centers_after_the_round():
    rows = trace_accuracy(method="DGC-KM", B=2, seed=0, rho=10.0, rounds=3)
    end = run_method(
        setting="iris", method="DGC-KM", seed=0, start="random", rho=10.0, rounds=3, B=2
    )[0]
    assert rows[-1]["round"] == 3
    assert rows[-1]["accuracy"] == pytest.approx(100 * end["accuracy"])


def test_figure_8_counts_b_communications_per_round():
    rows = [
        {"method": method, "B": B, "seed": 0, "round": t, "accuracy": 80.0 + t / B}
        for method, B in product(METHODS, (1, 5, 10, 100))
        for t in (1, 5, 50, 100, 500)
    ]
    summary = paper.get("figure-8").summarize(rows, RunOptions(runs=1))
    panels = summary.picture.panels
    by_round, by_message = panels[0].series[1], panels[1].series[1]
    assert np.array_equal(by_message.x, 5 * by_round.x)
    assert np.array_equal(by_message.mean, by_round.mean)
    ours = {(line.where["B"], line.where["measure"]): line.ours.mean for line in summary.lines}
    assert ours["100", "accuracy at the end"] == 85.0
    assert ours["100", "accuracy after 500 messages"] == 80.05


def test_figure_9_starts_differ_from_seed_to_seed():
    places = set()
    for seed in range(4):
        instance = split_iris(10, seed)
        x = make_task(instance, start="random", rho=1.0, rounds=1).start
        # where among its own rows each user's first center is
        places.add(
            tuple(
                int(np.flatnonzero((rows == center).all(axis=1))[0])
                for rows, center in zip(instance.split(instance.rows), x[:, 0], strict=True)
            )
        )
    assert len(places) == 4


MEASURES = [
    "ARI once converged",
    "ARI once converged, common start",
    "rounds to a residual of 0.001",
    "disagreement",
]


def test_figure_9_compares_the_papers_end_with_the_converged_ones(monkeypatch):
    monkeypatch.setattr(score_curves, "USERS", (10, 15))
    rows = []
    for m in (10, 15):
        rows += trace_ari(m=m, seed=0, rho=100.0, rounds=5)
        for start in ("own", "common"):
            given = {"m": m, "seed": 0, "rho": 100.0, "start": start}
            rows += run_on(**given, converged=0.02, arrived=0.1)
    summary = paper.get("figure-9").summarize(rows, RunOptions(runs=1))
    measures = list(dict.fromkeys(line.where["measure"] for line in summary.lines))
    assert measures == ["ARI after 5 rounds", *MEASURES]
    assert summary.notes[-1].endswith(" of the runs to convergence did not converge.")
    assert [series.label for series in summary.picture.panels[0].series] == ["m = 10", "m = 15"]


@pytest.mark.paper
def test_figure_9_takes_more_rounds_with_more_users(monkeypatch):
    monkeypatch.setattr(score_curves, "USERS", (10, 15))
    options = RunOptions(runs=1)
    experiment = paper.get("figure-9")
    summary = experiment.summarize(rows_of(experiment, options), options)
    measures = list(dict.fromkeys(line.where["measure"] for line in summary.lines))
    assert measures == ["ARI after 4000 rounds", *MEASURES]
    rounds = [line.ours.mean for line in summary.lines if line.where["measure"] == measures[3]]
    assert rounds[0] < rounds[1]
