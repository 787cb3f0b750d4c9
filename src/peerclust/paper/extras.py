"""Beside the paper: every method on small sets; accuracy, cost, and bytes sent between users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peerclust import methods
from peerclust.paper.comparison import dots, select, stat
from peerclust.paper.method_jobs import QUICK_ROWS, method_job
from peerclust.paper.experiment import Experiment, Job, Line, Row, Settings, Stat, Summary
from peerclust.paper.settings import SETTINGS

DATA = {"iris": 10, "iris-het": 100, "gaussians": 100}
ROUNDS = 1000
METHODS = (
    *("SKL-KM", "CGC-KM", "LGC-KM", "DGC-KM", "DGC-HL", "DGC-LL", "DGC-FL", "ADMM-KM"),
    *("NK-MEANS", "LSP2P-KM", "CORESET-KM", "CORESET-MED"),
)


def plan(settings: Settings) -> list[Job]:
    """Run every method on Iris, both ways, and on 40,000 rows of the Gaussian set."""
    return [
        method_job(
            data,
            method,
            start="random",
            rho=rho,
            rounds=200 if settings.quick else ROUNDS,
            seed=seed,
            quick=data == "gaussians",
        )
        for data, rho in DATA.items()
        for method in (*METHODS, *methods.registered())
        for seed in settings.seeds()
    ]


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:  # noqa: ARG001
    """Compare accuracy, cost (least of all methods = 1) and bytes."""
    lines = []
    for data in DATA:
        more = {"iris-het": ", heterogeneous", "gaussians": f", {QUICK_ROWS:,} rows"}.get(data, "")
        title = SETTINGS[data].title + more
        cells = {
            method: select(rows, setting=data, method=method)
            for method in dict.fromkeys(row["method"] for row in rows)
        }
        # Each seed has data of its own, and so a least cost of its own.
        least: dict[int, float] = {}
        for row in select(rows, setting=data):
            least[row["seed"]] = min(row["pooled_cost"], least.get(row["seed"], np.inf))
        for measure in ("accuracy", "ARI", "pooled cost", "bytes", "rounds"):
            for method, cell in cells.items():
                where = {"data": title, "measure": measure, "method": method}
                if measure == "accuracy":
                    line = Line(where, stat(cell, "accuracy", 100))
                elif measure == "ARI":
                    line = Line(where, stat(cell, "ari"), form="score")
                elif measure == "pooled cost":
                    share = [{"cost": row["pooled_cost"] / least[row["seed"]]} for row in cell]
                    line = Line(where, stat(share, "cost"), form="scale")
                else:
                    column = "iterations" if measure == "rounds" else "bytes"
                    line = Line(where, Stat(stat(cell, column).mean), form="count")
                lines.append(line)
    shown = [line for line in lines if line.where["measure"] == "accuracy"]
    picture = dots(shown, panel="data", label="method", x_label="accuracy (%)", columns=3)
    notes = [
        "Pooled cost is the K-means cost of all rows by one user's centers, averaged over the"
        " users, in units of the least that any method found on the same data.",
        "SKL-KM (ten k-means++ starts) and CGC-KM see all rows; bringing these together is not"
        " counted. LSP2P-KM and the coresets stop by themselves; the others make all rounds.",
    ]
    return Summary(lines, picture, notes)


EXPERIMENT = Experiment("rivals", "every method: accuracy, cost, bytes", plan, summarize, runs=10)
