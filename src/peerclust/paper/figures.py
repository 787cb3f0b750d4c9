"""The figures of the paper, one row each in `FIGURES` at the end of this file.

Figures 4 and 5 are here; 3 is in `noisy_iris`, 2, 6 and 7 in `cost_curves`, 8 and 9 in
`score_curves`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peerclust import graphs
from peerclust.paper import noisy_iris, score_curves
from peerclust.paper.comparison import select
from peerclust.paper.cost_curves import cost_curves
from peerclust.paper.experiment import Experiment, Job, Line, Row, RunOptions, Stat, Summary
from peerclust.paper.settings import SETTINGS, draw_instance
from peerclust.report.pictures import Network, StackPanel, Stacks

HETEROGENEOUS = ("iris-het", "mnist7-het", "cifar3-het")
RING = 10
RHOS = (1, 10, 100, 1000)


def plan_splits(options: RunOptions) -> list[Job]:
    """Split each heterogeneous data set once (Figure 4)."""
    given = {"seed": options.seed, "data_dir": options.data_dir}
    return [
        Job(data, count_classes, {"setting": data, **given})
        for data in options.chosen(HETEROGENEOUS)
    ]


def count_classes(*, setting: str, seed: int, data_dir: str | None) -> list[dict[str, Any]]:
    """Return how many rows of each class each user holds."""
    instance = draw_instance(SETTINGS[setting], seed, data_dir=data_dir)
    return [
        {"setting": setting, "seed": seed, "user": i + 1, "class": c, "rows": int(n)}
        for i, held in enumerate(instance.split(instance.classes))
        for c, n in enumerate(np.bincount(held, minlength=instance.K))
    ]


def summarize_splits(rows: Sequence[Row], options: RunOptions) -> Summary:
    """Draw one bar per user."""
    lines, panels = [], []
    for data in options.chosen(HETEROGENEOUS):
        setting = SETTINGS[data]
        counts = np.array([row["rows"] for row in select(rows, setting=data)])
        counts = counts.reshape(setting.m, setting.K)
        panels.append(StackPanel(setting.title, counts))
        classes = (counts > 0).sum(axis=1)
        for measure, values in (
            ("rows per user", counts.sum(axis=1)),
            ("classes per user", classes),
        ):
            ours = Stat(float(values.mean()), float(values.std()))
            lines.append(Line({"data": setting.title, "measure": measure}, ours, None, "count"))
    return Summary(lines, Stacks(panels))


def plan_ring(options: RunOptions) -> list[Job]:  # noqa: ARG001
    """Make the graph (Figure 5)."""
    return [Job("ring", list_links, {"m": RING})]


def list_links(*, m: int) -> list[dict[str, Any]]:
    """Return the links of a ring."""
    return [{"from": i + 1, "to": j + 1} for i, j in graphs.ring(m).pairs]


def summarize_ring(rows: Sequence[Row], options: RunOptions) -> Summary:  # noqa: ARG001
    """Draw the ring, and list the numbers that the theory uses."""
    graph = graphs.ring(RING)
    lines = [
        Line({"measure": measure}, Stat(float(value)), None, "scale")
        for measure, value in (
            ("links", len(rows)),
            ("diameter", graph.diameter.value),
            ("lambda_2(L)", graph.lambda_2.value),
            ("lambda_max(L)", graph.lambda_max.value),
        )
    ]
    angle = 2 * np.pi * np.arange(RING) / RING
    places = np.column_stack([np.cos(angle), np.sin(angle)])
    links = np.array([(row["from"] - 1, row["to"] - 1) for row in rows], dtype=np.intp)
    return Summary(lines, Network("Ring of ten users", places, links))


FIGURES = (
    cost_curves("figure-2", "J_rho for different rho", rho=RHOS, rounds=500),
    Experiment(
        "figure-3",
        "outliers: K-means, Huber and ADMM-KM",
        noisy_iris.plan,
        noisy_iris.summarize,
        runs=100,
        quick_runs=4,
    ),
    Experiment(
        "figure-4",
        "heterogeneous data over users",
        plan_splits,
        summarize_splits,
        runs=1,
        quick_runs=1,
        needs=("mnist", "cifar10"),
        data=HETEROGENEOUS,
    ),
    Experiment(
        "figure-5", "the ring of ten users", plan_ring, summarize_ring, runs=1, quick_runs=1
    ),
    cost_curves(
        "figure-6", "normalized cost for different rho", rho=RHOS, rounds=1000, normalized=True
    ),
    cost_curves("figure-7", "J_rho for different B", rho=(10,), B=(1, 10, 100), rounds=500),
    Experiment(
        "figure-8",
        "accuracy against rounds and communications",
        score_curves.plan_updates,
        score_curves.summarize_updates,
        runs=10,
    ),
    Experiment(
        "figure-9",
        "ARI for different numbers of users",
        score_curves.plan_users,
        score_curves.summarize_users,
        quick_runs=2,
    ),
)
