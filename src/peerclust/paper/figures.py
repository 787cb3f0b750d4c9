"""Figure 4: how the rows of each class are spread over users in the heterogeneous settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peerclust.paper.comparison import select
from peerclust.paper.experiment import Experiment, Job, Line, Row, Settings, Stat, Summary
from peerclust.paper.settings import SETTINGS, make_scene
from peerclust.report.pictures import StackPanel, Stacks

DATA = ("iris-het", "mnist7-het", "cifar3-het")


def plan(settings: Settings) -> list[Job]:
    """Split each data set once."""
    return [
        Job(data, count_classes, {"setting": data, "seed": settings.seed, "data_dir": at})
        for data in settings.chosen(DATA)
        for at in [settings.data_dir if data != "iris-het" else None]
    ]


def count_classes(*, setting: str, seed: int, data_dir: str | None) -> list[dict[str, Any]]:
    """Give how many rows of each class each user holds."""
    scene = make_scene(SETTINGS[setting], seed, data_dir=data_dir)
    return [
        {"setting": setting, "seed": seed, "user": i + 1, "class": c, "rows": int(n)}
        for i, held in enumerate(np.split(scene.classes, scene.offsets[1:-1]))
        for c, n in enumerate(np.bincount(held, minlength=scene.K))
    ]


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:
    """Draw the bars."""
    lines, panels = [], []
    for data in settings.chosen(DATA):
        setting = SETTINGS[data]
        cell = select(rows, setting=data)
        counts = np.array([row["rows"] for row in cell]).reshape(setting.m, setting.K)
        panels.append(StackPanel(setting.title, counts))
        classes = (counts > 0).sum(axis=1)
        for measure, values in (("rows a user", counts.sum(axis=1)), ("classes a user", classes)):
            ours = Stat(float(values.mean()), float(values.std()))
            lines.append(Line({"data": setting.title, "measure": measure}, ours, None, "count"))
    return Summary(lines, Stacks(panels))


EXPERIMENT = Experiment(
    "figure-4",
    "heterogeneous data over users",
    plan,
    summarize,
    runs=1,
    quick_runs=1,
    needs=("mnist", "cifar10"),
    data=DATA,
)
