"""Every experiment, with one run a cell and few rounds: plans, rows, lines and pictures."""

import numpy as np
import pytest

from peerclust import datasets, experiments, methods
from peerclust.experiments import (
    cifar_classes,
    figure_3,
    figure_8,
    figure_9,
    paper,
    setting,
    table_3,
    table_5,
)
from peerclust.experiments.measure import run_method
from peerclust.experiments.plan import Settings
from peerclust.experiments.setting import make_task
from peerclust.report import figures

FAST = ["table-2", "table-6", "figure-5", "figure-6"]


def rows_of(name, settings, keep=lambda job: True):
    jobs = [job for job in experiments.get(name).plan(settings) if keep(job)]
    return [row for job in jobs for row in job.work(**job.given)]


def summary_of(name, settings):
    return experiments.get(name).summarize(rows_of(name, settings), settings)


@pytest.mark.parametrize("name", experiments.NAMES)
def test_every_experiment_has_a_title_and_jobs_with_different_keys(name):
    experiment = experiments.get(name)
    assert experiment.name == name
    assert experiment.title
    for quick in (False, True):
        jobs = experiment.plan(Settings(runs=2, quick=quick))
        assert len({job.key for job in jobs}) == len(jobs) > 0
        assert all("/" not in job.key for job in jobs)


@pytest.mark.parametrize("name", FAST)
def test_the_iris_experiments_give_finite_lines_and_a_picture(name, tmp_path):
    summary = summary_of(name, Settings(runs=1))
    assert summary.lines
    assert all(np.isfinite(line.ours.mean) for line in summary.lines)
    figures.draw(summary.picture, tmp_path / "figure.png")


def test_table_1_comes_near_the_papers_numbers_even_with_few_runs():
    summary = summary_of("table-1", Settings(runs=5))
    assert len(summary.lines) == 16
    for line in summary.lines:
        assert 0.6 <= line.ours.mean / line.paper.mean <= 1.5, line
    assert len(summary.notes) == 4
    assert "-0.7" in summary.notes[0] or "-0.8" in summary.notes[0]


def test_figure_2_never_sees_the_cost_rise():
    summary = summary_of("figure-2", Settings(runs=1))
    assert summary.notes == ["J_rho rose in 0 of 8,000 rounds (the theory says in none)."]


def test_figure_3_finds_the_means_with_huber_and_not_with_kmeans(monkeypatch):
    monkeypatch.setitem(figure_3.FIXED, "starts", 3)
    summary = summary_of("figure-3", Settings(runs=1))
    ours = {(line.where["measure"], line.where["method"]): line.ours for line in summary.lines}
    assert ours["found all three", "DGC-HL"].mean == 100
    assert ours["found all three", "DGC-KM"].mean == 0
    assert ours["outlier AUC", "DGC-HL"].mean >= 0.999
    assert summary.picture.rows.shape == (150, 2)
    assert [name for name, _ in summary.picture.centers] == ["DGC-KM", "DGC-HL", "ADMM-KM"]


def test_splits_tells_the_deviation_within_a_split_from_that_between_them():
    settings = Settings(runs=2)
    rows = [
        {"method": method, "seed": split, "start_seed": start, "accuracy": 0.9 + 0.02 * split}
        for method in ("DGC-KM", "DGC-HL", "DGC-LL")
        for split in (0, 1)
        for start in range(5)
    ]
    lines = experiments.get("splits").summarize(rows, settings).lines
    assert [round(line.ours.mean, 9) for line in lines[:5]] == [91.0, 0.0, 1.0, 90.0, 92.0]


def test_a_start_seed_changes_the_start_and_not_the_split():
    first, other, split = (
        run_method(
            setting="iris", method="LGC-KM", seed=seed, start_seed=start, start="random", rho=1.0,
            rounds=1,
        )[0]
        for seed, start in ((0, 0), (0, 1), (1, 0))
    )  # fmt: skip
    assert len({row["pooled_cost"] for row in (first, other, split)}) == 3


def test_a_start_seed_leaves_the_split_as_it_is(monkeypatch):
    posed = []

    class OnCheckpoint:
        def fit(self, task, on_round=None):
            posed.append(task)
            return methods.get("SKL-KM").fit(task)

    monkeypatch.setitem(methods.METHODS, "KEEP", OnCheckpoint())
    for start in (0, 1):
        run_method(
            setting="iris", method="KEEP", seed=0, start_seed=start, start="random", rho=1.0,
            rounds=1,
        )  # fmt: skip
    assert np.array_equal(posed[0].rows, posed[1].rows)
    assert not np.array_equal(posed[0].start, posed[1].start)


def test_figure_9_starts_differ_from_seed_to_seed():
    places = set()
    for seed in range(4):
        scene = figure_9._scene(10, seed)
        x = make_task(scene, start="random", rho=1.0, rounds=1).start
        # where among its own rows each user's first center is
        places.add(
            tuple(
                int(np.flatnonzero((rows == center).all(axis=1))[0])
                for rows, center in zip(scene.parts, x[:, 0], strict=True)
            )
        )
    assert len(places) == 4


def test_figure_8_labels_by_the_centers_after_the_round():
    (row,) = [
        row
        for row in figure_8.watch_accuracy(method="DGC-KM", B=2, seed=0, rho=10.0, rounds=3)
        if row["round"] == 3
    ]
    end = run_method(
        setting="iris", method="DGC-KM", seed=0, start="random", rho=10.0, rounds=3, B=2
    )[0]
    assert row["accuracy"] == pytest.approx(100 * end["accuracy"])


