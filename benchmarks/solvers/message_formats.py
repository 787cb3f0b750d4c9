"""Number formats of messages: bytes saved and accuracy lost by accelerated DGC over ring(10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measures import Measure, Progress
from benchmarks.solvers.cases import RING_IRIS, Case, run_solver, tune
from benchmarks.solvers.trajectories import CountingRuntime
from peerclust.arrays import Array
from peerclust.clustering.certificate import solver_cost
from peerclust.clustering.cluster import cluster
from peerclust.programs.lossy import MESSAGE_DTYPES, Lossy
from peerclust.users import Users

SEEDS = range(10)

_RHO = 100.0
_ROUNDS = 2000


@dataclass(frozen=True, eq=False)
class Curve:
    """A run with one message format, round by round.

    bits : (rounds,) array
        The bits that a link has carried until then, in each direction.
    cost : (rounds,) array
        J_rho.
    disagreement : (rounds,) array
        The users' disagreement as a fraction of the spread.
    """

    form: str
    bits: Array
    cost: Array
    disagreement: Array


def measure_formats(progress: Progress) -> Iterator[Measure]:
    """Yield the cost and the bytes with 8-bit messages / with float64."""
    for case in (RING_IRIS, Case("digits", RING_IRIS.graph, RING_IRIS.split)):
        progress(f"8-bit messages, {case}")
        costs, sizes, rounds = [], [], []
        for seed in SEEDS:
            parts, graph, K = case.draw(seed)
            options: dict[str, Any] = {"n_clusters": K, "graph": graph, "random_state": seed}
            options |= {"solver": "accelerated", "rho": _RHO, "rounds": _ROUNDS}
            exact = cluster(parts, **options).certificate
            rounded = cluster(parts, exchange="8-bit", **options).certificate
            costs.append(rounded.cost / exact.cost)
            sizes.append(rounded.bytes / exact.bytes)
            rounds.append(rounded.rounds / exact.rounds)
        setting = f"{case}, accelerated, rho = {_RHO:g}; {len(costs)} seeds"
        largest = f"J_rho / J_rho with float64, {setting}: the largest"
        yield Measure(f"8-bit_{case.data}_cost", max(costs), largest, at_most=1.01)
        yield Measure(
            f"8-bit_{case.data}_bytes",
            median(sizes),
            f"bytes / bytes with float64, {setting}: the median, 1/{1 / median(sizes):.1f}; the"
            f" largest 1/{1 / max(sizes):.1f}; at most {max(rounds):.2f} times as many rounds",
            at_most=1 / 6,
        )


def trace_formats(*, rounds: int = 1000, tol: float = 1e-10) -> list[Curve]:
    """Return a curve of each format on Iris."""
    return [_trace(form, rounds, tol) for form in MESSAGE_DTYPES]


def _trace(form: str, rounds: int, tol: float) -> Curve:
    problem, x = RING_IRIS.prepare(0)
    # The same users again, so that computing the cost does not affect the run.
    users = RING_IRIS.prepare(0)[0].users
    tuned = tune(problem, x, "accelerated", rho=_RHO)
    tuned = replace(tuned, program=Lossy(tuned.program, dtype=form, seed=problem.seed))
    runtime = CountingRuntime(problem.runtime)
    sent, cost, disagreement = [], [], []

    def on_round(states: Sequence[Any], _: Sequence[Users]) -> None:
        x = states[0].x
        cost.append(solver_cost(problem, users.cost(users.assign(x), x), x, tuned))
        disagreement.append(problem.disagreement(x))
        sent.append(runtime.bytes)

    run_solver(problem, tuned, x, rounds=rounds, tol=tol, on_round=on_round, runtime=runtime)
    bits = 8.0 * np.array(sent) / (2 * problem.graph.edges)
    return Curve(form, bits, np.array(cost), np.array(disagreement))
