"""Table 1: the effect of rho on the maximum center distance after T = 500 rounds, on Iris."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peerclust.paper.comparison import dots, select, stat
from peerclust.paper.method_jobs import method_job
from peerclust.paper.published import MAXIMUM_DISTANCE
from peerclust.paper.experiment import Experiment, Job, Line, Row, Settings, Summary

RHOS = (1, 10, 100, 1000)
ROUNDS = 500


def plan(settings: Settings) -> list[Job]:
    """Run each loss at each rho."""
    return [
        method_job("iris", method, start="warm", rho=rho, rounds=ROUNDS, seed=seed)
        for method in MAXIMUM_DISTANCE
        for rho in RHOS
        for seed in settings.seeds()
    ]


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:  # noqa: ARG001
    """Compare the distances, and fit their slope against rho."""
    lines, notes = [], []
    for method, paper in MAXIMUM_DISTANCE.items():
        cells = {rho: select(rows, method=method, rho=rho) for rho in RHOS}
        means = {rho: stat(cell, "disagreement") for rho, cell in cells.items()}
        for rho in RHOS:
            where = {"method": method, "rho": str(rho)}
            lines.append(Line(where, means[rho], paper[str(rho)], "scale"))
        ours = np.polyfit(np.log(RHOS), np.log([means[rho].mean for rho in RHOS]), 1)[0]
        theirs = np.polyfit(np.log(RHOS), np.log([paper[str(rho)].mean for rho in RHOS]), 1)[0]
        beyond = np.polyfit(np.log(RHOS[1:]), np.log([means[rho].mean for rho in RHOS[1:]]), 1)[0]
        stacked = np.mean(
            [
                row["disagreement_stacked"] / row["disagreement"]
                for cell in cells.values()
                for row in cell
            ]
        )
        notes.append(
            f"{method}: the slope of log distance against log rho is {ours:.2f} over the table's"
            f" range (the paper's numbers: {theirs:.2f}), {beyond:.2f} from rho = 10 on. The"
            f" stacked norm that the paper's text defines is {stacked:.2f} times these numbers."
        )
    picture = dots(
        lines, panel="method", label="rho", x_label="maximum center distance", x_log=True
    )
    return Summary(lines, picture, notes)


EXPERIMENT = Experiment("table-1", "effect of rho on the maximum center distance", plan, summarize)
