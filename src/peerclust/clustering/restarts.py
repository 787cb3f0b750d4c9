"""Restarts: one run from its initial centers to its end, and the selection of the best run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from peerclust import initialize
from peerclust.clustering.auto_rho import find_rho
from peerclust.clustering.certificate import (
    Effort,
    Pooled,
    certify_centrally,
    certify_decentralized,
    measure_pooled,
)
from peerclust.clustering.message_format import MessageFormat
from peerclust.clustering.problem import Problem
from peerclust.clustering.solution import Partial, Solution, Trace
from peerclust.clustering.solvers import (
    SolverChoice,
    SolverRequest,
    TunedSolver,
    choose_rho,
    tune,
)
from peerclust.clustering.status import Ending, decide_status
from peerclust.clustering.trace import Tracer
from peerclust.programs.protocol import State
from peerclust.runtimes.protocol import Run, Traffic


@dataclass(frozen=True, eq=False)
class RunSettings:
    """The settings that all restarts share; see `cluster`."""

    request: SolverRequest
    chosen: SolverChoice
    start: initialize.Start
    format: MessageFormat | None
    rounds: int
    trace: bool
    progress: Callable[[int, float], None] | None

    def report_as_round_0(self, _: int, residual: float) -> None:
        """Report the progress of a pilot run."""
        assert self.progress is not None
        self.progress(0, residual)


@dataclass(frozen=True, eq=False)
class Restart:
    """A program and its run, with pooled cost and residual at the mean, trace, and effort."""

    tuned: TunedSolver
    run: Run[State]
    pooled: Pooled
    trace: Trace | None
    pilot_rounds: int
    sent: Traffic


def run_restarts(problem: Problem, settings: RunSettings, n_init: int) -> list[Restart]:
    """Run n_init times, each time from new initial centers."""
    restarts: list[Restart] = []
    for number in range(n_init):
        known = restarts[-1].tuned if restarts else None
        restarts.append(run_restart(problem, settings, problem.seed + number, known))
    return restarts


def run_restart(
    problem: Problem, settings: RunSettings, seed: int, known: TunedSolver | None
) -> Restart:
    """Run once from new initial centers; `known` is an earlier restart's solver, for its rho."""
    request, spec, rounds = settings.request, settings.chosen.spec, 0
    x, sent = settings.start.centers(problem.runtime, problem.users, problem.K, seed)
    if isinstance(settings.start, initialize.Given):
        x = problem.scaled(x)
    problem.check_start(x)
    if settings.format is not None:
        settings.format.check_range(problem, x)
    chosen = choose_rho(problem, spec, request)
    if chosen is None:
        search = find_rho(
            problem,
            lambda rho: tune(problem, spec, request, rho),
            x,
            request.consensus_factor,
            None if known is None else known.rho,
            settings.report_as_round_0 if settings.progress else None,
        )
        x, rounds, sent = search.x, search.rounds, sent + search.traffic
        chosen = search.rho, search.why if known is None else known.why["rho"]
    tuned = tune(problem, spec, request, *chosen)
    tracer = None
    if settings.trace or settings.progress:
        tracer = Tracer(problem, tuned, record=settings.trace, progress=settings.progress)
    program = tuned.program
    if settings.format is not None:
        program = settings.format.wrap(program, seed)
    run = problem.run(program, x, settings.rounds, request.tol, tracer)
    # Unless each user is a block of its own, the run's assignment is that of all users.
    last = run.states[0].assignment if len(run.states) == 1 else None
    pooled = measure_pooled(problem, run.x, last)
    return Restart(tuned, run, pooled, None if tracer is None else tracer.trace(), rounds, sent)


def select_best(
    problem: Problem, settings: RunSettings, restarts: Sequence[Restart], certify: str
) -> Solution:
    """Certify the restart with the lowest pooled cost; return this process's part of it."""
    best = min(restarts, key=lambda each: each.pooled.cost)
    sent = sum([t for each in restarts for t in (each.sent, each.run.traffic)], problem.sent)
    effort = Effort(sent - best.run.traffic, sum(each.pilot_rounds for each in restarts))
    users, scale = problem.users, problem.scale
    # The cache is at the assignment of the last run.
    last = best.pooled.assignment if best is restarts[-1] else None
    assignment = users.assign(best.run.x, last)
    if certify == "decentralized":
        certificate = certify_decentralized(problem, best.run, best.tuned, effort)
    else:
        certificate = certify_centrally(
            problem, best.run, best.tuned, effort, best.pooled, assignment
        )
    end = Ending(
        spec=best.tuned.spec,
        rho=best.tuned.rho,
        rounds=certificate.rounds,
        stopped=best.run.stopped,
        tol=settings.request.tol,
        residual=certificate.residual,
        disagreement=certificate.disagreement / certificate.spread,
        dtype="float64" if settings.format is None else settings.format.dtype,
        noisy=settings.format is not None and settings.format.noisy,
    )
    x = best.run.x if scale is None else scale.back(best.run.x)
    return Solution(
        centers=x,
        labels=np.split(assignment.labels.copy(), users.offsets[1:-1]),
        status=decide_status(end),
        certificate=certificate,
        solver=settings.chosen.spec.name,
        rho=best.tuned.rho,
        alpha=best.tuned.alpha,
        why={"solver": settings.chosen.why} | best.tuned.why,
        trace=best.trace,
        loss=users.loss,
        distance=users.distance,
        scale=scale,
        part=None
        if len(x) == problem.graph.m
        else Partial(users.ids, problem.distribution.mean(x)),
    )
