"""Judges where a run ended: its certificate and its status. Watching it on the way is `tracing`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerclust import theory
from peerclust.metrics import measure_disagreement
from peerclust.problem import Problem
from peerclust.runtimes.protocol import Run, Traffic
from peerclust.solution import Certificate, Status

Array = NDArray[np.float64]


def measure_pooled(problem: Problem, x: Array) -> tuple[float, float]:
    """Give (cost, residual) of the pooled problem at the mean of the centers x, (m, K, d)."""
    users = problem.users
    mean = users.everywhere(x.mean(axis=0))
    users.assign(mean)
    gradient = users.pull(mean).sum(axis=0)
    weight = float(users.total_weights.sum())
    residual = np.linalg.norm(gradient, axis=1).max() / (
        weight * problem.steepness * problem.spread
    )
    return float(users.cost(mean).sum()), float(residual)


def certify(
    problem: Problem,
    run: Run,
    *,
    rho: float,
    c: float,
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
    gradient = users.pull(x) / rho + c * problem.graph.differences(x)
    apart = measure_disagreement(x)
    return Certificate(
        residual=float(rho * np.linalg.norm(gradient, axis=2).max() / problem.residual_scale),
        pooled_residual=at_mean[1],
        disagreement=apart.mean,
        disagreement_stacked=apart.stacked,
        disagreement_exact=apart.exact,
        cost=penalized_cost(problem, users.cost(x), x, rho, c),
        pooled_cost=at_mean[0],
        rounds=run.rounds,
        messages=run.traffic.messages,
        bytes=run.traffic.bytes,
        setup_rounds=setup_rounds,
        setup_messages=setup.messages,
        setup_bytes=setup.bytes,
        spread=problem.spread,
        largest_weight=problem.W,
    )


def judge(certificate: Certificate, *, stopped: bool, tol: float) -> Status:
    """Say how a run ended, and what to do about it."""
    apart = certificate.disagreement / certificate.spread
    closer = ""
    if apart > 10 * theory.AIMED_DISAGREEMENT:
        closer = (
            f" The users' centers still differ by {apart:.0%} of the data's spread: a larger"
            " `rho` brings them closer."
        )
    if stopped and certificate.residual <= tol:
        return Status("converged", f"every residual was below {tol:g}.{closer}")
    if stopped:
        return Status(
            "stopped",
            f"every residual was below {tol:g} in one round, but rows changed cluster since and it"
            f" is {certificate.residual:.2g}. A smaller `tol` runs on until they settle.{closer}",
        )
    if tol == 0:
        return Status(
            "ran out of rounds",
            f"all {certificate.rounds} rounds were run, as tol = 0 asks; the residual is"
            f" {certificate.residual:.2g}.{closer}",
        )
    return Status(
        "ran out of rounds",
        f"the residual is {certificate.residual:.2g} after {certificate.rounds} rounds, and"
        f" {tol:g} was asked for. Allow more `rounds`, or a larger `tol`; a smaller `rho`"
        f" converges faster.{closer}",
    )


def penalized_cost(problem: Problem, costs: Array, x: Array, rho: float, c: float) -> float:
    """Give J_rho (eq. distributed-gen) from the users' costs, (m,), and centers x."""
    return float(costs.sum() / rho + 0.5 * c * problem.graph.energy(x))
