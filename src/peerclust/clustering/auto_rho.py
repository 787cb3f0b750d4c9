"""rho="auto": pilot runs measure how much users disagree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from peerclust import theory
from peerclust.runtimes.convergence import CheckedRun, Plan
from peerclust.runtimes.protocol import Traffic

# A pilot run stops at this residual or after this many rounds. With a residual above the third
# number it has not converged. A disagreement of at most the fourth number times the target is near
# enough. Beyond the last number times the first rho, no larger one is tried.
TOL = 1e-3
ROUNDS = 1000
_NOT_CONVERGED = 5e-2
_NEAR = 1.2
_LARGEST = 1e12


@dataclass(frozen=True, eq=False)
class RhoSearch:
    """Where the pilot runs ended, the rho that they suggest, and what they took."""

    end: CheckedRun
    rho: float
    why: str
    rounds: int
    traffic: Traffic


def find_rho(
    pilot: Callable[[float, CheckedRun | None], Plan[CheckedRun]],
    first: float,
    spread: float,
    consensus_factor: float | str,
) -> Plan[RhoSearch]:
    """Increase rho from a small value until users disagree by no more than the target.

    `pilot` returns the plan of a pilot run at a rho, from where the last one ended. It lets the
    centers converge. If they do not, and the target is still far, that rho is used: with a larger
    one they would converge even more slowly. Disagreement falls like 1 / rho (thm:cons-conv).
    """
    target = theory.AIMED_DISAGREEMENT
    rho, rounds, traffic = first, 0, Traffic()
    end: CheckedRun | None = None
    while True:
        end = yield from pilot(rho, end)
        rounds, traffic = rounds + end.rounds, traffic + end.run.traffic + end.checks
        measured = end.found.disagreement / spread
        why = f"users disagree by {measured:.2%} of the data's spread; the target was {target:.0%}"
        if measured <= _NEAR * target:
            return RhoSearch(end, rho, why, rounds, traffic)
        if end.found.residual / spread > _NOT_CONVERGED or rho > _LARGEST * first:
            why += ", but a pilot run did not converge"
            return RhoSearch(end, rho, why, rounds, traffic)
        rho = theory.scale_rho(rho, min(measured / target, theory.LARGEST_STEP), consensus_factor)
