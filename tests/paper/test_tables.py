"""The tables of the paper: plans, lines and notes, with one run per cell and few rounds."""

from dataclasses import replace

import numpy as np
import pytest

from peerclust import paper
from peerclust.paper import method_jobs, published, tables, timing
from peerclust.paper.experiment import RunOptions, Stat
from peerclust.report import figures


def summary_of(experiment, options):
    rows = [row for job in experiment.plan(options) for row in job.work(**job.given)]
    return experiment.summarize(rows, options)


@pytest.mark.parametrize("name", paper.NAMES)
def test_every_experiment_has_a_title_and_jobs_with_different_keys(name):
    experiment = paper.get(name)
    assert experiment.name == name
    assert experiment.title
    for quick in (False, True):
        jobs = experiment.plan(RunOptions(runs=2, quick=quick))
        assert len({job.key for job in jobs}) == len(jobs) > 0
        assert all("/" not in job.key for job in jobs)


def test_every_table_and_figure_of_the_paper_is_there():
    expected = [f"table-{i}" for i in range(1, 8)] + [f"figure-{i}" for i in range(2, 10)]
    assert list(paper.NAMES) == [*expected, "splits", "cifar-classes", "rivals"]


def test_table_1_has_a_line_per_method_and_rho_and_a_note_per_method(tmp_path):
    experiment = tables.sweep(
        "small",
        "",
        published.MAXIMUM_DISTANCE,
        rho=tables.RHOS,
        rounds=20,
        column="disagreement",
        form="scale",
        notes=tables.fit_slopes,
    )
    summary = summary_of(experiment, RunOptions(runs=1))
    assert len(summary.lines) == 16
    assert len(summary.notes) == 4
    for rhos in np.split(np.array([line.ours.mean for line in summary.lines]), 4):
        assert (np.diff(rhos) < 0).all()
    figures.draw(summary.picture, tmp_path / "figure.png")


@pytest.mark.paper
def test_table_1_comes_near_the_papers_numbers_even_with_few_runs():
    summary = summary_of(paper.get("table-1"), RunOptions(runs=5))
    assert len(summary.lines) == 16
    for line in summary.lines:
        assert 0.6 <= line.ours.mean / line.paper.mean <= 1.5, line
    assert len(summary.notes) == 4
    assert "-0.7" in summary.notes[0] or "-0.8" in summary.notes[0]


@pytest.mark.paper
@pytest.mark.parametrize("name", ["table-2", pytest.param("table-6", marks=pytest.mark.smoke)])
def test_the_iris_tables_have_finite_lines_and_a_picture(name, tmp_path):
    summary = summary_of(paper.get(name), RunOptions(runs=1))
    assert all(np.isfinite(line.ours.mean) for line in summary.lines)
    assert all(line.paper is not None for line in summary.lines) == (name == "table-6")
    figures.draw(summary.picture, tmp_path / "figure.png")


def test_table_7_varies_b_alone():
    jobs = paper.get("table-7").plan(RunOptions(runs=1))
    assert {job.given["B"] for job in jobs} == {1, 10, 100}
    assert {(job.given["rho"], job.given["rounds"], job.given["start"]) for job in jobs} == {
        (10, 500, "warm")
    }


def test_table_4_compares_times_within_one_run(monkeypatch):
    monkeypatch.setattr(method_jobs, "QUICK_ROWS", 400)
    monkeypatch.setattr(timing, "ROUNDS", 10)
    assert paper.get("table-4").timed
    summary = summary_of(paper.get("table-4"), RunOptions(runs=1, quick=True))
    kinds = [line.where["measure"] for line in summary.lines]
    assert list(dict.fromkeys(kinds)) == ["iterations", "time per iteration", "accuracy"]
    assert len(kinds) == 12
    assert summary.notes[0].startswith("SKL-KM: an iteration takes 1.00 times as long as SKL-KM's")
    assert summary.notes[-1].startswith("DGC-KM after 20 rounds: ")


@pytest.mark.paper
def test_table_4_finds_the_clusters_with_every_method():
    summary = summary_of(paper.get("table-4"), RunOptions(runs=1, quick=True))
    accuracies = [line.ours.mean for line in summary.lines if line.form == "percent"]
    assert all(60 < value < 75 for value in accuracies)


@pytest.mark.parametrize(
    ("name", "sets"), [("table-3", "HOMOGENEOUS"), ("table-5", "HETEROGENEOUS")]
)
def test_the_tables_of_image_data_have_a_line_per_method_and_set(name, sets, images, monkeypatch):
    cases = getattr(tables, sets)
    for data, case in cases.items():
        monkeypatch.setitem(cases, data, replace(case, quick_rounds=3))
    options = RunOptions(runs=1, quick=True)
    summary = summary_of(paper.get(name), options)
    assert len(summary.lines) == 7 * len(cases)
    assert all(line.paper is not None for line in summary.lines)
    notes = [note.split(",")[0].split(":")[0] for note in summary.notes[1:]]
    titles = {"table-3": ["MNIST7", "CIFAR3", "CIFAR8", "MNIST", "CIFAR10"]}
    assert notes == titles.get(name, ["Iris", "MNIST7", "CIFAR3", "MNIST7"])


def test_one_data_set_may_be_run_alone(images, monkeypatch):
    monkeypatch.setitem(
        tables.HETEROGENEOUS, "iris-het", replace(tables.HETEROGENEOUS["iris-het"], rounds=3)
    )
    summary = summary_of(paper.get("table-5"), RunOptions(runs=1, data=("iris-het",)))
    assert [line.where["data"] for line in summary.lines] == 7 * ["Iris"]
    assert len(summary.notes) == 2


def test_full_sets_are_run_once_unless_asked_how_often():
    experiment = paper.get("table-3")
    keys = [job.key for job in experiment.plan(RunOptions(runs=5, asked=False))]
    assert sum(key.startswith("mnist-DGC-KM") for key in keys) == 1
    assert sum(key.startswith("mnist7-DGC-KM") for key in keys) == 5
    keys = [job.key for job in experiment.plan(RunOptions(runs=5))]
    assert sum(key.startswith("mnist-DGC-KM") for key in keys) == 5


def test_table_5_runs_iris_and_draws_of_mnist7_more_often_unless_asked_how_often():
    experiment = paper.get("table-5")
    for options, iris, draws in (
        (RunOptions(runs=5, asked=False), 20, 40),
        (RunOptions(runs=2, asked=False, quick=True), 2, 2),
        (RunOptions(runs=2), 2, 2),
    ):
        keys = [job.key for job in experiment.plan(options)]
        assert sum(key.startswith("iris-het-DGC-KM") for key in keys) == iris
        assert sum(key.startswith("mnist7-het-SKL-KM") for key in keys) == draws


def test_the_papers_tables_are_whole():
    shapes = {
        "MAXIMUM_DISTANCE": (4, 4), "STARTS": (7, 2), "HOMOGENEOUS": (5, 7), "HUGE": (4, 3),
        "HETEROGENEOUS": (3, 7), "BY_RHO": (3, 4), "BY_UPDATES": (3, 3),
    }  # fmt: skip
    for name, (lines, cells) in shapes.items():
        table = getattr(published, name)
        assert len(table) == lines
        assert all(len(row) == cells for row in table.values())
    assert published.STARTS["DGC-LL"]["random"] == Stat(86.7, 5.5, "86.7 ± 5.5")
