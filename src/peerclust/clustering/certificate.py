"""The certificate of a run, from what its users found; `status` puts it into words."""

from __future__ import annotations

from dataclasses import dataclass

from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.clustering.result import Certificate
from peerclust.clustering.solvers import TunedSolver
from peerclust.programs.certificate import Found
from peerclust.runtimes.protocol import Traffic


@dataclass(frozen=True)
class Effort:
    """What a result took: the run, what came before and beside it, and the search."""

    rounds: int
    run: Traffic
    setup: Traffic
    setup_rounds: int
    search: Traffic
    search_rounds: int
    moves: int
    kept: int


@dataclass(frozen=True)
class Measures:
    """The measures of a certificate; see `Certificate`."""

    residual: float
    pooled_residual: float
    disagreement: float
    disagreement_stacked: float
    cost: float
    pooled_cost: float

    @classmethod
    def of(cls, found: Found, spread: float) -> Measures:
        """Return the measures of what users have found together, for data of this spread.

        The disagreement is an upper bound; see `Found`.
        """
        return cls(
            residual=found.residual / spread,
            pooled_residual=found.pooled_residual / spread,
            disagreement=found.disagreement,
            disagreement_stacked=2.0 * found.radius_stacked,
            cost=found.cost,
            pooled_cost=found.pooled_cost,
        )


def certify(problem: Problem, x: Array, found: Found, effort: Effort) -> Certificate:
    """Return the certificate of centers, (u, K, d), from what all users found at them.

    The disagreement is that of all pairs of users, if they are not too many.
    """
    scales, pairs = problem.scales, problem.distribution.disagreement(x)
    measures = vars(Measures.of(found, scales.spread))
    measures |= {"disagreement": pairs.mean, "disagreement_stacked": pairs.stacked}
    return Certificate(
        **measures,
        disagreement_exact=pairs.exact,
        rounds=effort.rounds,
        messages=effort.run.messages,
        bytes=effort.run.bytes,
        setup_rounds=effort.setup_rounds,
        setup_messages=effort.setup.messages,
        setup_bytes=effort.setup.bytes,
        search_rounds=effort.search_rounds,
        search_messages=effort.search.messages,
        search_bytes=effort.search.bytes,
        moves=effort.moves,
        moves_kept=effort.kept,
        spread=scales.spread,
        largest_weight=scales.W,
    )


def solver_cost(problem: Problem, costs: Array, x: Array, tuned: TunedSolver) -> float:
    """Return J_rho (eq. distributed-gen) for penalized solvers, else the sum of the users' costs.

    `costs` are those of this process's users, (u,), and x is their centers.
    """
    total, rho = problem.distribution.gather_users(costs).sum(), tuned.penalty_rho
    if rho is None:
        return float(total)
    return float(total / rho + 0.5 * tuned.c * problem.distribution.energy(x))
