"""Figure 8: accuracy against rounds and against communications, for different B, on Iris."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from peerclust import methods
from peerclust.experiments.compare import kept_rounds, select, stat
from peerclust.experiments.curves import LOSSES, panels
from peerclust.experiments.plan import Experiment, Job, Line, Row, Settings, Summary
from peerclust.experiments.setting import SETTINGS, make_scene, make_task
from peerclust.metrics import accuracy
from peerclust.programs.protocol import State
from peerclust.report.pictures import Curves
from peerclust.users import Users

UPDATES = (1, 5, 10, 100)
RHO = 10
ROUNDS = 500
BUDGET = 500


def plan(settings: Settings) -> list[Job]:
    """Watch each loss with each number of updates, from random starts."""
    return [
        Job(
            f"{method}-{B}-{seed}",
            watch_accuracy,
            {"method": method, "B": B, "seed": seed, "rho": RHO, "rounds": ROUNDS},
            ROUNDS * (1.0 + B),
        )
        for method in LOSSES
        for B in UPDATES
        for seed in settings.seeds()
    ]


def watch_accuracy(
    *, method: str, B: int, seed: int, rho: float, rounds: int
) -> list[dict[str, Any]]:
    """Give the users' average accuracy at the kept rounds."""
    scene = make_scene(SETTINGS["iris"], seed)
    task = make_task(scene, start="random", rho=rho, rounds=rounds, B=B)
    kept, rows = {*kept_rounds(rounds), BUDGET // B}, []
    users = Users(scene.rows, scene.offsets)

    def on_round(states: Sequence[State], blocks: Sequence[Users]) -> None:  # noqa: ARG001
        t = states[0].round
        if t not in kept:
            return
        # The blocks' labels are those by the centers before this round.
        users.assign(states[0].x)
        labels = np.split(users.labels, scene.offsets[1:-1])
        classes = np.split(scene.classes, scene.offsets[1:-1])
        right = np.mean([accuracy(c, label) for c, label in zip(classes, labels, strict=True)])
        shared = {"method": method, "B": B, "seed": seed}
        rows.append({**shared, "round": t, "accuracy": 100 * float(right)})

    methods.get(method).fit(task, on_round)
    return rows


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:  # noqa: ARG001
    """Draw accuracy against rounds and against B times as many communications."""
    lines = []
    for method in LOSSES:
        for B in UPDATES:
            for measure, t in (("at the end", ROUNDS), (f"after {BUDGET} messages", BUDGET // B)):
                where = {"method": method, "B": str(B), "measure": f"accuracy {measure}"}
                lines.append(
                    Line(where, stat(select(rows, method=method, B=B, round=t), "accuracy"))
                )
    by_round = panels(
        rows, by="B", values=UPDATES, column="accuracy", y_label="accuracy (%)", x_log=True
    )
    by_message = panels(
        rows,
        by="B",
        values=UPDATES,
        column="accuracy",
        y_label="accuracy (%)",
        x_label="communications (B x round)",
        x_log=True,
        stretch=float,
    )
    return Summary(lines, Curves(list(chain(*zip(by_round, by_message, strict=True)))))


EXPERIMENT = Experiment(
    "figure-8", "accuracy against rounds and communications", plan, summarize, runs=10
)
