"""Figures 2, 6 and 7: the cost J_rho round by round on Iris, for different rho or B."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peerclust import baselines
from peerclust.clustering.cluster import cluster
from peerclust.paper.comparison import select, stat
from peerclust.paper.curves import METHODS, kept_rounds, panels
from peerclust.paper.experiment import Experiment, Job, Line, Row, RunOptions, Summary
from peerclust.paper.settings import SETTINGS, draw_instance, make_task
from peerclust.ranks.distribution import Distribution
from peerclust.report.pictures import Curves
from peerclust.users import Users


def cost_curves(
    name: str,
    title: str,
    *,
    rho: Sequence[int],
    rounds: int,
    B: Sequence[int] = (1,),
    normalized: bool = False,
) -> Experiment:
    """Return the experiment that traces J_rho of each loss, with one curve per `rho` or `B`.

    If `normalized`, it shows J_rho minus its last value.
    """
    by, values = ("rho", rho) if len(rho) > 1 else ("B", B)

    def plan(options: RunOptions) -> list[Job]:
        return [
            Job(f"{method}-{r}-{b}-{seed}", trace_cost, given, rounds * (1.0 + b))
            for method in METHODS
            for r in rho
            for b in B
            for seed in options.seeds()
            for given in [{"method": method, "rho": r, "B": b, "rounds": rounds, "seed": seed}]
        ]

    def summarize(rows: Sequence[Row], options: RunOptions) -> Summary:  # noqa: ARG001
        lines = []
        for method in METHODS:
            for value in values:
                cell = select(rows, method=method, **{by: value})
                last, half = select(cell, round=rounds), select(cell, round=rounds // 2)
                second = ("rounds to cover 99 % of the descent", stat(last, "settled"), "count")
                if normalized:
                    above = f"above that after round {rounds // 2}"
                    second = (above, stat(half, "above_last"), "scale")
                first = (f"J_rho after round {rounds}", stat(last, "cost"), "scale")
                for measure, ours, form in (first, second):
                    where = {"method": method, by: str(value), "measure": measure}
                    lines.append(Line(where, ours, form=form))
        drawn = panels(
            # The last value minus itself has no place on a log axis.
            [row for row in rows if row["round"] < rounds or not normalized],
            by=by,
            values=values,
            column="above_last" if normalized else "cost",
            y_label=r"$J_\rho^t - J_\rho^T$" if normalized else r"$J_\rho$",
            x_log=not normalized,
            y_log=True,
        )
        ends = select(rows, round=rounds)
        rises, all_rounds = sum(row["rises"] for row in ends), rounds * len(ends)
        note = f"J_rho rose in {rises} of {all_rounds:,} rounds (in none, by the theory)."
        return Summary(lines, Curves(drawn), [note])

    return Experiment(name, title, plan, summarize, runs=10)


def trace_cost(*, method: str, rho: float, B: int, rounds: int, seed: int) -> list[dict[str, Any]]:
    """Return J_rho after the kept rounds, also minus its last value, and how often it rose.

    A run has `settled` once the cost has covered 99 % of the way from the start to its last value.
    """
    instance = draw_instance(SETTINGS["iris"], seed)
    start = make_task(instance, start="warm", rho=rho, rounds=rounds).start
    loss = baselines.LOSSES[method.removeprefix("DGC-")]
    given: dict[str, Any] = {"n_clusters": instance.K, "graph": instance.graph, "loss": loss}
    given |= {"solver": "dgc", "rho": rho, "alpha": "paper", "B": B, "rounds": rounds, "tol": 0}
    solution = cluster(instance.split(instance.rows), init=start, trace=True, **given)
    assert solution.trace is not None
    # With the cost of the start in front, cost[t] is the cost after round t.
    users = Users(instance.rows, instance.offsets, loss=loss)
    assignment = users.assign(start)
    first = float(users.cost(assignment, start).sum()) / rho + 0.5 * Distribution.of_all(
        instance.graph
    ).energy(start)
    cost = np.concatenate([[first], solution.trace.cost])
    # A rise within the rounding error of the sum does not count.
    rises = int((np.diff(cost) > 1e-12 * cost[:-1]).sum())
    above = cost - cost[-1]
    settled = int(np.flatnonzero(above > 0.01 * above[0])[-1]) + 1
    shared = {"method": method, "rho": rho, "B": B, "seed": seed, "rises": rises}
    return [
        {**shared, "settled": settled, "round": t, "cost": cost[t], "above_last": above[t]}
        for t in kept_rounds(rounds)
    ]
