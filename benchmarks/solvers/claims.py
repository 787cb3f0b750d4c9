"""The claims made about single solvers, on Iris over ring(10) and from several seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.measures import Measure, Progress, or_not_reached
from benchmarks.solvers.cases import RING_IRIS, Case, run_solver, tune
from benchmarks.solvers.trajectories import count_rounds, format_level, record
from peerclust.arrays import Array
from peerclust.clustering.certificate import solver_cost
from peerclust.clustering.problem import Problem
from peerclust.clustering.solvers import TunedSolver

SEEDS = range(10)

# Centers within this distance of the fixed point are near it; the run that finds the fixed point
# has at most this many rounds.
_NEAR = 1e-3
_MAX_ROUNDS = 60_000


@dataclass(frozen=True)
class FixedPoint:
    """The fixed point of a penalized solver: the rounds until it was near, and J_rho there."""

    rounds: int
    cost: float


def measure_claims(progress: Progress) -> Iterator[Measure]:
    """Yield the measures of all claims."""
    for rho, target in ((100.0, 1 / 12), (1000.0, 1 / 25)):
        progress(f"accelerated compared with dgc at rho = {rho:g}, {RING_IRIS}")
        yield from _compare_with_dgc(rho, target)
    # A sum takes 10 exchanges on this ring; finite-time averaging, which it replaced, took 5.
    for loss, target in (("kmeans", 200), ("huber", 400), ("logistic", 700), ("fair", 1200)):
        progress(f"exact with the {loss} loss, {RING_IRIS}")
        yield _count_rounds(f"exact_{loss}", "exact", RING_IRIS, loss, level=1e-9, target=target)
    for case in (RING_IRIS, Case("iris", "ring(10)", "het")):
        progress(f"admm, {case}")
        yield _count_rounds(f"admm_{case.split}", "admm", case, "kmeans", level=1e-6, target=250)


def _compare_with_dgc(rho: float, target: float) -> Iterator[Measure]:
    """Yield the rounds and the cost of `accelerated` / those of `dgc` with the paper's step."""
    ours, theirs = [], []
    for seed in SEEDS:
        problem, x = RING_IRIS.prepare(seed, init="random")
        ours.append(find_fixed_point(problem, tune(problem, x, "accelerated", rho=rho), x))
        theirs.append(find_fixed_point(problem, tune(problem, x, "dgc", rho=rho, alpha="paper"), x))
    pairs = list(zip(ours, theirs, strict=True))
    share = median(a.rounds / b.rounds for a, b in pairs)
    yield Measure(
        f"accelerated_rounds_rho_{rho:g}",
        share,
        f"of the rounds of dgc with the paper's step (1/{1 / share:.1f}), until every center is"
        f" within {_NEAR:g} of its fixed point; medians {median(a.rounds for a in ours):g} and"
        f" {median(b.rounds for b in theirs):g}; median of {len(pairs)} random starts",
        at_most=target,
    )
    yield Measure(
        f"accelerated_cost_rho_{rho:g}",
        max(a.cost / b.cost for a, b in pairs),
        f"J_rho at the fixed point / that of dgc; largest of {len(pairs)}",
        at_most=1.001,
    )


def find_fixed_point(problem: Problem, tuned: TunedSolver, x: Array) -> FixedPoint:
    """Run a penalized solver to its fixed point and count the rounds until it was near."""
    iterates: list[Array] = []
    run = run_solver(
        problem,
        tuned,
        x,
        rounds=_MAX_ROUNDS,
        tol=1e-8,
        on_round=lambda states, _: iterates.append(states[0].x),
    )
    distance = np.array([np.linalg.norm(each - run.x, axis=2).max() for each in iterates])
    rounds = count_rounds(distance, _NEAR)
    assert rounds is not None  # the last iterate is the fixed point
    costs = problem.users.cost(problem.users.assign(run.x), run.x)
    return FixedPoint(rounds, solver_cost(problem, costs, run.x, tuned))


def _count_rounds(
    name: str, solver: str, case: Case, loss: str, *, level: float, target: int
) -> Measure:
    """Return the largest number of rounds to a level over all seeds."""
    rounds = []
    for seed in SEEDS:
        problem, x = case.prepare(seed, loss=loss)
        path = record(
            problem, tune(problem, x, solver), x, rounds=5000, tol=level / 10, cutoff=level
        )
        rounds.append(path.reach(level).rounds)
    return Measure(
        f"{name}_rounds",
        or_not_reached(max(rounds)),
        f"to a residual and disagreement of {format_level(level)}, {case}; largest of"
        f" {len(rounds)} seeds, median {median(rounds):g}",
        at_most=target,
    )
