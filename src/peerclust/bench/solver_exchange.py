"""What it takes and costs to send fewer bits: accelerated DGC over ring(10), in every form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from peerclust.bench import Measure
from peerclust.bench.solver_cases import RING_IRIS, Case, tune
from peerclust.bench.solver_courses import letter_size
from peerclust.clustering.certificate import solver_cost
from peerclust.clustering.cluster import cluster
from peerclust.programs.lossy import MESSAGE_DTYPES, Lossy
from peerclust.types import Array
from peerclust.users import Users

SEEDS = range(10)

_RHO = 100.0
_ROUNDS = 2000


@dataclass(frozen=True, eq=False)
class Curve:
    """A run with messages of one form, round by round.

    bits : (rounds,) array
        What a link has carried by then, each way.
    cost : (rounds,) array
        J_rho.
    apart : (rounds,) array
        The users' disagreement as a fraction of the spread.
    """

    form: str
    bits: Array
    cost: Array
    apart: Array


def measure_exchange(say: Callable[[str], None]) -> Iterator[Measure]:
    """Yield cost and bytes with 8-bit messages, in those with float64."""
    for case in (RING_IRIS, Case("digits", RING_IRIS.graph, RING_IRIS.split)):
        say(f"8-bit messages, {case}")
        costs, bytes_, rounds = [], [], []
        for seed in SEEDS:
            parts, graph, K = case.draw(seed)
            options: dict[str, Any] = {"n_clusters": K, "graph": graph, "random_state": seed}
            options |= {"solver": "accelerated", "rho": _RHO, "rounds": _ROUNDS}
            full = cluster(parts, **options).certificate
            coarse = cluster(parts, exchange="8-bit", **options).certificate
            costs.append(coarse.cost / full.cost)
            bytes_.append(coarse.bytes / full.bytes)
            rounds.append(coarse.rounds / full.rounds)
        told = f"of float64's, {case}, accelerated, rho = {_RHO:g}; {len(costs)} seeds:"
        worst = f"J_rho {told} the largest"
        yield Measure(f"8-bit_{case.data}_cost", max(costs), worst, at_most=1.01)
        yield Measure(
            f"8-bit_{case.data}_bytes",
            median(bytes_),
            f"bytes {told} the median, 1/{1 / median(bytes_):.1f}; the largest"
            f" 1/{1 / max(bytes_):.1f}; rounds {max(rounds):.2f} times as many at most",
            at_most=1 / 6,
        )


def trace_forms(*, rounds: int = 1000, tol: float = 1e-10) -> list[Curve]:
    """Give a curve of each form on Iris."""
    return [_trace(form, rounds, tol) for form in MESSAGE_DTYPES]


def _trace(form: str, rounds: int, tol: float) -> Curve:
    problem, x = RING_IRIS.prepare(0)
    # The same users again, whose labels are not the run's.
    users = RING_IRIS.prepare(0)[0].users
    tuned = tune(problem, "accelerated", rho=_RHO)
    program = Lossy(tuned.program, dtype=form, seed=problem.seed)
    letters = [letter_size(program, program.start(problem.users, x))]
    cost, apart = [], []

    def watch(states: Sequence[Any], _: Sequence[Users]) -> None:
        here = states[0].x
        users.assign(here)
        cost.append(solver_cost(problem, users.cost(here), here, tuned))
        apart.append(problem.disagreement(here))
        letters.append(letter_size(program, states[0]))

    problem.run(program, x, rounds, tol, watch)
    # The last letter was not sent any more.
    bits = 8.0 * np.cumsum(letters[:-1])
    return Curve(form, bits, np.array(cost), np.array(apart))
