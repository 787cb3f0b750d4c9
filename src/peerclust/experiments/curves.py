"""The work of the figures that show a run round by round, on Iris; and the panels they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from peerclust import methods
from peerclust.clustering.cluster import cluster
from peerclust.experiments.compare import curve, kept_rounds, select, stat
from peerclust.experiments.plan import Experiment, Job, Line, Row, Settings, Summary
from peerclust.experiments.setting import SETTINGS, make_scene, make_task
from peerclust.ranks.distribution import Share
from peerclust.report.pictures import CurvePanel, Curves, Series
from peerclust.users import Users

LOSSES = ("DGC-KM", "DGC-HL", "DGC-LL", "DGC-FL")


def cost_sweep(
    name: str,
    title: str,
    *,
    rho: Sequence[int],
    rounds: int,
    B: Sequence[int] = (1,),
    normalized: bool = False,
) -> Experiment:
    """Give the experiment that traces J_rho, or what it is above its last value, for each loss.

    There are several values of `rho` or of `B`, a curve each.
    """
    by, values = ("rho", rho) if len(rho) > 1 else ("B", B)

    def plan(settings: Settings) -> list[Job]:
        return [
            Job(f"{method}-{r}-{b}-{seed}", trace_cost, given, rounds * (1.0 + b))
            for method in LOSSES
            for r in rho
            for b in B
            for seed in settings.seeds()
            for given in [{"method": method, "rho": r, "B": b, "rounds": rounds, "seed": seed}]
        ]

    def summarize(rows: Sequence[Row], settings: Settings) -> Summary:  # noqa: ARG001
        lines = []
        for method in LOSSES:
            for value in values:
                cell = select(rows, method=method, **{by: value})
                last, half = select(cell, round=rounds), select(cell, round=rounds // 2)
                where = {"method": method, by: str(value)}
                measure = {"measure": f"J_rho after round {rounds}"}
                lines.append(Line(where | measure, stat(last, "cost"), form="scale"))
                if normalized:
                    measure = {"measure": f"above that after round {rounds // 2}"}
                    lines.append(Line(where | measure, stat(half, "above_last"), form="scale"))
                else:
                    measure = {"measure": "rounds until 1 % of the way is left"}
                    lines.append(Line(where | measure, stat(last, "settled"), form="count"))
        drawn = panels(
            # The last value less itself has no place on a log axis.
            [row for row in rows if row["round"] < rounds or not normalized],
            by=by,
            values=values,
            column="above_last" if normalized else "cost",
            y_label=r"$J_\rho^t - J_\rho^T$" if normalized else r"$J_\rho$",
            x_log=not normalized,
            y_log=True,
        )
        return Summary(lines, Curves(drawn), [count_rises(rows)])

    return Experiment(name, title, plan, summarize, runs=10)


def trace_cost(*, method: str, rho: float, B: int, rounds: int, seed: int) -> list[dict[str, Any]]:
    """Give J_rho after the kept rounds, less its last value too, and in how many rounds it rose."""
    scene = make_scene(SETTINGS["iris"], seed)
    start = make_task(scene, start="warm", rho=rho, rounds=rounds).start
    loss = methods.LOSSES[method.removeprefix("DGC-")]
    solution = cluster(
        scene.parts,
        n_clusters=scene.K,
        graph=scene.graph,
        loss=loss,
        solver="dgc",
        rho=rho,
        alpha="paper",
        B=B,
        rounds=rounds,
        tol=0,
        init=start,
        trace=True,
    )
    assert solution.trace is not None
    # From the start on: cost[t] is that after round t.
    users = Users(scene.rows, scene.offsets, loss=loss)
    users.assign(start)
    first = float(users.cost(start).sum()) / rho + 0.5 * Share.of_all(scene.graph).energy(start)
    cost = np.concatenate([[first], solution.trace.cost])
    # A rise within rounding of the sum is none.
    rises = int((np.diff(cost) > 1e-12 * cost[:-1]).sum())
    above = cost - cost[-1]
    settled = int(np.flatnonzero(above > 0.01 * above[0])[-1]) + 1
    shared = {"method": method, "rho": rho, "B": B, "seed": seed, "rises": rises}
    return [
        {**shared, "settled": settled, "round": t, "cost": cost[t], "above_last": above[t]}
        for t in kept_rounds(rounds)
    ]


def panels(
    rows: Sequence[Row],
    *,
    by: str,
    values: Sequence[Any],
    column: str,
    y_label: str,
    x_log: bool = False,
    y_log: bool = False,
    x_label: str = "round",
    stretch: Callable[[Any], float] = lambda _: 1.0,
) -> list[CurvePanel]:
    """Give a panel a loss, a curve a value of `by`; rounds are multiplied by `stretch(value)`."""
    made = []
    for method in LOSSES:
        series = []
        for value in values:
            x, mean, std = curve(select(rows, method=method, **{by: value}), column)
            # On a log axis what is zero, or below by rounding, has no place.
            shown = mean > 0 if y_log else np.ones(len(x), bool)
            label = f"{by} = {value}"
            series.append(Series(label, x[shown] * stretch(value), mean[shown], std[shown]))
        made.append(CurvePanel(method, series, x_label, y_label, x_log, y_log))
    return made


def count_rises(rows: Sequence[Row]) -> str:
    """Say in how many rounds of all runs the cost rose."""
    ends = {(row["method"], row["rho"], row["B"], row["seed"]): row for row in rows}
    rises = sum(row["rises"] for row in ends.values())
    rounds = sum(row["round"] for row in ends.values())
    return f"J_rho rose in {rises} of {rounds:,} rounds (the theory says in none)."
