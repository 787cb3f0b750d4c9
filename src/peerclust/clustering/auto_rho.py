"""rho="auto": pilot runs that measure how much the users disagree, and the rho that follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from peerclust import theory
from peerclust.clustering.problem import Problem
from peerclust.clustering.solvers import TunedSolver
from peerclust.clustering.trace import Tracer
from peerclust.runtimes.protocol import Traffic
from peerclust.types import Array

# Each pilot run stops at this residual, or after this many rounds; with a residual above the third
# number it has not settled, and beyond the last no larger rho is tried.
_TOL = 1e-3
_ROUNDS = 1000
_UNSETTLED = 5e-2
_LARGEST_RHO = 1e12


@dataclass(frozen=True, eq=False)
class RhoSearch:
    """Where the pilot runs ended, and the rho that they tell."""

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
    """Raise rho from a small one until the disagreement aimed at is within reach.

    At each rho the centers settle first. Where they do not, and the aim is still far, that rho is
    kept: a larger one would settle still less. If rho is `known` already, centers settle at the
    first small one only.
    """
    aimed = theory.AIMED_DISAGREEMENT
    rho, rounds, traffic = problem.initial_rho(consensus_factor), 0, Traffic()
    while True:
        tuned = tune(rho)
        tracer = Tracer(problem, tuned, keep=False, progress=progress)
        on_round = tracer if progress else None
        run = problem.run(tuned.program, x, _ROUNDS, _TOL, on_round)
        x, rounds, traffic = run.x, rounds + run.rounds, traffic + run.traffic
        if known is not None:
            return RhoSearch(x, known, "", rounds, traffic)
        measured = problem.disagreement(x)
        said = f"users disagreed by {measured:.2%} of the data's spread at rho = {rho:.4g}; "
        if measured <= aimed:
            return RhoSearch(x, rho, f"{said}{aimed:.0%} was aimed at", rounds, traffic)
        if measured <= theory.LARGEST_STEP * aimed:
            larger = theory.scale_rho(rho, measured / aimed, consensus_factor)
            why = f"{said}disagreement falls like 1/rho, so {larger:.4g} aims at {aimed:.0%}"
            return RhoSearch(x, larger, why, rounds, traffic)
        if problem.residual(run.states) > _UNSETTLED or rho > _LARGEST_RHO:
            why = f"{said}{aimed:.0%} was aimed at, but {_ROUNDS} rounds did not settle it"
            return RhoSearch(x, rho, why, rounds, traffic)
        rho = theory.scale_rho(rho, theory.LARGEST_STEP, consensus_factor)
