"""`cluster`: the one function that puts a program on a runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import initialize, losses
from peerclust.certify import certify_by_onlooker, certify_by_users, judge, measure_pooled
from peerclust.errors import DataError, ParameterError
from peerclust.names import guess, show
from peerclust.pilot import find_rho
from peerclust.problem import prepare
from peerclust.programs.inexact import FORMS, Inexact
from peerclust.programs.protocol import Program
from peerclust.runtimes.protocol import Run
from peerclust.solution import Solution, Trace
from peerclust.solvers import Asked, Tuned, choose, tune_exact, tune_penalized
from peerclust.tracing import Tracer
from peerclust.validation import check_count, check_name, check_number

Array = NDArray[np.float64]


def cluster(
    parts: Any,
    *,
    n_clusters: int,
    graph: Any = "ring",
    loss: Any = "kmeans",
    distance: Any = "euclidean",
    solver: str | Callable[..., Program] = "accelerated",
    rho: float | str = "auto",
    alpha: float | str = "auto",
    B: int = 1,
    rounds: int = 1000,
    tol: float = 1e-6,
    init: Any = "k-means++",
    n_init: int = 1,
    weights: Any = "unit",
    scale: str | None = None,
    consensus_factor: float | str = 1.0,
    exchange: Any = "float64",
    certify: str = "onlooker",
    runtime: Any = "simulator",
    random_state: Any = None,
    trace: bool = False,
    progress: Callable[[int, float], None] | None = None,
) -> Solution:
    """Cluster data that lives with many users, without pooling it.

    Each user keeps its rows and exchanges center estimates with its neighbors. The default solver
    minimizes J_rho(x, C) = 1/rho sum of w f(x_i(k), y) + c/2 <x, L x> (eq. distributed-gen) by
    Algorithm 1 with momentum; docs/how-to-choose.md tells which suits what.

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
    solver : str or callable
        "accelerated" and "dgc" minimize J_rho; "admm" and "group-lasso" find common centers, a
        solution of the pooled problem; so does "exact", which tells sums and counts besides
        centers. "auto" is "admm" unless something is given that only DGC has. Or a callable (rho,
        alpha, B, consensus_factor) that gives a program of the user's own.
    rho : float >= 1 or "auto"
        The penalty: how close the users' centers must be. "auto" measures their disagreement at
        small rhos and scales it to 1 % of the data's spread; the run then goes on from there. Of
        "group-lasso" it is the most that a link may pull, and "auto" enough for consensus.
    alpha : float > 0, "auto" or "paper"
        The step: "auto" is 0.99 of the largest that is proved to converge, "paper" that of the
        paper's experiments.
    B : int
        Center updates, and so exchanges, a round.
    rounds : int
        At most so many rounds, besides those by which rho="auto" is found.
    tol : float
        Stop once every user's residual is below this (see `Certificate.residual`); 0 never stops.
    init : str, array or object
        "k-means++", "k-means++-local", "random", centers (K, d) or (m, K, d), or see
        `peerclust.initialize`.
    n_init : int
        How many starts; the one with the least pooled cost is kept.
    weights : "unit", "normalized" or list of arrays
        1 a row, 1/N a row, or given: nonnegative, as the parts are.
    scale : None or "standard"
        "standard": the users agree on the mean and deviation of each feature over all rows (see
        `moments`) and cluster in units of these; a Mahalanobis distance, certificate and trace are
        in these units, too, but `init` and the centers found are in the rows' own.
    consensus_factor : float or "1-1/rho"
        The factor c.
    exchange : "float64", "float32", "float16", "8-bit" or dict
        How numbers travel; a dict may also have `noise`, `drop`, `gradient_noise` and `seed` (see
        `programs.inexact`). Not for the solver "exact".
    certify : "onlooker" or "users"
        Who finds the certificate: someone who sees all centers, or the users by agreements among
        neighbors (at most 1,500 users; see `programs.certificate`).
    runtime : "simulator" or "loopback"
        Both give the same centers to the last bit.
    random_state : None, int or numpy Generator
        The same seed gives the same result on every runtime.
    trace : bool
        Whether to keep cost, disagreement and labels changed of every round.
    progress : callable, optional
        Called after each round with (round, largest residual); the round is 0 while rho="auto" is
        found.

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
    _check_choice(rho, ("auto",), "rho", at_least=1)
    _check_choice(alpha, ("auto", "paper"), "alpha", above=0)
    _check_choice(consensus_factor, ("1-1/rho",), "consensus_factor", above=0)
    check_count(B, "B", "cluster")
    check_count(rounds, "rounds", "cluster")
    check_count(n_init, "n_init", "cluster")
    check_number(tol, "tol", "cluster", at_least=0)
    check_name(certify, ("onlooker", "users"), "certify", "cluster")
    loss = losses.resolve(loss)
    asked = Asked(solver, rho, alpha, B, consensus_factor, tol)
    chosen = choose(asked, loss)
    form, noisy, wrap = _resolve_exchange(exchange, chosen.name)
    start = initialize.resolve(init)
    problem = prepare(
        parts,
        n_clusters=n_clusters,
        graph=graph,
        loss=loss,
        distance=distance,
        weights=weights,
        scale=scale,
        runtime=runtime,
        random_state=random_state,
    )

    if certify == "users":
        problem.graph.averaging_factors  # noqa: B018 - raises now if there are too many

    def tune(rho: float) -> Tuned:
        return tune_penalized(problem, chosen, asked, rho)

    def tell_as_round_0(_: int, residual: float) -> None:
        if progress is not None:
            progress(0, residual)

    tell_pilot = tell_as_round_0 if progress else None
    found, reason = (None, "") if isinstance(rho, str) else (float(rho), "given")
    if isinstance(rho, str) and problem.graph.m == 1:
        found, reason = 1.0, "one user alone has nobody to disagree with"
    tries: list[_Try] = []
    sent, pilot_rounds = problem.sent, 0
    for attempt in range(n_init):
        seed = problem.seed + attempt
        x, traffic = start.centers(problem.runtime, problem.users, problem.K, seed)
        if isinstance(start, initialize.Given):
            x = problem.scaled(x)
        problem.check_start(x)
        _check_form(form, problem.users.rows, x, problem.spread)
        sent += traffic
        if chosen.penalized and isinstance(rho, str) and problem.graph.m > 1:
            pilot = find_rho(problem, tune, x, consensus_factor, found, tell_pilot)
            sent += pilot.traffic
            pilot_rounds += pilot.rounds
            x, found, reason = pilot.x, pilot.rho, reason or pilot.why
        if chosen.penalized:
            tuned = tune(found or 1.0)
            tuned.why["rho"] = reason
        else:
            tuned = tune_exact(problem, chosen, asked)
        tracer = Tracer(problem, tuned, keep=trace, progress=progress)
        watch = tracer if trace or progress else None
        run = problem.run(wrap(tuned.program, seed), x, rounds, tol, watch)
        sent += run.traffic
        tries.append(_Try(tuned, run, measure_pooled(problem, run.x), tracer.trace()))
    best = min(tries, key=lambda each: each.at_mean[0])
    setup = sent - best.run.traffic
    took: Any = {"setup": setup, "setup_rounds": pilot_rounds}
    if certify == "users":
        judged = certify_by_users(problem, best.run, best.tuned, **took)
    else:
        judged = certify_by_onlooker(problem, best.run, best.tuned, at_mean=best.at_mean, **took)
    users = problem.users
    return Solution(
        centers=best.run.x if problem.scale is None else problem.scale.back(best.run.x),
        labels=np.split(users.labels, users.offsets[1:-1]),
        status=judge(judged, best.tuned, stopped=best.run.stopped, tol=tol, form=form, noisy=noisy),
        certificate=judged,
        solver=chosen.name,
        rho=best.tuned.rho,
        alpha=best.tuned.alpha,
        why={"solver": chosen.why} | best.tuned.why,
        trace=best.trace,
        loss=users.loss,
        distance=users.distance,
        scale=problem.scale,
    )


