"""Experiments that the paper does not have, one row each in `EXTRAS` at the end of this file.

- `splits`: how much of the spread of accuracies on Iris comes from the split. The deviations of
  Tables 2, 6 and 7 are over 5 runs. If these share one split of the rows over the users, they do
  not show how much another split would change. Each split is run from several starts, at rho = 10
  and B = 1 as in Table 2.
- `cifar-classes`: which three classes of CIFAR-10 the paper's CIFAR3 can be. The paper says the
  first three. With these, scikit-learn's K-means is far from the numbers of Tables 3 and 5 for
  every draw. So it is run, from one start each, on every three of the ten classes.
- `rivals`: every method on small data sets; accuracy, cost, and bytes sent between users.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from peerclust import baselines, datasets
from peerclust.metrics import accuracy, ari
from peerclust.paper import published
from peerclust.paper.comparison import agrees, dots, select, stat
from peerclust.paper.experiment import Experiment, Job, Line, Row, RunOptions, Stat, Summary
from peerclust.paper.method_jobs import QUICK_ROWS, method_job
from peerclust.paper.settings import SETTINGS, load
from peerclust.report.pictures import Dot, DotPanel, Dots

SPLIT_METHODS = ("DGC-KM", "DGC-HL", "DGC-LL")
STARTS = 5

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
CIFAR3 = {
    "accuracy": published.HOMOGENEOUS["cifar3"]["SKL-KM"],
    "ARI": published.HETEROGENEOUS["cifar3-het"]["SKL-KM"],
}
# How many of the best matching threes are shown.
SHOWN = 5

# The data sets of `rivals` with their rho.
RIVAL_DATA = {"iris": 10, "iris-het": 100, "gaussians": 100}
RIVALS = (
    *("SKL-KM", "CGC-KM", "LGC-KM", "DGC-KM", "DGC-HL", "DGC-LL", "DGC-FL", "ADMM-KM"),
    *("NK-MEANS", "LSP2P-KM", "CORESET-KM", "CORESET-MED"),
)


def plan_splits(options: RunOptions) -> list[Job]:
    """Run each split from each start."""
    task: dict[str, Any] = {"start": "warm", "rho": 10, "rounds": 1000}
    return [
        method_job("iris", method, seed=split, start_seed=start, **task)
        for method in SPLIT_METHODS
        for split in options.seeds()
        for start in range(STARTS)
    ]


def summarize_splits(rows: Sequence[Row], options: RunOptions) -> Summary:
    """Compare the deviation within a split with the deviation of the splits' means."""
    lines, panels = [], []
    for method in SPLIT_METHODS:
        splits = [
            100 * np.array([row["accuracy"] for row in select(rows, method=method, seed=split)])
            for split in options.seeds()
        ]
        table = np.array(splits)
        means = table.mean(axis=1)
        every = (float(table.mean()), float(table.std()))
        for measure, value in (
            ("mean", Stat(*every)),
            (f"deviation over {STARTS} starts of one split", Stat(float(table.std(axis=1).mean()))),
            ("deviation of the splits' means", Stat(float(means.std()))),
            ("lowest mean of a split", Stat(float(means.min()))),
            ("highest mean of a split", Stat(float(means.max()))),
        ):
            lines.append(Line({"method": method, "measure": measure}, value))
        paper = published.STARTS[method]["warm"]
        shown = [
            Dot(f"split {split}", (float(each.mean()), float(each.std())), None)
            for split, each in zip(options.seeds(), splits, strict=True)
        ]
        shown.append(Dot("all splits", every, (paper.mean, paper.std or 0.0)))
        panels.append(DotPanel(method, shown, "accuracy (%)"))
    return Summary(lines, Dots(panels, columns=3))


def plan_classes(options: RunOptions) -> list[Job]:
    """Draw rows of every three classes."""
    n, data_dir = 100 if options.quick else 1000, options.data_dir
    return [
        Job(
            "-".join(map(str, (*classes, seed))),
            cluster_classes,
            {"classes": classes, "n": n, "seed": seed, "data_dir": data_dir},
        )
        for classes in combinations(range(10), 3)
        for seed in options.seeds()
    ]


def cluster_classes(
    *, classes: Sequence[int], n: int, seed: int, data_dir: str | None
) -> list[dict[str, Any]]:
    """Return the accuracy and ARI of scikit-learn's K-means on n rows of each class."""
    from sklearn.cluster import KMeans

    rows, every = load("cifar10", data_dir)
    number = np.full(10, -1)
    number[list(classes)] = range(len(classes))
    rows, truth = datasets.first_classes(rows, number[every], len(classes), n, random_state=seed)
    labels = KMeans(len(classes), n_init=1, random_state=seed).fit_predict(rows)
    name = ", ".join(CLASSES[c] for c in classes)
    scores = {"accuracy": accuracy(truth, labels), "ari": ari(truth, labels)}
    return [{"classes": name, "seed": seed, **scores}]


