"""Judges where a run ended, by certificate and status, and watches it on the way, for the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import theory
from peerclust.metrics import disagreement
from peerclust.problem import Problem
from peerclust.runtimes.protocol import Run, Traffic
from peerclust.solution import Certificate, Status, Trace
from peerclust.users import Users

Array = NDArray[np.float64]


def pooled(problem: Problem, x: Array) -> tuple[float, float]:
    """Give (cost, residual) of the pooled problem at the mean of the centers x, (m, K, d)."""
    users = problem.users
    mean = np.repeat(x.mean(axis=0)[None], len(x), axis=0)
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
) -> Certificate:
    """Give the certificate of a run's end; the users' labels are set to match its centers.

    `at_mean` is what `pooled` gave, `setup` what was sent besides the run.
    """
    users, x = problem.users, run.x
    users.assign(x)
    gradient = users.pull(x) / rho + c * problem.graph.differences(x)
    apart = disagreement(x)
    return Certificate(
        residual=float(rho * np.linalg.norm(gradient, axis=2).max() / problem.unit),
        pooled_residual=at_mean[1],
        disagreement=apart.mean,
        disagreement_stacked=apart.stacked,
        disagreement_exact=apart.exact,
        cost=_penalized(problem, users.cost(x), x, rho, c),
        pooled_cost=at_mean[0],
        rounds=run.rounds,
        messages=run.traffic.messages,
        bytes=run.traffic.bytes,
        setup_messages=setup.messages,
        setup_bytes=setup.bytes,
        spread=problem.spread,
        largest_weight=problem.W,
    )


def status(certificate: Certificate, *, stopped: bool, tol: float) -> Status:
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
    return Status(
        "ran out of rounds",
        f"the residual is {certificate.residual:.2g} after {certificate.rounds} rounds, and"
        f" {tol:g} was asked for. Allow more `rounds`, or a larger `tol`; a smaller `rho`"
        f" converges faster.{closer}",
    )


class Tracer:
    """Looks at the states between rounds: keeps the trace, tells progress."""

    def __init__(
        self,
        problem: Problem,
        *,
        rho: float,
        c: float,
        keep: bool,
        progress: Callable[[int, float], None] | None,
    ) -> None:
        self._problem, self._rho, self._c = problem, rho, c
        self._keep, self._progress = keep, progress
        self._rows: list[tuple[float, float, float, int, float]] = []

    def __call__(self, states: Sequence[Any], blocks: Sequence[Users]) -> None:
        """Take one look."""
        residual = max(float(state.residual.max()) for state in states) / self._problem.unit
        if self._keep:
            x = np.concatenate([state.x for state in states])
            costs = np.concatenate([b.cost(s.x) for b, s in zip(blocks, states, strict=True)])
            cost = _penalized(self._problem, costs, x, self._rho, self._c)
            apart = disagreement(x)
            changed = sum(block.changed for block in blocks)
            self._rows.append((cost, apart.mean, apart.stacked, changed, residual))
        if self._progress is not None:
            self._progress(states[0].round, residual)

    def trace(self) -> Trace | None:
        """Give what was kept, if anything was to be."""
        if not self._keep:
            return None
        return Trace(*(np.array(column) for column in zip(*self._rows, strict=True)))


def _penalized(problem: Problem, costs: Array, x: Array, rho: float, c: float) -> float:
    """Give J_rho from the users' costs, (m,)."""
    return float(costs.sum() / rho + 0.5 * c * problem.graph.energy(x))
