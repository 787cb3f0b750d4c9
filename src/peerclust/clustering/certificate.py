"""Judges where a run ended: its certificate and its status. Watching it on the way is `tracing`."""

from __future__ import annotations

from typing import Any

import numpy as np

from peerclust import theory
from peerclust.clustering.problem import Problem
from peerclust.clustering.solution import Certificate, Status
from peerclust.clustering.solvers import TunedSolver
from peerclust.programs.certificate import Certify
from peerclust.runtimes.protocol import Run, Traffic
from peerclust.types import Array


def measure_pooled(problem: Problem, x: Array) -> tuple[float, float]:
    """Give (cost, residual) of the pooled problem at the mean of all users' centers.

    x are those of this process, (u, K, d), as everywhere here.
    """
    users, distribution = problem.users, problem.distribution
    mean = users.broadcast_centers(distribution.mean(x))
    users.assign(mean)
    gradient = distribution.sum_over_users(users.gradient(mean))
    residual = np.linalg.norm(gradient, axis=1).max() / (
        problem.W_total * problem.steepness * problem.spread
    )
    return float(distribution.gather_users(users.cost(mean)).sum()), float(residual)


def certify_centrally(
    problem: Problem,
    run: Run,
    tuned: TunedSolver,
    *,
    at_mean: tuple[float, float],
    setup: Traffic,
    setup_rounds: int,
) -> Certificate:
    """Give the certificate of a run's end; the users' labels are set to match its centers.

    `at_mean` is what `measure_pooled` gave, `setup` what was sent besides the run,
    `setup_rounds` how many rounds the choice of rho took.
    """
    users, x = problem.users, run.x
    users.assign(x)
    apart = problem.distribution.disagreement(x)
    residual = max(at_mean[1], apart.mean / problem.spread)
    if tuned.penalized and tuned.rho is not None:
        rho, c = tuned.rho, tuned.c
        gradient = users.gradient(x) / rho + c * problem.distribution.differences(x)
        largest = problem.distribution.max_over_ranks(np.linalg.norm(gradient, axis=2).max())
        residual = float(rho * largest / problem.residual_scale)
    return Certificate(
        residual=residual,
        pooled_residual=at_mean[1],
        disagreement=apart.mean,
        disagreement_stacked=apart.stacked,
        disagreement_exact=apart.exact,
        cost=solver_cost(problem, users.cost(x), x, tuned),
        pooled_cost=at_mean[0],
        **_tell_effort(problem, run, setup, setup_rounds),
    )


def certify_decentralized(
    problem: Problem, run: Run, tuned: TunedSolver, *, setup: Traffic, setup_rounds: int
) -> Certificate:
    """Give the certificate that the users find by themselves (`programs.certificate`).

    Disagreement is bounded by the way from one user's centers to the mean and on to another's.
    """
    users, x, graph = problem.users, run.x, problem.graph
    rho = tuned.rho if tuned.penalized else None
    program = Certify(graph.averaging_factors, m=graph.m, rho=rho, c=tuned.c)
    own = problem.runtime.run(program, users, x, rounds=program.rounds)
    found = program.read(own.states[0])
    pooled = found.pooled_gradient / (problem.W_total * problem.steepness * problem.spread)
    apart = 2.0 * float(found.radius.mean())
    residual = max(pooled, apart / problem.spread)
    users.assign(x)
    return Certificate(
        residual=found.gradient / problem.residual_scale if tuned.penalized else residual,
        pooled_residual=pooled,
        disagreement=apart,
        disagreement_stacked=2.0 * found.radius_stacked,
        disagreement_exact=False,
        cost=found.cost,
        pooled_cost=found.pooled_cost,
        found_by="decentralized",
        **_tell_effort(problem, run, setup + own.traffic, setup_rounds),
    )


def _tell_effort(problem: Problem, run: Run, setup: Traffic, setup_rounds: int) -> dict[str, Any]:
    """Give what a certificate tells whoever found it: what the run took, and the scales."""
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


def judge(
    certificate: Certificate,
    tuned: TunedSolver,
    *,
    stopped: bool,
    tol: float,
    dtype: str = "float64",
    noisy: bool = False,
) -> Status:
    """Say how a run ended, and what to do about it.

    `dtype` is how numbers traveled, `noisy` whether some were changed or lost.
    """
    apart = certificate.disagreement / certificate.spread
    closer = ""
    if apart > 10 * theory.AIMED_DISAGREEMENT:
        remedy = "more `rounds` bring" if tuned.rho is None else "a larger `rho` brings"
        closer = (
            f" The users' centers still differ by {apart:.0%} of the data's spread:"
            f" {remedy} them closer."
        )
    residual = f"the residual is {certificate.residual:.2g}"
    if stopped and certificate.residual <= tol:
        return Status("converged", f"every residual was below {tol:g}.{closer}")
    if stopped and not tuned.penalized and tuned.rho is not None and apart > tol:
        return Status(
            "stopped",
            f"all is at rest, but the users' centers are {apart:.2g} of the data's spread apart:"
            f" `rho` = {tuned.rho:g} is too small for consensus.",
        )
    if stopped and not tuned.penalized:
        return Status(
            "stopped",
            f"every user's own residual was below {tol:g}, but that of all is"
            f" {certificate.residual:.2g}."
            + (
                " Noise and lost letters lead astray; take the solver 'accelerated'."
                if noisy
                else " A smaller `tol` brings it down."
            ),
        )
    if stopped:
        return Status(
            "stopped",
            f"every residual was below {tol:g} in one round, but since then rows changed cluster"
            f" or centers swung, and {residual}. A smaller `tol` runs on until they"
            f" settle.{closer}",
        )
    if tol == 0:
        return Status(
            "ran out of rounds",
            f"all {certificate.rounds} rounds were run, as tol = 0 asks; {residual}.{closer}",
        )
    ended = f"{residual} after {certificate.rounds} rounds"
    if noisy:
        return Status(
            "ran out of rounds",
            f"{ended}: with noise or lost letters centers do not come to rest, so {tol:g} may be"
            f" out of reach.{closer}",
        )
    coarse = dtype in ("float32", "float16")
    if certificate.residual <= tol and not coarse:
        return Status(
            "ran out of rounds",
            f"{ended}, below {tol:g}, but the users had not yet agreed to stop. A few more `rounds`"
            f" let them.{closer}",
        )
    faster = "; a smaller `rho` converges faster" if tuned.penalized else ""
    if coarse:
        faster = f"; {dtype} may be too coarse for all to be below it, '8-bit' is not"
    return Status(
        "ran out of rounds",
        f"{ended}, and {tol:g} was asked for. Allow more `rounds`, or a larger"
        f" `tol`{faster}.{closer}",
    )


def solver_cost(problem: Problem, costs: Array, x: Array, tuned: TunedSolver) -> float:
    """Give J_rho (eq. distributed-gen) of penalized solvers, the sum of the users' costs of others.

    `costs` are those of this process's users, (u,), x their centers.
    """
    total = problem.distribution.gather_users(costs).sum()
    if not tuned.penalized or tuned.rho is None:
        return float(total)
    return float(total / tuned.rho + 0.5 * tuned.c * problem.distribution.energy(x))
