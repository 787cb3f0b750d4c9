"""Table 4: 2,000,000 rows of four Gaussians; iterations, time per iteration, accuracy.

Times are those of one machine in one run: jobs run one at a time, each with all cores. DGC-KM is
also run for twice as many rounds, which shows whether it had converged after the paper's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peerclust import baselines
from peerclust.paper.comparison import dots, select, show, stat
from peerclust.paper.experiment import Job, Line, Row, RunOptions, Summary
from peerclust.paper.method_jobs import method_job
from peerclust.paper.published import HUGE
from peerclust.report.pictures import DotPanel, Dots

ROUNDS = 1000


def plan(options: RunOptions) -> list[Job]:
    """Run the methods in turns, so that a busy moment of the machine affects all."""
    task: dict[str, Any] = {"start": "random", "sklearn": "pooled", "rho": 100}
    methods = (*HUGE, *baselines.registered())
    return [
        method_job("gaussians", method, **task, rounds=rounds, seed=seed, quick=options.quick)
        for seed in options.seeds()
        for method, rounds in (*((method, ROUNDS) for method in methods), ("DGC-KM", 2 * ROUNDS))
    ]


def summarize(rows: Sequence[Row], options: RunOptions) -> Summary:  # noqa: ARG001
    """Compare the numbers, and times by their ratio to scikit-learn's."""
    timed = [{**row, "each": row["seconds"] / max(row["iterations"], 1)} for row in rows]
    cells = {
        method: select(timed, method=method, rounds=ROUNDS)
        for method in dict.fromkeys(row["method"] for row in rows)
    }
    lines: list[Line] = []
    drawn: list[DotPanel] = []
    for measure, column, known, form in (
        ("iterations", "iterations", "rounds", "count"),
        ("time per iteration", "each", "seconds", "seconds"),
        ("accuracy", "accuracy", "accuracy", "percent"),
    ):
        for method, cell in cells.items():
            paper = HUGE.get(method, {}).get(known)
            where = {"measure": measure, "method": method}
            lines.append(Line(where, stat(cell, column, form), paper, form))
    for form, x_label in (("percent", "accuracy (%)"), ("seconds", "seconds")):
        shown = [line for line in lines if line.form == form]
        log = form == "seconds"
        drawn += dots(shown, panel="measure", label="method", x_label=x_label, x_log=log).panels
    notes = []
    first, paper_first = stat(cells["SKL-KM"], "each"), HUGE["SKL-KM"]["seconds"]
    for method, cell in cells.items():
        theirs = ""
        if method in HUGE:
            ratio = HUGE[method]["seconds"].mean / paper_first.mean
            theirs = f" (the paper's code: {ratio:.1f})"
        share = stat(cell, "each").mean / first.mean
        notes.append(f"{method}: an iteration takes {share:.2f} times as long as SKL-KM's{theirs}.")
    longer = stat(select(timed, method="DGC-KM", rounds=2 * ROUNDS), "accuracy", "percent")
    notes.append(f"DGC-KM after {2 * ROUNDS} rounds: {show(longer, 'percent')} accuracy.")
    return Summary(lines, Dots(drawn), notes)