def summarize_classes(rows: Sequence[Row], options: RunOptions) -> Summary:  # noqa: ARG001
    """Show the first three classes, and those whose numbers are nearest to the paper's."""
    found = {
        name: (
            Line(
                {"classes": name, "measure": "accuracy"},
                stat(cell, "accuracy", "percent"),
                CIFAR3["accuracy"],
            ),
            Line({"classes": name, "measure": "ARI"}, stat(cell, "ari"), CIFAR3["ARI"], "score"),
        )
        for name in dict.fromkeys(row["classes"] for row in rows)
        for cell in [select(rows, classes=name)]
    }

    def distance(name: str) -> float:
        """Return the distance of both numbers, in units of 2 points and of 0.02."""
        right, alike = (line.ours.mean for line in found[name])
        off = (right - CIFAR3["accuracy"].mean) / 2, (alike - CIFAR3["ARI"].mean) / 0.02
        return float(np.hypot(*off))

    first = next(iter(found))
    nearest = [name for name in sorted(found, key=distance) if name != first][:SHOWN]
    lines = [line for name in (first, *nearest) for line in found[name]]
    fitting = sum(all(map(agrees, pair)) for pair in found.values())
    notes = [f"Of the {len(found)} choices of three classes, {fitting} agree with both numbers."]
    panels = [
        panel
        for measure, x_label in (("accuracy", "accuracy (%)"), ("ARI", "ARI"))
        for panel in dots(
            [line for line in lines if line.where["measure"] == measure],
            panel="measure",
            label="classes",
            x_label=x_label,
        ).panels
    ]
    return Summary(lines, Dots(panels), notes)


def plan_rivals(options: RunOptions) -> list[Job]:
    """Run every method on Iris, both ways, and on 40,000 rows of the Gaussian set."""
    given: dict[str, Any] = {"rounds": 200 if options.quick else 1000}
    return [
        method_job(
            data, method, seed=seed, quick=data == "gaussians", start="random", rho=rho, **given
        )
        for data, rho in RIVAL_DATA.items()
        for method in (*RIVALS, *baselines.registered())
        for seed in options.seeds()
    ]


def summarize_rivals(rows: Sequence[Row], options: RunOptions) -> Summary:  # noqa: ARG001
    """Compare accuracy, cost (lowest of all methods = 1) and bytes."""
    lines = []
    for data in RIVAL_DATA:
        more = {"iris-het": ", heterogeneous", "gaussians": f", {QUICK_ROWS:,} rows"}.get(data, "")
        chosen = select(rows, setting=data)
        # Each seed has data of its own, and so a lowest cost of its own.
        least: dict[int, float] = {}
        for row in chosen:
            least[row["seed"]] = min(row["pooled_cost"], least.get(row["seed"], np.inf))
        chosen = [{**row, "share": row["pooled_cost"] / least[row["seed"]]} for row in chosen]
        for measure, column, form in (
            ("accuracy", "accuracy", "percent"),
            ("ARI", "ari", "score"),
            ("pooled cost", "share", "scale"),
            ("bytes", "bytes", "count"),
            ("rounds", "iterations", "count"),
        ):
            for method in dict.fromkeys(row["method"] for row in rows):
                ours = stat(select(chosen, method=method), column, form)
                where = {"data": SETTINGS[data].title + more, "measure": measure, "method": method}
                lines.append(Line(where, Stat(ours.mean) if form == "count" else ours, None, form))
    shown = [line for line in lines if line.where["measure"] == "accuracy"]
    picture = dots(shown, panel="data", label="method", x_label="accuracy (%)", columns=3)
    notes = [
        "Pooled cost is the K-means cost of all rows by one user's centers, averaged over the"
        " users, in units of the lowest that any method found on the same data.",
        "SKL-KM (ten k-means++ starts) and CGC-KM see all rows; the bytes of pooling them are not"
        " counted. LSP2P-KM and the coresets stop by themselves; the others run all rounds.",
    ]
    return Summary(lines, picture, notes)


EXTRAS = (
    Experiment("splits", "accuracy on Iris by split and start", plan_splits, summarize_splits),
    Experiment(
        "cifar-classes",
        "which three classes CIFAR3 can be",
        plan_classes,
        summarize_classes,
        runs=2,
        quick_runs=1,
        needs=("cifar10",),
    ),
    Experiment(
        "rivals", "every method: accuracy, cost, bytes", plan_rivals, summarize_rivals, runs=10
    ),
)
