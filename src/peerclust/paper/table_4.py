"""Table 4: 2,000,000 rows of four Gaussians; iterations, time an iteration, accuracy.

Times are those of one machine in one run: jobs go one after the other, each with all cores. DGC-KM
is also run for twice as many rounds, which tells whether it had arrived after the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence

from peerclust import methods
from peerclust.paper.comparison import dots, select, show, stat
from peerclust.paper.method_jobs import method_job
from peerclust.paper.published import HUGE
from peerclust.paper.experiment import Experiment, Job, Line, Row, Settings, Summary
from peerclust.report.pictures import Dots

RHO = 100
ROUNDS = 1000


def plan(settings: Settings) -> list[Job]:
    """Run the methods in turns, so that a busy moment of the machine meets them all."""
    return [
        method_job(
            "gaussians",
            method,
            start="random",
            sklearn="pooled",
            rho=RHO,
            rounds=rounds,
            seed=seed,
            quick=settings.quick,
        )
        for seed in settings.seeds()
        for method, rounds in (
            *((method, ROUNDS) for method in (*HUGE, *methods.registered())),
            ("DGC-KM", 2 * ROUNDS),
        )
    ]


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:  # noqa: ARG001
    """Compare the numbers, and times by their ratio to scikit-learn's."""
    timed = [{**row, "each": row["seconds"] / max(row["iterations"], 1)} for row in rows]
    lines, notes = [], []
    first = stat(select(timed, method="SKL-KM"), "each")
    for method in dict.fromkeys(row["method"] for row in rows):
        cell = select(timed, method=method, rounds=ROUNDS)
        paper = HUGE.get(method, {})
        for measure, column, form, factor in (
            ("iterations", "iterations", "count", 1.0),
            ("time an iteration", "each", "seconds", 1.0),
            ("accuracy", "accuracy", "percent", 100.0),
        ):
            known = paper.get({"iterations": "rounds", "each": "seconds"}.get(column, column))
            where = {"measure": measure, "method": method}
            lines.append(Line(where, stat(cell, column, factor), known, form))
        share = stat(cell, "each").mean / first.mean
        theirs = ""
        if method in HUGE:
            ratio = HUGE[method]["seconds"].mean / HUGE["SKL-KM"]["seconds"].mean
            theirs = f" (the paper's code: {ratio:.1f})"
        notes.append(f"{method}: an iteration takes {share:.2f} of SKL-KM's{theirs}.")
    longer = stat(select(timed, method="DGC-KM", rounds=2 * ROUNDS), "accuracy", 100)
    notes.append(f"DGC-KM after {2 * ROUNDS} rounds: {show(longer, 'percent')} accuracy.")
    measures = list(dict.fromkeys(line.where["measure"] for line in lines))
    lines.sort(key=lambda line: measures.index(line.where["measure"]))
    by = {form: [line for line in lines if line.form == form] for form in ("percent", "seconds")}
    accuracy = dots(by["percent"], panel="measure", label="method", x_label="accuracy (%)")
    time = dots(by["seconds"], panel="measure", label="method", x_label="seconds", x_log=True)
    return Summary(lines, Dots([*accuracy.panels, *time.panels]), notes)


EXPERIMENT = Experiment(
    "table-4", "2,000,000 rows of four Gaussians", plan, summarize, runs=5, timed=True
)
