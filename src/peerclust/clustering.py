"""`cluster`: the one function that puts a program on a runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import initialize, theory
from peerclust.certify import Tracer, certify, pooled, status
from peerclust.errors import DivergedError
from peerclust.problem import Problem, prepare
from peerclust.programs.dgc import DGC
from peerclust.programs.protocol import Program
from peerclust.runtimes.protocol import Run, Traffic
from peerclust.solution import Solution, Trace
from peerclust.validation import check_count, check_name, check_number

Array = NDArray[np.float64]

SOLVERS: dict[str, Callable[..., Program]] = {"dgc": DGC}

# The pilot run of rho="auto" stops at this residual, or after this many rounds.
_PILOT_TOL = 1e-3
_PILOT_ROUNDS = 300


def cluster(
    parts: Any,
    *,
    n_clusters: int,
    graph: Any = "ring",
    loss: Any = "kmeans",
    distance: Any = "euclidean",
    solver: str | Callable[..., Program] = "dgc",
    rho: float | str = "auto",
    alpha: float | str = "auto",
    B: int = 1,
    rounds: int = 1000,
    tol: float = 1e-6,
    init: Any = "k-means++",
    n_init: int = 1,
    weights: Any = "unit",
    consensus_factor: float | str = 1.0,
    runtime: Any = "simulator",
    random_state: Any = None,
    trace: bool = False,
    progress: Callable[[int, float], None] | None = None,
) -> Solution:
    """Cluster data that lives with many users, without pooling it.

    Minimizes J_rho(x, C) = 1/rho sum of w f(x_i(k), y) + c/2 <x, L x> (eq. distributed-gen) by
    Algorithm 1: each user keeps its rows and exchanges center estimates with its neighbors.

    Parameters
    ----------
    parts : list of (N_i, d) arrays, or (rows, offsets)
        The users' rows; copied once into flat form, or already flat and then never copied: user i
        has rows[offsets[i]:offsets[i+1]]. Users may differ in size and may be empty.
    n_clusters : int
        K.
    graph : str, Graph or networkx graph
        Who talks with whom: "ring", "path", "star", "complete", "grid", or see `peerclust.graphs`.
    loss : str or object
        "kmeans", "huber", "logistic", "fair", a loss such as Huber(delta=5), a Bregman loss, or an
        object with value(r2), gamma(r2) and smoothness.
    distance : "euclidean" or Mahalanobis(A)
        A Bregman loss is its own distance.
    solver : "dgc" or callable
        Or a callable (rho, alpha, B, consensus_factor) that gives a program of the user's own.
    rho : float >= 1 or "auto"
        The penalty: how close the users' centers must be. "auto" measures their disagreement at a
        small rho and scales it to 1 % of the data's spread; the run then goes on from there.
    alpha : float > 0, "auto" or "paper"
        The step: "auto" is 0.99 of the largest that is proved to converge, "paper" that of the
        paper's experiments.
    B : int
        Center updates, and so exchanges, a round.
    rounds : int
        At most so many rounds.
    tol : float
        Stop once every user's residual is below this (see `Certificate.residual`); 0 never stops.
    init : str, array or object
        "k-means++", "k-means++-local", "random", centers (K, d) or (m, K, d), or see
        `peerclust.initialize`.
    n_init : int
        How many starts; the one with the least pooled cost is kept.
    weights : "unit", "normalized" or list of arrays
        1 a row, 1/N a row, or given: nonnegative, as the parts are.
    consensus_factor : float or "1-1/rho"
        The factor c.
    runtime : "simulator" or "loopback"
        Both give the same centers to the last bit.
    random_state : None, int or numpy Generator
        The same seed gives the same result on every runtime.
    trace : bool
        Whether to keep cost, disagreement and labels changed of every round.
    progress : callable, optional
        Called after each round with (round, largest residual).

    Returns
    -------
    Solution

    Examples
    --------
    >>> import peerclust as pc
    >>> rows, classes = pc.datasets.iris()
    >>> users = pc.partition.homogeneous(classes, 10, random_state=0)
    >>> solution = pc.cluster([rows[i] for i in users], n_clusters=3, loss="huber", rho=10,
    ...                       random_state=0)
    >>> solution.centers.shape, solution.consensus.shape
    ((10, 3, 4), (3, 4))
    """
    problem = prepare(
        parts,
        n_clusters=n_clusters,
        graph=graph,
        loss=loss,
        distance=distance,
        weights=weights,
        runtime=runtime,
        random_state=random_state,
    )
    _check_choices(rho, alpha)
    check_count(B, "B", "cluster")
    check_count(rounds, "rounds", "cluster")
    check_count(n_init, "n_init", "cluster")
    check_number(tol, "tol", "cluster", at_least=0)
    theory.consensus_factor(consensus_factor, 1.0)
    if isinstance(solver, str):
        solver = SOLVERS[check_name(solver, SOLVERS, "solver", "cluster")]
    start = initialize.resolve(init)

    def tuned(rho: float) -> _Tuned:
        c = theory.consensus_factor(consensus_factor, rho)
        step, why = problem.choose_alpha(alpha, rho, c)
        return _Tuned(solver(rho=rho, alpha=step, B=B, consensus_factor=c), rho, c, step, why)

    chosen, reason = (0.0, "") if isinstance(rho, str) else (float(rho), "given")
    best: _Try | None = None
    sent = Traffic()
    for attempt in range(n_init):
        seed = problem.seed + attempt
        x, traffic = start.centers(problem.runtime, problem.users, problem.K, seed)
        sent += traffic
        if isinstance(rho, str):
            pilot = _drive(
                problem, tuned(problem.pilot_rho(consensus_factor)), x, _PILOT_ROUNDS, _PILOT_TOL
            )
            sent += pilot.traffic
            x = pilot.x
            if attempt == 0:
                chosen, reason = problem.choose_rho(x, consensus_factor)
        tune = tuned(chosen)
        tracer = Tracer(problem, rho=chosen, c=tune.c, keep=trace, progress=progress)
        watch = tracer if trace or progress else None
        run = _drive(problem, tune, x, rounds, tol, watch)
        sent += run.traffic
        at_mean = pooled(problem, run.x)
        if best is None or at_mean[0] < best.at_mean[0]:
            best = _Try(run, at_mean, tracer.trace())
    assert best is not None
    setup = Traffic(sent.messages - best.run.traffic.messages, sent.bytes - best.run.traffic.bytes)
    certificate = certify(
        problem, best.run, rho=chosen, c=tune.c, at_mean=best.at_mean, setup=setup
    )
    users = problem.users
    return Solution(
        centers=best.run.x,
        labels=np.split(users.labels, users.offsets[1:-1]),
        status=status(certificate, stopped=best.run.stopped, tol=tol),
        certificate=certificate,
        rho=chosen,
        alpha=tune.alpha,
        why={"rho": reason, "alpha": tune.why},
        trace=best.trace,
        loss=users.loss,
        distance=users.distance,
    )


@dataclass(frozen=True)
class _Tuned:
    """A program with the parameters that were chosen for it."""

    program: Program
    rho: float
    c: float
    alpha: float
    why: str


@dataclass(frozen=True)
class _Try:
    """One start's run, its pooled cost and residual, and its trace."""

    run: Run
    at_mean: tuple[float, float]
    trace: Trace | None


def _check_choices(rho: float | str, alpha: float | str) -> None:
    if isinstance(rho, str):
        check_name(rho, ("auto",), "rho", "cluster")
    else:
        check_number(rho, "rho", "cluster", at_least=1)
    if isinstance(alpha, str):
        check_name(alpha, ("auto", "paper"), "alpha", "cluster")
    else:
        check_number(alpha, "alpha", "cluster", above=0)


def _drive(
    problem: Problem, tuned: _Tuned, x: Array, rounds: int, tol: float, watch: Any = None
) -> Run:
    """Run a program from x; centers that run away are an error."""
    threshold = tol * problem.unit if tol > 0 else -1.0
    run = problem.runtime.run(
        tuned.program, problem.users, x, rounds=rounds, threshold=threshold, watch=watch
    )
    if not np.isfinite(run.x).all():
        raise DivergedError(
            "The centers ran away: the step `alpha` is too long. Use alpha='auto', which is"
            " always safe."
        )
    return run
