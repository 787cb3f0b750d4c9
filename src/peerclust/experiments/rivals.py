"""Beside the paper: every method on small sets; accuracy, cost, and bytes sent between users."""

from __future__ import annotations

from collections.abc import Sequence

from peerclust import methods
from peerclust.experiments.compare import dots, select, stat
from peerclust.experiments.measure import method_job
from peerclust.experiments.plan import Experiment, Job, Line, Row, Settings, Stat, Summary
from peerclust.experiments.setting import SETTINGS

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
        title = SETTINGS[data].title + (", heterogeneous" if data == "iris-het" else "")
        cells = {
            method: select(rows, setting=data, method=method)
            for method in dict.fromkeys(row["method"] for row in rows)
        }
        least = min(row["pooled_cost"] for cell in cells.values() for row in cell)
        for measure in ("accuracy", "pooled cost", "bytes"):
            for method, cell in cells.items():
                where = {"data": title, "measure": measure, "method": method}
                if measure == "accuracy":
                    line = Line(where, stat(cell, "accuracy", 100))
                elif measure == "pooled cost":
                    line = Line(where, stat(cell, "pooled_cost", 1 / least), form="scale")
                else:
                    line = Line(where, Stat(stat(cell, "bytes").mean), form="count")
                lines.append(line)
    shown = [line for line in lines if line.where["measure"] == "accuracy"]
    picture = dots(shown, panel="data", label="method", x_label="accuracy (%)", columns=3)
    notes = [
        "Pooled cost is that of all rows by one user's centers, averaged over the users, in units"
        " of the least that any run found.",
        "SKL-KM and CGC-KM see all rows; bringing these together is not counted.",
    ]
    return Summary(lines, picture, notes)


EXPERIMENT = Experiment("rivals", "every method: accuracy, cost, bytes", plan, summarize, runs=10)