@dataclass(frozen=True, eq=False)
class _Try:
    """One start's program and run, its pooled cost and residual, and its trace."""

    tuned: Tuned
    run: Run
    at_mean: tuple[float, float]
    trace: Trace | None


def _check_choice(value: float | str, words: tuple[str, ...], name: str, **limits: float) -> None:
    if not isinstance(value, str):
        check_number(value, name, "cluster", **limits)
    elif value not in words:
        must = " or ".join(["a number", *map(repr, words)])
        raise ParameterError(
            f"`{name}` of cluster must be {must}. Got {show(value)}.{guess(value, words)}"
        )


def _resolve_exchange(
    exchange: Any, solver: str
) -> tuple[str, bool, Callable[[Program, int], Program]]:
    """Give how numbers travel, whether with noise, and what wraps a program, for a seed, so."""
    given = {"form": exchange} if isinstance(exchange, str) else exchange
    known = ("form", "noise", "drop", "gradient_noise", "seed")
    if not isinstance(given, dict):
        raise ParameterError(
            f"`exchange` of cluster must be a name or a dict. Got {show(exchange)}."
        )
    for name in given:
        check_name(name, known, "exchange", "cluster, a dict,")
    if given == {"form": "float64"} or not given:
        return "float64", False, lambda program, _: program
    form = check_name(given.get("form", "float64"), FORMS, "exchange", "cluster")
    check_count(given.get("seed", 0), "seed", "exchange", at_least=0)
    for name in ("noise", "gradient_noise", "drop"):
        check_number(given.get(name, 0.0), name, "exchange", at_least=0)
    if not given.get("drop", 0.0) < 1.0:
        raise ParameterError(f"`drop` of exchange must be below 1. Got {given['drop']}.")
    if solver == "exact":
        raise ParameterError(
            "`exchange` of cluster must be 'float64' with the solver 'exact', whose averages need"
            f" every digit. Got {show(exchange)}."
        )

    def wrap(program: Program, seed: int) -> Program:
        settings: dict[str, Any] = {"seed": seed} | given
        return Inexact(program, **settings)

    return form, any(given.get(each) for each in ("noise", "drop", "gradient_noise")), wrap


def _check_form(form: str, rows: Array, x: Array, spread: float) -> None:
    """Raise if rows or starts have numbers that do not fit the form in which they are to travel."""
    if form == "float64":
        return
    least, most = {
        "float16": (0.0, 6e4),
        "float32": (0.0, 1e38),
        # One byte is an exponent of two.
        "8-bit": (1e-30, 1e30),
    }[form]
    size = max(float(np.abs(rows).max()), float(np.abs(x).max()))
    if size > most or spread < least:
        raise DataError(
            f"`exchange` of cluster must be a form that holds numbers up to {size:.2g}, as"
            f" 'float64' does. Got {form!r}; scaled rows fit every form."
        )
