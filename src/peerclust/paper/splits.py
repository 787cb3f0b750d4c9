"""Beside the paper: how much of the spread of accuracies on Iris comes from the split.

The deviations of tables 2, 6 and 7 are over 5 runs. If these share one split of the rows over the
users, they do not tell how far another split would be; this does. Each split is run from several
starts, at rho = 10 and B = 1 as in table 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peerclust.paper.comparison import select
from peerclust.paper.method_jobs import method_job
from peerclust.paper.published import STARTS as PAPER
from peerclust.paper.experiment import Experiment, Job, Line, Row, Settings, Stat, Summary
from peerclust.report.pictures import Dot, DotPanel, Dots

METHODS = ("DGC-KM", "DGC-HL", "DGC-LL")
STARTS = 5
RHO = 10
ROUNDS = 1000


def plan(settings: Settings) -> list[Job]:
    """Run each split from each start."""
    return [
        method_job(
            "iris", method, seed=split, start_seed=start, start="warm", rho=RHO, rounds=ROUNDS
        )
        for method in METHODS
        for split in settings.seeds()
        for start in range(STARTS)
    ]


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:
    """Set the deviation within a split beside that between the splits' means."""
    lines, panels = [], []
    for method in METHODS:
        table = 100 * np.array(
            [
                [row["accuracy"] for row in select(rows, method=method, seed=split)]
                for split in settings.seeds()
            ]
        )
        means = table.mean(axis=1)
        for measure, value in (
            ("mean", Stat(float(table.mean()), float(table.std()))),
            (f"deviation over {STARTS} starts of one split", Stat(float(table.std(axis=1).mean()))),
            ("deviation of the splits' means", Stat(float(means.std()))),
            ("lowest mean of a split", Stat(float(means.min()))),
            ("highest mean of a split", Stat(float(means.max()))),
        ):
            lines.append(Line({"method": method, "measure": measure}, value))
        paper = PAPER[method]["warm"]
        shown = [
            Dot(f"split {split}", (float(each.mean()), float(each.std())), None)
            for split, each in zip(settings.seeds(), table, strict=True)
        ]
        mean = (float(table.mean()), float(table.std()))
        shown.append(Dot("all splits", mean, (paper.mean, paper.std or 0.0)))
        panels.append(DotPanel(method, shown, "accuracy (%)"))
    return Summary(lines, Dots(panels, columns=3))


EXPERIMENT = Experiment("splits", "accuracy on Iris by split and start", plan, summarize)
