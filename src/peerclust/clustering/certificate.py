"""How a run ended: its certificate and its status. `trace` observes it on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerclust import theory
from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.clustering.solution import Certificate, Status
from peerclust.clustering.solvers import TunedSolver
from peerclust.programs.certificate import Certify
from peerclust.programs.protocol import State
from peerclust.runtimes.loop import run_program
from peerclust.runtimes.protocol import Run, Traffic
from peerclust.users import Assignment


def measure_pooled(
    problem: Problem, x: Array, last: Assignment | None = None
) -> tuple[float, float]:
    """Return (cost, residual) of the pooled problem at the mean of all users' centers.

    x is the centers of this process's users, (u, K, d), as everywhere in this module.
    """
    users, distribution = problem.users, problem.distribution
    mean = users.broadcast_centers(distribution.mean(x))
    assignment = users.assign(mean, last)
    gradient = distribution.sum_over_users(users.gradient(assignment, mean))
    residual = np.linalg.norm(gradient, axis=1).max() / (
        problem.W_total * problem.steepness * problem.spread
    )
    return float(distribution.gather_users(users.cost(assignment, mean)).sum()), float(residual)


def certify_centrally(
    problem: Problem,
    run: Run[State],
    tuned: TunedSolver,
    *,
    at_mean: tuple[float, float],
    setup: Traffic,
    setup_rounds: int,
) -> Certificate:
    """Return the certificate of a run; the users' labels are set to match its last centers.

    `at_mean` is the result of `measure_pooled`, `setup` the traffic outside the run, and
    `setup_rounds` the number of rounds that the choice of rho took.
    """
    users, x = problem.users, run.x
    assignment = users.assign(x)
    disagreement = problem.distribution.disagreement(x)
    residual = max(at_mean[1], disagreement.mean / problem.spread)
    if tuned.penalized and tuned.rho is not None:
        rho, c = tuned.rho, tuned.c
        gradient = users.gradient(assignment, x) / rho + c * problem.distribution.differences(x)
        largest = problem.distribution.max_over_ranks(np.linalg.norm(gradient, axis=2).max())
        residual = float(rho * largest / problem.residual_scale)
    return Certificate(
        residual=residual,
        pooled_residual=at_mean[1],
        disagreement=disagreement.mean,
        disagreement_stacked=disagreement.stacked,
        disagreement_exact=disagreement.exact,
        cost=solver_cost(problem, users.cost(assignment, x), x, tuned),
        pooled_cost=at_mean[0],
        **_effort(problem, run, setup, setup_rounds),
    )


def certify_decentralized(
    problem: Problem, run: Run[State], tuned: TunedSolver, *, setup: Traffic, setup_rounds: int
) -> Certificate:
    """Return the certificate that the users compute among themselves (`programs.certificate`).

    Its disagreement is an upper bound, by the triangle inequality: the distance from one user's
    centers to the mean plus the distance from the mean to another's.
    """
    users, x, graph = problem.users, run.x, problem.graph
    rho = tuned.rho if tuned.penalized else None
    program = Certify(graph.averaging_factors, m=graph.m, rho=rho, c=tuned.c)
    own = run_program(problem.runtime, program, users, x, rounds=program.rounds)
    found = program.read(own.states[0])
    pooled = found.pooled_gradient / (problem.W_total * problem.steepness * problem.spread)
    disagreement = 2.0 * float(found.radius.mean())
    residual = max(pooled, disagreement / problem.spread)
    return Certificate(
        residual=found.gradient / problem.residual_scale if tuned.penalized else residual,
        pooled_residual=pooled,
        disagreement=disagreement,
        disagreement_stacked=2.0 * found.radius_stacked,
        disagreement_exact=False,
        cost=found.cost,
        pooled_cost=found.pooled_cost,
        found_by="decentralized",
        **_effort(problem, run, setup + own.traffic, setup_rounds),
    )


def _effort(problem: Problem, run: Run[State], setup: Traffic, setup_rounds: int) -> dict[str, Any]:
    """Return the fields that both kinds of certificate share: what the run took, and the scales."""
    return {
        "rounds": run.rounds,
        "messages": run.traffic.messages,
        "bytes": run.traffic.bytes,
        "setup_rounds": setup_rounds,
        "setup_messages": setup.messages,
        "setup_bytes": setup.bytes,
        "spread": problem.spread,
        "largest_weight": problem.W,
    }


def decide_status(
    certificate: Certificate,
    tuned: TunedSolver,
    *,
    stopped: bool,
    tol: float,
    dtype: str = "float64",
    noisy: bool = False,
) -> Status:
    """Return how a run ended, with advice.

    `dtype` is the number format of messages; `noisy` is whether some were changed or dropped.
    """
    disagreement = certificate.disagreement / certificate.spread
    closer = ""
    if disagreement > 10 * theory.AIMED_DISAGREEMENT:
        remedy = "more `rounds` bring" if tuned.rho is None else "a larger `rho` brings"
        closer = (
            f" The users' centers still differ by {disagreement:.0%} of the data's spread:"
            f" {remedy} them closer."
        )
    residual = f"the residual is {certificate.residual:.2g}"
    if stopped and certificate.residual <= tol:
        return Status("converged", f"every residual was below {tol:g}.{closer}")
    if stopped and not tuned.penalized and tuned.rho is not None and disagreement > tol:
        return Status(
            "stopped",
            f"stationary, but users' centers differ by {disagreement:.2g} of the data's spread:"
            f" `rho` = {tuned.rho:g} is too small for consensus.",
        )
    if stopped and not tuned.penalized:
        return Status(
            "stopped",
            f"every user's own residual was below {tol:g}, but the joint residual is"
            f" {certificate.residual:.2g}."
            + (
                " With noisy or dropped messages this solver may converge to the wrong point; use"
                " 'accelerated'."
                if noisy
                else " A smaller `tol` reduces it."
            ),
        )
    if stopped:
        return Status(
            "stopped",
            f"every residual was below {tol:g} in one round, but then rows changed cluster or"
            f" momentum moved the centers on, and {residual}. With a smaller `tol` the run"
            f" continues until they settle.{closer}",
        )
    if tol == 0:
        return Status(
            "ran out of rounds",
            f"tol = 0 runs all {certificate.rounds} rounds; {residual}.{closer}",
        )
    ended = f"{residual} after {certificate.rounds} rounds"
    if noisy:
        return Status(
            "ran out of rounds",
            f"{ended}: with noisy or dropped messages the centers keep moving, so {tol:g} may be"
            f" out of reach.{closer}",
        )
    coarse = dtype in ("float32", "float16")
    if certificate.residual <= tol and not coarse:
        return Status(
            "ran out of rounds",
            f"{ended}, below {tol:g}, but the users had not yet agreed to stop. Allow a few more"
            f" `rounds`.{closer}",
        )
    faster = "; a smaller `rho` converges faster" if tuned.penalized else ""
    if coarse:
        faster = f"; {dtype} may be too coarse for this `tol`, '8-bit' is not"
    return Status(
        "ran out of rounds",
        f"{ended}, above `tol` = {tol:g}. Allow more `rounds`, or a larger `tol`{faster}.{closer}",
    )


def solver_cost(problem: Problem, costs: Array, x: Array, tuned: TunedSolver) -> float:
    """Return J_rho (eq. distributed-gen) for penalized solvers, else the sum of the users' costs.

    `costs` are those of this process's users, (u,), and x is their centers.
    """
    total = problem.distribution.gather_users(costs).sum()
    if not tuned.penalized or tuned.rho is None:
        return float(total)
    return float(total / tuned.rho + 0.5 * tuned.c * problem.distribution.energy(x))
