"""The measured rho="auto" of `cluster`: pilot runs measure how much users disagree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from peerclust import theory
from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.clustering.solvers import TunedSolver
from peerclust.clustering.trace import Tracer
from peerclust.runtimes.protocol import Traffic

# A pilot run stops at this residual or after this many rounds. With a residual above the third
# number it has not converged. Beyond the last number, no larger rho is tried.
_TOL = 1e-3
_ROUNDS = 1000
_NOT_CONVERGED = 5e-2
_LARGEST_RHO = 1e12


@dataclass(frozen=True, eq=False)
class RhoSearch:
    """Where the pilot runs ended, the rho that they suggest, and what they took."""

    x: Array
    rho: float
    why: str
    rounds: int
    traffic: Traffic


def find_rho(
    problem: Problem,
    tune: Callable[[float], TunedSolver],
    x: Array,
    consensus_factor: float | str,
    known: float | None,
    progress: Callable[[int, float], None] | None,
) -> RhoSearch:
    """Increase rho from a small value until the target disagreement is within reach.

    A pilot run at each rho lets the centers converge. If they do not, and the target is still far,
    that rho is used: with a larger one they would converge even more slowly. If rho is already
    `known`, only the pilot run at the first small rho is made.
    """
    target = theory.AIMED_DISAGREEMENT
    rho, rounds, traffic = problem.initial_rho(consensus_factor), 0, Traffic()
    while True:
        tuned = tune(rho)
        tracer = Tracer(problem, tuned, record=False, progress=progress)
        on_round = tracer if progress else None
        run = problem.run(tuned.program, x, _ROUNDS, _TOL, on_round)
        x, rounds, traffic = run.x, rounds + run.rounds, traffic + run.traffic
        if known is not None:
            return RhoSearch(x, known, "", rounds, traffic)
        measured = problem.disagreement(x)
        found = f"users disagreed by {measured:.2%} of the data's spread at rho = {rho:.4g}; "
        if measured <= target:
            return RhoSearch(x, rho, f"{found}the target was {target:.0%}", rounds, traffic)
        if measured <= theory.LARGEST_STEP * target:
            larger = theory.scale_rho(rho, measured / target, consensus_factor)
            why = f"{found}disagreement falls like 1/rho, so {larger:.4g} aims at {target:.0%}"
            return RhoSearch(x, larger, why, rounds, traffic)
        if problem.residual(run.states) > _NOT_CONVERGED or rho > _LARGEST_RHO:
            why = f"{found}the target was {target:.0%}, but {_ROUNDS} rounds did not converge"
            return RhoSearch(x, rho, why, rounds, traffic)
        rho = theory.scale_rho(rho, theory.LARGEST_STEP, consensus_factor)
