"""The work of most jobs: run one method once on one of the paper's settings and measure it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import methods
from peerclust.experiments.compare import dots, select, show, stat
from peerclust.experiments.paper import Table
from peerclust.experiments.plan import Experiment, Job, Line, Row, Settings, Stat, Summary
from peerclust.experiments.setting import SETTINGS, Scene, draw_seeds, make_scene, make_task
from peerclust.methods.protocol import check_outcome
from peerclust.metrics import accuracy, ari, cost, measure_disagreement
from peerclust.types import Array

# Sizes of the quick version.
QUICK_PER_CLASS = 100
QUICK_ROWS = 40_000


def method_job(
    setting: str,
    method: str,
    *,
    seed: int,
    quick: bool = False,
    data_dir: str | None = None,
    start_seed: int | None = None,
    **task: Any,
) -> Job:
    """Give the job of one run of a method; `task` are the arguments of `make_task`.

    With a `start_seed` the run's data and split come from `seed`, its starts from that.
    """
    seeds = (seed,) if start_seed is None else (seed, start_seed)
    key = "-".join(str(part) for part in (setting, method, *task.values(), *seeds))
    given = {"setting": setting, "method": method, "seed": seed, "quick": quick, **task}
    given |= {"data_dir": data_dir, "start_seed": start_seed}
    size = _effort(setting, quick) * task["rounds"] * task.get("B", 1)
    effort = size * (0.05 if method == "SKL-KM" else 1.0)
    # The key names a file; k-means++ is the only value with such signs.
    name = key.replace("+", "p")
    # What a user's own method does may have changed since.
    return Job(name, run_method, given, effort, reuse=method in methods.METHODS)


def run_method(
    *,
    setting: str,
    method: str,
    seed: int,
    quick: bool = False,
    data_dir: str | None = None,
    start_seed: int | None = None,
    **task: Any,
) -> list[dict[str, Any]]:
    """Run a method once and give one row.

    `accuracy` and `ari` are those of each user's rows by its own centers, averaged over the users;
    `accuracy_joint` and `ari_joint` take the labels of all users as one labeling. `pooled_cost` is
    the K-means cost of all rows by one user's centers, averaged over the users.
    """
    scene = _scene(setting, seed, quick=quick, data_dir=data_dir)
    if start_seed is not None:
        scene = replace(scene, seeds=draw_seeds(start_seed)[-3:])
    posed = make_task(scene, **task)
    outcome = check_outcome(methods.get(method).fit(posed), posed, method)
    apart = measure_disagreement(outcome.centers)
    row = {"setting": setting, "method": method, **task, "seed": seed, "start_seed": start_seed}
    row |= scores(scene, outcome.labels)
    row |= {
        "disagreement": apart.mean,
        "disagreement_stacked": apart.stacked,
        "pooled_cost": _pooled_cost(scene, outcome.centers),
        "iterations": outcome.rounds,
        "seconds": outcome.seconds,
        "messages": outcome.traffic.messages,
        "bytes": outcome.traffic.bytes,
    }
    return [row]


def _pooled_cost(scene: Scene, centers: Array) -> float:
    different = np.unique(centers, axis=0, return_counts=True)
    each = [cost(scene.rows, x) for x in different[0]]
    return float(np.average(each, weights=different[1]))


def sweep(name: str, title: str, by: str, paper: Table, **task: Any) -> Experiment:
    """Give the experiment of the accuracy on Iris, from a warm start, by one parameter.

    `paper` has a line a method and a column a value of the parameter.
    """
    columns = next(iter(paper.values()))

    def plan(settings: Settings) -> list[Job]:
        return [
            method_job("iris", method, seed=seed, **({"start": "warm"} | task | {by: int(value)}))
            for method in paper
            for value in columns
            for seed in settings.seeds()
        ]

    def summarize(rows: Sequence[Row], settings: Settings) -> Summary:  # noqa: ARG001
        lines = [
            Line(
                {"method": method, by: value},
                stat(select(rows, method=method, **{by: int(value)}), "accuracy", 100),
                known,
            )
            for method, cells in paper.items()
            for value, known in cells.items()
        ]
        picture = dots(lines, panel="method", label=by, x_label="accuracy (%)", columns=3)
        return Summary(lines, picture)

    return Experiment(name, title, plan, summarize)


def compare_methods(
    rows: Sequence[Row],
    paper: Mapping[str, Stat],
    column: str,
    other: str,
    form: str = "percent",
) -> tuple[list[Line], str]:
    """Give a line a method of one data set by a column, and in words what another column has."""
    lines, read = [], []
    factor = 100.0 if form == "percent" else 1.0
    for method in dict.fromkeys(row["method"] for row in rows):
        cell = select(rows, method=method)
        title = SETTINGS[cell[0]["setting"]].title
        where = {"data": title, "method": method, "runs": str(len(cell))}
        lines.append(Line(where, stat(cell, column, factor), paper.get(method), form))
        read.append(f"{method} {show(Stat(stat(cell, other, factor).mean), form)}")
    return lines, ", ".join(read).replace(" %", "")


def scores(scene: Scene, labels: NDArray[np.int32]) -> dict[str, float]:
    """Give accuracy and ARI, averaged over users and of all labels at once."""
    own = [
        (accuracy(scene.classes[a:b], labels[a:b]), ari(scene.classes[a:b], labels[a:b]))
        for a, b in zip(scene.offsets[:-1], scene.offsets[1:], strict=True)
        if b > a
    ]
    right, alike = np.mean(own, axis=0)
    return {
        "accuracy": float(right),
        "accuracy_joint": accuracy(scene.classes, labels),
        "ari": float(alike),
        "ari_joint": ari(scene.classes, labels),
    }


def _scene(name: str, seed: int, *, quick: bool, data_dir: str | None) -> Scene:
    setting, n = SETTINGS[name], None
    if quick and setting.data in ("mnist", "cifar10"):
        most = QUICK_PER_CLASS
        setting = replace(
            setting,
            per_class=None if setting.uneven else most,
            uneven=setting.uneven and most * setting.K,
        )
    if quick and setting.data == "gaussians":
        n = QUICK_ROWS
    return make_scene(setting, seed, data_dir=data_dir, n=n)


def _effort(name: str, quick: bool) -> float:
    """Give about how long a round takes, in the units of a round on Iris."""
    setting = SETTINGS[name]
    d = {"iris": 4, "gaussians": 2, "mnist": 784, "cifar10": 3072}[setting.data]
    n = {"iris": 150, "gaussians": 2_000_000}.get(setting.data, 50_000)
    n = setting.uneven or (setting.per_class or 0) * setting.K or n
    if quick and setting.data != "iris":
        n = QUICK_ROWS if setting.data == "gaussians" else QUICK_PER_CLASS * setting.K
    return 1.0 + n * d * setting.K / 200_000
