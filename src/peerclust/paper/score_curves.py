"""Figures 8 and 9: accuracy and ARI round by round on Iris, for different B and numbers of users.

Figure 9: the paper finds the same final accuracy for every m. Where ours differ after its T = 4000
rounds, two more runs of each show why: the same start continued until it converges, and one start
common to all users, and to all m, run until it converges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import baselines, datasets, graphs, partition
from peerclust.baselines import Task
from peerclust.clustering.cluster import cluster
from peerclust.metrics import accuracy, ari
from peerclust.paper.comparison import select, stat
from peerclust.paper.curves import METHODS, curve, kept_rounds, panels
from peerclust.paper.experiment import Job, Line, Row, RunOptions, Summary
from peerclust.paper.settings import (
    SETTINGS,
    Instance,
    draw_instance,
    draw_seeds,
    make_instance,
    make_task,
)
from peerclust.programs.protocol import State
from peerclust.report.pictures import CurvePanel, Curves, Series
from peerclust.users import Users

Labels = NDArray[np.int32]

# Figure 8: B, and the number of communications after which the values of B are compared.
UPDATES = (1, 5, 10, 100)
BUDGET = 500

# Figure 9: m, and the residuals at which a run counts as converged, and as nearly so.
USERS = (10, 15, 25, 30)
CONVERGED = 1e-7
ARRIVED = 1e-3
MOST_ROUNDS = 200_000
K = 3


def score_rounds(
    method: str, task: Task, rounds: Iterable[int], score: Callable[[Labels], float]
) -> list[tuple[int, float]]:
    """Return each of the rounds with the score of all labels by the centers after it."""
    users = Users(task.rows, task.offsets)
    kept, found = set(rounds), []

    def on_round(states: Sequence[State], blocks: Sequence[Users]) -> None:  # noqa: ARG001
        if (t := states[0].round) in kept:
            # The blocks' labels are those by the centers before this round.
            found.append((t, score(users.assign(states[0].x).labels)))

    baselines.get(method).fit(task, on_round)
    return found


def plan_updates(options: RunOptions) -> list[Job]:
    """Run each loss with each B, from random starts (Figure 8)."""
    return [
        Job(
            f"{method}-{B}-{seed}",
            trace_accuracy,
            {"method": method, "B": B, "seed": seed, "rho": 10, "rounds": 500},
            500 * (1.0 + B),
        )
        for method in METHODS
        for B in UPDATES
        for seed in options.seeds()
    ]


def trace_accuracy(
    *, method: str, B: int, seed: int, rho: float, rounds: int
) -> list[dict[str, Any]]:
    """Return the users' average accuracy after the kept rounds."""
    instance = draw_instance(SETTINGS["iris"], seed)
    task = make_task(instance, start="random", rho=rho, rounds=rounds, B=B)
    classes = instance.split(instance.classes)

    def score(labels: Labels) -> float:
        parts = zip(classes, instance.split(labels), strict=True)
        return 100 * float(np.mean([accuracy(c, label) for c, label in parts]))

    shared = {"method": method, "B": B, "seed": seed}
    kept = [*kept_rounds(rounds), BUDGET // B]
    return [
        {**shared, "round": t, "accuracy": value}
        for t, value in score_rounds(method, task, kept, score)
    ]


def summarize_updates(rows: Sequence[Row], options: RunOptions) -> Summary:  # noqa: ARG001
    """Draw accuracy against rounds, and against B times as many communications."""
    last = max(row["round"] for row in rows)
    lines = [
        Line(
            {"method": method, "B": str(B), "measure": f"accuracy {measure}"},
            stat(cell, "accuracy"),
        )
        for method in METHODS
        for B in UPDATES
        for measure, t in (("at the end", last), (f"after {BUDGET} messages", BUDGET // B))
        for cell in [select(rows, method=method, B=B, round=t)]
    ]
    given: dict[str, Any] = {"by": "B", "values": UPDATES, "column": "accuracy"}
    given |= {"y_label": "accuracy (%)", "x_log": True}
    by_round = panels(rows, **given)
    by_message = panels(rows, x_label="communications (B x round)", stretch=float, **given)
    return Summary(lines, Curves(list(chain(*zip(by_round, by_message, strict=True)))))


def plan_users(options: RunOptions) -> list[Job]:
    """Trace the paper's run, and run its start and a common one until they converge (Figure 9)."""
    jobs = []
    for m in USERS:
        for seed in options.seeds():
            given = {"m": m, "seed": seed, "rho": 100.0}
            jobs.append(Job(f"curve-{m}-{seed}", trace_ari, {**given, "rounds": 4000}, 4.0))
            for start in ("own", "common"):
                more = {**given, "start": start, "converged": CONVERGED, "arrived": ARRIVED}
                jobs.append(Job(f"{start}-{m}-{seed}", run_on, more, m / 5))
    return jobs


def trace_ari(*, m: int, seed: int, rho: float, rounds: int) -> list[dict[str, Any]]:
    """Return the ARI of all labels after the kept rounds of the paper's run."""
    instance = split_iris(m, seed)
    task = make_task(instance, start="random", rho=rho, rounds=rounds)
    return [
        {"part": "curve", "m": m, "seed": seed, "round": t, "ari": value}
        for t, value in score_rounds(
            "DGC-KM", task, kept_rounds(rounds), lambda labels: ari(instance.classes, labels)
        )
    ]


def run_on(
    *, m: int, seed: int, start: str, rho: float, converged: float, arrived: float
) -> list[dict[str, Any]]:
    """Return the ARI at convergence, and the rounds that the paper's step takes to arrive."""
    instance = split_iris(m, seed)
    x: NDArray[np.float64] = make_task(instance, start="random", rho=rho, rounds=1).start
    if start == "common":
        # The same rows for every m: chosen before the split.
        rows = datasets.iris()[0]
        x = rows[np.random.default_rng(seed).choice(len(rows), K, replace=False)]
    parts = instance.split(instance.rows)
    given: dict[str, Any] = {"n_clusters": K, "graph": instance.graph, "rho": rho, "init": x}
    given |= {"solver": "dgc", "rounds": MOST_ROUNDS}
    end = cluster(parts, tol=converged, **given)
    coarse = cluster(parts, tol=arrived, alpha="paper", **given)
    return [
        {
            **{"part": start, "m": m, "seed": seed, "converged": end.status.converged},
            "ari": ari(instance.classes, np.concatenate(end.labels)),
            "ari_of_mean_centers": ari(instance.classes, end.predict(instance.rows)),
            "disagreement": end.certificate.disagreement,
            "rounds": coarse.certificate.rounds,
        }
    ]


def split_iris(m: int, seed: int) -> Instance:
    """Return Iris split at random over a ring of m users."""
    rows, classes = datasets.iris()
    parts = partition.random(len(rows), m, random_state=seed)
    return make_instance(rows, classes, parts, graphs.ring(m), K, draw_seeds(seed)[-3:])


def summarize_users(rows: Sequence[Row], options: RunOptions) -> Summary:  # noqa: ARG001
    """Draw the curves, and compare the three ends."""
    traced, own, common = (select(rows, part=part) for part in ("curve", "own", "common"))
    last = max(row["round"] for row in traced)
    series = [Series(f"m = {m}", *curve(select(traced, m=m), "ari")) for m in USERS]
    measures = (
        (f"ARI after {last} rounds", select(traced, round=last), "ari", "score"),
        ("ARI once converged", own, "ari", "score"),
        ("ARI once converged, common start", common, "ari", "score"),
        (f"rounds to a residual of {ARRIVED:g}", own, "rounds", "count"),
        ("disagreement", own, "disagreement", "scale"),
    )
    lines = [
        Line({"measure": measure, "m": str(m)}, stat(select(cell, m=m), column), None, form)
        for m in USERS
        for measure, cell, column, form in measures
    ]
    notes = []
    for measure, *_ in measures[:3]:
        means = [line.ours.mean for line in lines if line.where["measure"] == measure]
        notes.append(f"{measure}: the means for the four m differ by at most {np.ptp(means):.3f}.")
    unsettled = sum(not row["converged"] for row in (*own, *common))
    notes.append(f"{unsettled} of the runs to convergence did not converge.")
    panel = CurvePanel("DGC-KM, rho = 100", series, "round", "ARI", x_log=True)
    return Summary(lines, Curves([panel], columns=1), notes)
