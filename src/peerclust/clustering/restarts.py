"""Restarts: one run from its initial centers to its end, and the selection of the best run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from peerclust import initialize, theory
from peerclust.arrays import Array
from peerclust.clustering import auto_rho
from peerclust.clustering.certificate import Effort, certify
from peerclust.clustering.message_format import MessageFormat
from peerclust.clustering.problem import Problem
from peerclust.clustering.progress import RunPrinter
from peerclust.clustering.search import Searched, search
from peerclust.clustering.solution import Partial, Solution
from peerclust.clustering.solvers import (
    SolverChoice,
    SolverRequest,
    TunedSolver,
    choose_rho,
    tune,
)
from peerclust.clustering.status import Ending, decide_status
from peerclust.clustering.trace import Tracer
from peerclust.errors import DivergedError
from peerclust.programs import swaps
from peerclust.programs.protocol import AnyProgram
from peerclust.runtimes.convergence import (
    CheckedRun,
    Plan,
    agree_on_curvature,
    converge,
)
from peerclust.runtimes.loop import begin, split_blocks
from peerclust.runtimes.protocol import Traffic
from peerclust.text import mention, setting
from peerclust.theory import Curvature


@dataclass(frozen=True, eq=False)
class RunSettings:
    """The settings that all restarts share; see `cluster`."""

    request: SolverRequest
    chosen: SolverChoice
    start: initialize.Start
    format: MessageFormat | None
    rounds: int
    tol: float
    search: bool
    trace: bool
    progress: Callable[[int, float], None] | None

    @property
    def coarse_tol(self) -> float:
        """The tolerance of the runs that a search compares."""
        return max(self.tol, swaps.TOL)

    def report_as_round_0(self, _: int, residual: float) -> None:
        """Report the progress of a pilot run."""
        assert self.progress is not None
        self.progress(0, residual)

    def print_run(self, spread: float, end: CheckedRun, rounds: int, *kept: bool) -> None:
        """Print how a run ended, if progress is printed; see `RunPrinter.end_run`."""
        if isinstance(self.progress, RunPrinter):
            found = end.found
            self.progress.end_run(found.pooled_cost, found.residual / spread, rounds, *kept)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Where a run starts, its tuned solver, and what finding both took."""

    x: Array
    curvature: Curvature
    tuned: TunedSolver
    pilot_rounds: int
    sent: Traffic


@dataclass(frozen=True, eq=False)
class Restart:
    """A solver, the end of its run, what observed it, and what it took before.

    `seed` is that of its random streams.
    """

    tuned: TunedSolver
    end: CheckedRun
    tracer: Tracer | None
    pilot_rounds: int
    sent: Traffic
    seed: int


def run_restarts(problem: Problem, settings: RunSettings, n_init: int) -> list[Restart]:
    """Run n_init times, each time from new initial centers."""
    return [run_restart(problem, settings, problem.seed + number) for number in range(n_init)]


def prepare_run(problem: Problem, settings: RunSettings, seed: int) -> Prepared:
    """Find the initial centers, the curvature there, and the solver's parameters."""
    request, spec, rounds = settings.request, settings.chosen.spec, 0
    x, sent = settings.start.centers(problem.runtime, problem.users, problem.K, seed)
    if isinstance(settings.start, initialize.Given):
        x = problem.scaled(x)
    problem.check_start(x)
    if settings.format is not None:
        settings.format.check_range(problem, x)
    curvature, more = problem.carry_out(agree_on_curvature(problem.users, x, problem.graph.m))
    problem.check_curvature(curvature)
    sent += more
    chosen = choose_rho(problem, spec, request)
    if chosen is None:
        pilots = search_rho(problem, settings, x, curvature)
        x, curvature = pilots.end.run.x, pilots.end.curvature
        rounds, sent = pilots.rounds, sent + pilots.traffic
        chosen = pilots.rho, pilots.why
    tuned = tune(problem, spec, request, curvature.mean, *chosen)
    return Prepared(x, curvature, tuned, rounds, sent)


def run_restart(problem: Problem, settings: RunSettings, seed: int) -> Restart:
    """Run once from new initial centers."""
    ready = prepare_run(problem, settings, seed)
    tuned, tracer = ready.tuned, None
    if settings.trace or settings.progress:
        tracer = Tracer(problem, tuned, record=settings.trace, progress=settings.progress)
    tol = settings.coarse_tol if settings.search else settings.tol
    plan = plan_solver(problem, settings, tuned, ready.x, ready.curvature, seed, tol)
    try:
        end = problem.carry_out(plan, tracer)
    except DivergedError as error:
        if tuned.alpha is None or settings.request.alpha == "auto":
            raise
        advice = " The step size " + mention("alpha") + " is too large; "
        safe = setting("alpha", "'auto'") + " is safe for every loss that the theory covers."
        raise DivergedError(error.args[0] + advice + safe) from None
    settings.print_run(problem.scales.spread, end, end.rounds)
    return Restart(tuned, end, tracer, ready.pilot_rounds, ready.sent, seed)


