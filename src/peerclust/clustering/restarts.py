"""One start of a clustering, from its first centers to its end; and the judgment of the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerclust import initialize
from peerclust.clustering import message_format
from peerclust.clustering.auto_rho import find_rho
from peerclust.clustering.certificate import (
    certify_centrally,
    certify_decentralized,
    judge,
    measure_pooled,
)
from peerclust.clustering.problem import Problem
from peerclust.clustering.solution import Partial, Solution, Trace
from peerclust.clustering.solvers import (
    SolverChoice,
    SolverRequest,
    TunedSolver,
    tune_exact,
    tune_penalized,
)
from peerclust.clustering.trace import Tracer
from peerclust.runtimes.protocol import Run, Traffic


@dataclass(frozen=True, eq=False)
class RunSettings:
    """How each start is to go on; see `cluster`."""

    asked: SolverRequest
    chosen: SolverChoice
    start: initialize.Start
    format: message_format.MessageFormat
    rounds: int
    trace: bool
    progress: Callable[[int, float], None] | None

    def tell_as_round_0(self, _: int, residual: float) -> None:
        """Tell progress while rho is found."""
        assert self.progress is not None
        self.progress(0, residual)


@dataclass(frozen=True, eq=False)
class Restart:
    """One start's program and run, its pooled cost and residual, its trace, and what it took."""

    tuned: TunedSolver
    run: Run
    at_mean: tuple[float, float]
    trace: Trace | None
    pilot_rounds: int
    sent: Traffic


def run_restart(
    problem: Problem, plan: RunSettings, seed: int, known: TunedSolver | None
) -> Restart:
    """Run from one start; `known` is the program of an earlier one, whose rho is kept."""
    asked, chosen, rounds = plan.asked, plan.chosen, 0

    def tune(rho: float) -> TunedSolver:
        return tune_penalized(problem, chosen, asked, rho)

    x, sent = plan.start.centers(problem.runtime, problem.users, problem.K, seed)
    if isinstance(plan.start, initialize.Given):
        x = problem.scaled(x)
    problem.check_start(x)
    message_format.check_range(plan.format.dtype, problem, x)
    if not chosen.penalized:
        tuned = tune_exact(problem, chosen, asked)
    elif not isinstance(asked.rho, str):
        tuned = tune(float(asked.rho))
        tuned.why["rho"] = "given"
    elif problem.graph.m == 1:
        tuned = tune(1.0)
        tuned.why["rho"] = "one user alone has nobody to disagree with"
    else:
        tell = plan.tell_as_round_0 if plan.progress else None
        rho = None if known is None else known.rho
        pilot = find_rho(problem, tune, x, asked.consensus_factor, rho, tell)
        x, rounds, sent = pilot.x, pilot.rounds, sent + pilot.traffic
        tuned = tune(pilot.rho)
        tuned.why["rho"] = pilot.why if known is None else known.why["rho"]
    tracer = Tracer(problem, tuned, keep=plan.trace, progress=plan.progress)
    on_round = tracer if plan.trace or plan.progress else None
    program = plan.format.wrap(tuned.program, seed)
    run = problem.run(program, x, plan.rounds, asked.tol, on_round)
    return Restart(tuned, run, measure_pooled(problem, run.x), tracer.trace(), rounds, sent)


def select_best(
    problem: Problem, plan: RunSettings, restarts: Sequence[Restart], certify: str
) -> Solution:
    """Judge the best try and give the part of the solution that this process has."""
    best = min(restarts, key=lambda each: each.at_mean[0])
    sent = sum((each.sent + each.run.traffic for each in restarts), problem.sent)
    took: Any = {"setup": sent - best.run.traffic}
    took["setup_rounds"] = sum(each.pilot_rounds for each in restarts)
    if certify == "decentralized":
        judged = certify_decentralized(problem, best.run, best.tuned, **took)
    else:
        judged = certify_centrally(problem, best.run, best.tuned, at_mean=best.at_mean, **took)
    users, scale, format_ = problem.users, problem.scale, plan.format
    how: Any = {
        "stopped": best.run.stopped,
        "dtype": format_.dtype,
        "noisy": format_.noisy,
    }
    x = best.run.x if scale is None else scale.back(best.run.x)
    return Solution(
        centers=x,
        labels=np.split(users.labels, users.offsets[1:-1]),
        status=judge(judged, best.tuned, tol=plan.asked.tol, **how),
        certificate=judged,
        solver=plan.chosen.name,
        rho=best.tuned.rho,
        alpha=best.tuned.alpha,
        why={"solver": plan.chosen.why} | best.tuned.why,
        trace=best.trace,
        loss=users.loss,
        distance=users.distance,
        scale=scale,
        part=None
        if len(x) == problem.graph.m
        else Partial(users.ids, problem.distribution.mean(x)),
    )
