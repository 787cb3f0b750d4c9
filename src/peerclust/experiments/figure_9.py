"""Figure 9: ARI of DGC-KM for m = 10, 15, 25, 30 users, on Iris split at random.

The paper finds the same final accuracy for every m. Where ours differ after its T = 4000 rounds,
two more runs of each tell why: the same start run on until it converges, and one start common to
all users, and to all m, run until it converges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import datasets, graphs, methods, partition
from peerclust.clustering.cluster import cluster
from peerclust.experiments.compare import curve, kept_rounds, select, stat
from peerclust.experiments.plan import Experiment, Job, Line, Row, Settings, Summary
from peerclust.experiments.setting import Scene, draw_seeds, gather, make_task
from peerclust.metrics import ari
from peerclust.programs.protocol import State
from peerclust.report.pictures import CurvePanel, Curves, Series
from peerclust.users import Users

USERS = (10, 15, 25, 30)
RHO = 100.0
ROUNDS = 4000
K = 3
# A run has converged when its residual is below this, and has arrived when below that.
CONVERGED = 1e-7
ARRIVED = 1e-3
MOST_ROUNDS = 200_000


def plan(settings: Settings) -> list[Job]:
    """Watch the paper's run, and run on from its start and from a common one."""
    jobs = []
    for m in USERS:
        for seed in settings.seeds():
            given = {"m": m, "seed": seed, "rho": RHO}
            watched = {**given, "rounds": ROUNDS}
            jobs.append(Job(f"curve-{m}-{seed}", watch_ari, watched, 4.0))
            for start in ("own", "common"):
                more = {**given, "start": start, "converged": CONVERGED, "arrived": ARRIVED}
                jobs.append(Job(f"{start}-{m}-{seed}", run_on, more, m / 5))
    return jobs


def watch_ari(*, m: int, seed: int, rho: float, rounds: int) -> list[dict[str, Any]]:
    """Give the ARI of all labels at the kept rounds of the paper's run."""
    scene = _scene(m, seed)
    kept, rows = set(kept_rounds(rounds)), []
    users = Users(scene.rows, scene.offsets)

    def watch(states: Sequence[State], blocks: Sequence[Users]) -> None:  # noqa: ARG001
        if (t := states[0].round) in kept:
            # The blocks' labels are those by the centers before this round.
            users.assign(states[0].x)
            score = ari(scene.classes, users.labels)
            rows.append({"part": "curve", "m": m, "seed": seed, "round": t, "ari": score})

    task = make_task(scene, start="random", rho=rho, rounds=rounds)
    methods.get("DGC-KM").fit(task, watch)
    return rows


def run_on(
    *, m: int, seed: int, start: str, rho: float, converged: float, arrived: float
) -> list[dict[str, Any]]:
    """Give the ARI once converged, and the rounds until the paper's step has arrived."""
    scene = _scene(m, seed)
    x: NDArray[np.float64] = make_task(scene, start="random", rho=rho, rounds=1).start
    if start == "common":
        # The same rows for every m: chosen before the split.
        rows = datasets.iris()[0]
        x = rows[np.random.default_rng(seed).choice(len(rows), K, replace=False)]
    given: dict[str, Any] = {"n_clusters": K, "graph": scene.graph, "rho": rho}
    given["solver"] = "dgc"
    end = cluster(scene.parts, init=x, rounds=MOST_ROUNDS, tol=converged, **given)
    coarse = cluster(scene.parts, init=x, rounds=MOST_ROUNDS, tol=arrived, alpha="paper", **given)
    row = {"part": start, "m": m, "seed": seed, "converged": end.status.converged}
    row |= {"ari": ari(scene.classes, np.concatenate(end.labels))}
    row |= {"ari_of_mean_centers": ari(scene.classes, end.predict(scene.rows))}
    row |= {"disagreement": end.certificate.disagreement, "rounds": coarse.certificate.rounds}
    return [row]


def _scene(m: int, seed: int) -> Scene:
    rows, classes = datasets.iris()
    parts = partition.random(len(rows), m, random_state=seed)
    return gather(rows, classes, parts, graphs.ring(m), K, draw_seeds(seed)[-3:])


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:  # noqa: ARG001
    """Draw the curves, and set the three ends beside each other."""
    lines, series = [], []
    ends = {}
    for m in USERS:
        x, mean, std = curve(select(rows, part="curve", m=m), "ari")
        series.append(Series(f"m = {m}", x, mean, std))
        for measure, cell, column, form in (
            (
                f"ARI after {ROUNDS} rounds",
                select(rows, part="curve", round=ROUNDS),
                "ari",
                "score",
            ),
            ("ARI once converged", select(rows, part="own"), "ari", "score"),
            ("ARI once converged, common start", select(rows, part="common"), "ari", "score"),
            (f"rounds to a residual of {ARRIVED:g}", select(rows, part="own"), "rounds", "count"),
            ("disagreement", select(rows, part="own"), "disagreement", "scale"),
        ):
            ours = stat(select(cell, m=m), column)
            ends[measure, m] = ours.mean
            lines.append(Line({"measure": measure, "m": str(m)}, ours, None, form))
    measures = list(dict.fromkeys(measure for measure, _ in ends))
    notes = []
    for measure in measures[:3]:
        values = [ends[measure, m] for m in USERS]
        notes.append(f"{measure}: the means for the four m are {np.ptp(values):.3f} apart.")
    unsettled = sum(not row["converged"] for row in rows if row["part"] != "curve")
    notes.append(f"{unsettled} of the runs that were to converge did not.")
    panel = CurvePanel("DGC-KM, rho = 100", series, "round", "ARI", x_log=True)
    return Summary(lines, Curves([panel], columns=1), notes)


EXPERIMENT = Experiment(
    "figure-9", "ARI for different numbers of users", plan, summarize, runs=20, quick_runs=2
)
