"""The certificate of a run, computed centrally or by the users; `status` puts it into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.clustering.solution import Certificate
from peerclust.clustering.solvers import TunedSolver
from peerclust.programs.certificate import Certify, Found
from peerclust.programs.protocol import State
from peerclust.runtimes.loop import run_program
from peerclust.runtimes.protocol import Run, Traffic
from peerclust.theory import Scales
from peerclust.users import Assignment


@dataclass(frozen=True)
class Effort:
    """What a result took outside its run: traffic, and the rounds of the choice of rho."""

    traffic: Traffic
    rounds: int


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
    def of(cls, found: Found, scales: Scales, *, penalized: bool) -> Measures:
        """Return the measures of what users, or peers, have found together.

        The disagreement is an upper bound, by the triangle inequality: the distance from one user's
        centers to the mean plus the distance from the mean to another's.
        """
        pooled = found.pooled_gradient / scales.pooled
        disagreement = 2.0 * float(found.radius.mean())
        return cls(
            residual=_residual(scales, found.gradient if penalized else None, pooled, disagreement),
            pooled_residual=pooled,
            disagreement=disagreement,
            disagreement_stacked=2.0 * found.radius_stacked,
            cost=found.cost,
            pooled_cost=found.pooled_cost,
        )


def _residual(
    scales: Scales, gradient: float | None, pooled_residual: float, disagreement: float
) -> float:
    """Return the residual of a result.

    `gradient` is rho times the largest gradient of J_rho, None for solvers that end in consensus.
    """
    if gradient is not None:
        return gradient / scales.residual
    return max(pooled_residual, disagreement / scales.spread)


class Pooled(NamedTuple):
    """Cost and residual of the pooled problem at the mean of all users' centers."""

    cost: float
    residual: float
    assignment: Assignment


def measure_pooled(problem: Problem, x: Array, last: Assignment | None) -> Pooled:
    """Return the pooled measures of users' centers, from their last assignment.

    x is the centers of this process's users, (u, K, d), as everywhere in this module.
    """
    users, distribution = problem.users, problem.distribution
    mean = users.broadcast_centers(distribution.mean(x))
    assignment = users.assign(mean, last)
    gradient = distribution.sum_over_users(users.gradient(assignment, mean))
    residual = np.linalg.norm(gradient, axis=1).max() / problem.scales.pooled
    cost = distribution.gather_users(users.cost(assignment, mean)).sum()
    return Pooled(float(cost), float(residual), assignment)


def certify_centrally(
    problem: Problem,
    run: Run[State],
    tuned: TunedSolver,
    effort: Effort,
    pooled: Pooled,
    assignment: Assignment,
) -> Certificate:
    """Return the certificate of a run, from its pooled measures and its last assignment."""
    users, distribution, x, rho = problem.users, problem.distribution, run.x, tuned.penalty_rho
    disagreement = distribution.disagreement(x)
    gradient = None
    if rho is not None:
        of_users = users.gradient(assignment, x) / rho + tuned.c * distribution.differences(x)
        largest = distribution.max_over_ranks(np.linalg.norm(of_users, axis=2).max())
        gradient = float(rho * largest)
    measures = Measures(
        residual=_residual(problem.scales, gradient, pooled.residual, disagreement.mean),
        pooled_residual=pooled.residual,
        disagreement=disagreement.mean,
        disagreement_stacked=disagreement.stacked,
        cost=solver_cost(problem, users.cost(assignment, x), x, tuned),
        pooled_cost=pooled.cost,
    )
    return _certificate(problem, run, measures, effort, exact=disagreement.exact)


def certify_decentralized(
    problem: Problem, run: Run[State], tuned: TunedSolver, effort: Effort
) -> Certificate:
    """Return the certificate that the users compute among themselves (`programs.certificate`)."""
    users, x, graph = problem.users, run.x, problem.graph
    program = Certify(graph.averaging_factors, m=graph.m, rho=tuned.penalty_rho, c=tuned.c)
    own = run_program(problem.runtime, program, users, x, rounds=program.rounds)
    found = program.read(own.states[0])
    return _certificate(
        problem,
        run,
        Measures.of(found, problem.scales, penalized=tuned.spec.penalized),
        Effort(effort.traffic + own.traffic, effort.rounds),
        found_by="decentralized",
    )


def _certificate(
    problem: Problem,
    run: Run[State],
    measures: Measures,
    effort: Effort,
    *,
    exact: bool = False,
    found_by: str = "central",
) -> Certificate:
    """Return the measures with what they took, and the scales."""
    return Certificate(
        **vars(measures),
        disagreement_exact=exact,
        rounds=run.rounds,
        messages=run.traffic.messages,
        bytes=run.traffic.bytes,
        setup_rounds=effort.rounds,
        setup_messages=effort.traffic.messages,
        setup_bytes=effort.traffic.bytes,
        spread=problem.scales.spread,
        largest_weight=problem.scales.W,
        found_by=found_by,
    )


def solver_cost(problem: Problem, costs: Array, x: Array, tuned: TunedSolver) -> float:
    """Return J_rho (eq. distributed-gen) for penalized solvers, else the sum of the users' costs.

    `costs` are those of this process's users, (u,), and x is their centers.
    """
    total, rho = problem.distribution.gather_users(costs).sum(), tuned.penalty_rho
    if rho is None:
        return float(total)
    return float(total / rho + 0.5 * tuned.c * problem.distribution.energy(x))
