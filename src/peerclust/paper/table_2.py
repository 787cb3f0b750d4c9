"""Table 2: robustness to initialization; accuracy on Iris from warm and from random starts."""

from __future__ import annotations

from collections.abc import Sequence

from peerclust import methods
from peerclust.paper.comparison import dots, select, stat
from peerclust.paper.method_jobs import method_job
from peerclust.paper.published import STARTS
from peerclust.paper.experiment import Experiment, Job, Line, Row, Settings, Summary

RHO = 10
ROUNDS = 1000
BESIDE = ("NK-MEANS", "LSP2P-KM", "CORESET-KM", "CORESET-MED")


def plan(settings: Settings) -> list[Job]:
    """Run each method from both starts; scikit-learn's warm start is its own k-means++."""
    return [
        method_job(
            "iris",
            method,
            start=start,
            sklearn="k-means++" if start == "warm" else "pooled",
            rho=RHO,
            rounds=ROUNDS,
            seed=seed,
        )
        for method in (*STARTS, *BESIDE, *methods.registered())
        for start in ("warm", "random")
        for seed in settings.seeds()
    ]


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:  # noqa: ARG001
    """Compare the accuracies."""
    lines = []
    for start in ("warm", "random"):
        for method in dict.fromkeys(row["method"] for row in rows):
            cell = select(rows, method=method, start=start)
            paper = STARTS[method][start] if method in STARTS else None
            where = {"start": start, "method": method}
            lines.append(Line(where, stat(cell, "accuracy", 100), paper))
    joint = [
        f"{method} {stat(cell, 'accuracy_joint', 100).mean:.1f}"
        for method in dict.fromkeys(row["method"] for row in rows)
        for cell in [select(rows, method=method, start="random")]
    ]
    notes = [
        "Accuracy is that of each user's rows, averaged over users. If the labels of all users are"
        f" matched with the classes at once, from random starts it is (in %): {', '.join(joint)}."
    ]
    picture = dots(lines, panel="start", label="method", x_label="accuracy (%)")
    return Summary(lines, picture, notes)


EXPERIMENT = Experiment("table-2", "robustness to initialization", plan, summarize)