def plan_solver(
    problem: Problem,
    settings: RunSettings,
    tuned: TunedSolver,
    x: Array,
    curvature: Curvature,
    seed: int,
    tol: float,
) -> Plan[CheckedRun]:
    """Return the plan of a run with all settings but its tolerance; see `plan_run`."""
    program = tuned.program
    if settings.format is not None:
        program = settings.format.wrap(program, seed)
    return plan_run(problem, tuned, program, x, curvature, rounds=settings.rounds, tol=tol)


def search_rho(
    problem: Problem, settings: RunSettings, x: Array, curvature: Curvature
) -> auto_rho.RhoSearch:
    """Find rho="auto" in pilot runs from the centers x."""
    request, spec = settings.request, settings.chosen.spec
    tracer = None
    if settings.progress is not None:
        tracer = Tracer(problem, None, record=False, progress=settings.report_as_round_0)

    def pilot(rho: float, last: CheckedRun | None) -> Plan[CheckedRun]:
        at, H = (x, curvature) if last is None else (last.run.x, last.curvature)
        tuned = tune(problem, spec, request, H.mean, rho)
        return plan_run(
            problem, tuned, tuned.program, at, H, rounds=auto_rho.ROUNDS, tol=auto_rho.TOL
        )

    first = theory.initial_rho(
        curvature=float(theory.replace_zeros(curvature.mean).max()),
        lambda_max=problem.graph.lambda_max.value,
        consensus_factor=request.consensus_factor,
    )
    plan = auto_rho.find_rho(pilot, first, problem.scales.spread, request.consensus_factor)
    return problem.carry_out(plan, tracer)


def plan_run(
    problem: Problem,
    tuned: TunedSolver,
    program: AnyProgram,
    x: Array,
    curvature: Curvature,
    *,
    rounds: int,
    tol: float,
) -> Plan[CheckedRun]:
    """Return the plan of a run from the centers x, (u, K, d), where costs have this curvature."""
    lambda_2 = problem.graph.lambda_2.value
    check = tuned.make_certify(problem.graph.m, lambda_2)
    blocks = problem.runtime.blocks(problem.users)
    stiffness = split_blocks(curvature.stiffness(check.penalty_curvature), blocks)
    start = begin(program, blocks, split_blocks(x, blocks), stiffness=stiffness)
    threshold = tol * problem.scales.spread if tol > 0 else -1.0
    return converge(program, check, start, rounds=rounds, threshold=threshold)


def search_from(problem: Problem, settings: RunSettings, restart: Restart) -> Searched:
    """Search for a better optimum from the end of a run."""
    if not settings.search:
        return Searched(restart.end)
    tuned, spread = restart.tuned, problem.scales.spread

    def run(x: Array, curvature: Curvature, threshold: float) -> Plan[CheckedRun]:
        tol = threshold / spread
        return plan_solver(problem, settings, tuned, x, curvature, restart.seed, tol)

    plan = search(
        restart.end,
        problem.users,
        problem.graph.m,
        restart.seed,
        run=run,
        penalized=tuned.spec.penalized,
        threshold=settings.tol * spread,
        coarse=settings.coarse_tol * spread,
        on_move=partial(settings.print_run, spread),
    )
    return problem.carry_out(plan, restart.tracer)


def select_best(problem: Problem, settings: RunSettings, restarts: Sequence[Restart]) -> Solution:
    """Search from the restart with the lowest pooled cost, and certify what was found.

    Return this process's part of it.
    """
    best = min(restarts, key=lambda each: each.end.found.pooled_cost)
    searched = search_from(problem, settings, best)
    run, found = searched.end.run, searched.end.found
    sent = [t for each in restarts for t in (each.sent, each.end.run.traffic, each.end.checks)]
    effort = Effort(
        rounds=best.end.run.rounds,
        run=best.end.run.traffic,
        setup=sum(sent, problem.sent) - best.end.run.traffic,
        setup_rounds=sum(each.pilot_rounds for each in restarts),
        search=searched.traffic,
        search_rounds=searched.rounds,
        moves=searched.moves,
        kept=searched.kept,
    )
    users, scale = problem.users, problem.scale
    assignment = users.assign(run.x)
    certificate = certify(problem, run.x, found, effort)
    end = Ending(
        spec=best.tuned.spec,
        rho=best.tuned.rho,
        rounds=certificate.rounds + certificate.search_rounds,
        stopped=run.stopped,
        tol=settings.tol,
        residual=certificate.residual,
        disagreement=certificate.disagreement / certificate.spread,
        used=int((found.weights > 0).sum()),
        K=problem.K,
        aimed=settings.request.rho == "auto" and best.tuned.penalty_rho is not None,
        dtype="float64" if settings.format is None else settings.format.dtype,
        noisy=settings.format is not None and settings.format.noisy,
    )
    x = run.x if scale is None else scale.back(run.x)
    return Solution(
        centers=x,
        labels=np.split(assignment.labels.copy(), users.offsets[1:-1]),
        status=decide_status(end),
        certificate=certificate,
        solver=settings.chosen.spec.name,
        rho=best.tuned.rho,
        alpha=best.tuned.alpha,
        why={"solver": settings.chosen.why} | best.tuned.why,
        trace=None if best.tracer is None else best.tracer.trace(),
        loss=users.loss,
        distance=users.distance,
        scale=scale,
        part=None
        if len(x) == problem.graph.m
        else Partial(users.ids, problem.distribution.mean(x)),
        dtype=users.rows.dtype.name,
    )