def test_figure_8_counts_b_communications_a_round():
    settings = Settings(runs=1)
    rows = rows_of("figure-8", settings, lambda job: job.given["B"] < 100)
    rows += [{**row, "B": 100} for row in rows if row["B"] == 5]
    picture = experiments.get("figure-8").summarize(rows, settings).picture
    by_round, by_message = picture.panels[0].series[1], picture.panels[1].series[1]
    assert np.array_equal(by_message.x, 5 * by_round.x)
    assert np.array_equal(by_message.mean, by_round.mean)


def test_figure_9_sets_the_papers_end_beside_the_converged_ones(monkeypatch):
    monkeypatch.setattr(figure_9, "USERS", (10, 15))
    summary = summary_of("figure-9", Settings(runs=1))
    measures = list(dict.fromkeys(line.where["measure"] for line in summary.lines))
    assert measures == [
        "ARI after 4000 rounds",
        "ARI once converged",
        "ARI once converged, common start",
        "rounds to a residual of 0.001",
        "disagreement",
    ]
    rounds = [line.ours.mean for line in summary.lines if line.where["measure"] == measures[3]]
    assert rounds[0] < rounds[1]


def test_table_4_compares_times_within_one_run():
    experiment = experiments.get("table-4")
    assert experiment.timed
    settings = Settings(runs=1, quick=True)
    summary = experiment.summarize(rows_of("table-4", settings), settings)
    kinds = {line.where["measure"] for line in summary.lines}
    assert kinds == {"iterations", "time an iteration", "accuracy"}
    accuracies = [line.ours.mean for line in summary.lines if line.form == "percent"]
    assert all(60 < value < 75 for value in accuracies)
    assert summary.notes[0].startswith("SKL-KM: an iteration takes 1.00 of SKL-KM's")


@pytest.fixture
def images(monkeypatch):
    def make(data_dir=None):
        rng = np.random.default_rng(0)
        classes = np.tile(np.arange(10), 400).astype(np.intp)
        return (rng.random((4000, 5)) + classes[:, None]).astype(np.float32), classes

    monkeypatch.setattr(datasets, "mnist", make)
    monkeypatch.setattr(datasets, "cifar10", make)
    setting.load.cache_clear()
    yield
    setting.load.cache_clear()


@pytest.mark.parametrize(("name", "module"), [("table-3", table_3), ("table-5", table_5)])
def test_the_tables_of_image_data_have_a_line_a_method_and_set(name, module, images, monkeypatch):
    monkeypatch.setattr(module, "QUICK_ROUNDS", 5)
    settings = Settings(runs=1, quick=True, data=tuple(d for d in module.RHOS if "iris" not in d))
    summary = summary_of(name, settings)
    assert len(summary.lines) == 7 * len(settings.data)
    assert all(line.paper is not None for line in summary.lines)


def test_cifar_classes_finds_the_threes_that_agree(monkeypatch):
    rows = [
        {"classes": name, "seed": 0, "accuracy": right, "ari": alike}
        for name, right, alike in [("a, b, c", 0.42, 0.046), ("d, e, f", 0.5, 0.11)]
    ]
    summary = experiments.get("cifar-classes").summarize(rows, Settings(runs=1))
    assert [line.where["classes"] for line in summary.lines[::2]] == ["a, b, c", "d, e, f"]
    assert summary.notes == ["Of the 2 threes of classes, 1 agree with both of the numbers."]


def test_cifar_classes_clusters_the_classes_asked_for(images):
    (row,) = cifar_classes.cluster_classes(classes=(1, 5, 9), n=50, seed=0, data_dir=None)
    assert row["classes"] == "automobile, dog, truck"
    assert row["accuracy"] == row["ari"] == 1.0


def test_figure_4_counts_every_row_once(images, monkeypatch):
    monkeypatch.setitem(
        setting.SETTINGS,
        "mnist7-het",
        setting.Setting("mnist", 7, "MNIST7", uneven=700, per_user=(3, 5)),
    )
    monkeypatch.setitem(
        setting.SETTINGS,
        "cifar3-het",
        setting.Setting("cifar10", 3, "CIFAR3", per_class=50, per_user=2),
    )
    summary = summary_of("figure-4", Settings(runs=1))
    assert [panel.counts.sum() for panel in summary.picture.panels] == [150, 700, 150]


def test_full_sets_are_run_once_unless_asked_how_often():
    experiment = experiments.get("table-3")
    keys = [job.key for job in experiment.plan(Settings(runs=5, asked=False))]
    assert sum(key.startswith("mnist-DGC-KM") for key in keys) == 1
    assert sum(key.startswith("mnist7-DGC-KM") for key in keys) == 5
    keys = [job.key for job in experiment.plan(Settings(runs=5))]
    assert sum(key.startswith("mnist-DGC-KM") for key in keys) == 5


def test_table_5_runs_iris_more_often_unless_asked_how_often():
    experiment = experiments.get("table-5")
    for settings, runs in ((Settings(runs=5, asked=False), 20), (Settings(runs=2), 2)):
        keys = [job.key for job in experiment.plan(settings)]
        assert sum(key.startswith("iris-het-DGC-KM") for key in keys) == runs


def test_the_papers_tables_are_whole():
    shapes = {
        "MAXIMUM_DISTANCE": (4, 4), "STARTS": (7, 2), "HOMOGENEOUS": (5, 7), "HUGE": (4, 3),
        "HETEROGENEOUS": (3, 7), "BY_RHO": (3, 4), "BY_UPDATES": (3, 3),
    }  # fmt: skip
    for name, (lines, cells) in shapes.items():
        table = getattr(paper, name)
        assert len(table) == lines
        assert all(len(row) == cells for row in table.values())
    assert paper.STARTS["DGC-LL"]["random"] == paper.Stat(86.7, 5.5, "86.7 ± 5.5")
