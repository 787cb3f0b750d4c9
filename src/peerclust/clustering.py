"""`cluster`: checks what is given, puts a program on a runtime and judges where it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import distances, graphs, initialize, losses, runtimes, theory
from peerclust.bregman import Bregman
from peerclust.errors import DataError, DivergedError, ParameterError
from peerclust.graphs import Graph
from peerclust.metrics import disagreement
from peerclust.programs.dgc import DGC
from peerclust.programs.protocol import Program
from peerclust.runtimes.protocol import Run, Runtime, Traffic
from peerclust.solution import Certificate, Solution, Status, Trace
from peerclust.users import Users
from peerclust.validation import (
    check_count,
    check_generator,
    check_name,
    check_number,
    check_parts,
    check_weights,
)

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
    job = prepare(
        parts,
        n_clusters=n_clusters,
        graph=graph,
        loss=loss,
        distance=distance,
        weights=weights,
        runtime=runtime,
        random_state=random_state,
    )
    if isinstance(rho, str):
        check_name(rho, ("auto",), "rho", "cluster")
    else:
        check_number(rho, "rho", "cluster", at_least=1)
    if isinstance(alpha, str):
        check_name(alpha, ("auto", "paper"), "alpha", "cluster")
    else:
        check_number(alpha, "alpha", "cluster", above=0)
    check_count(B, "B", "cluster")
    check_count(rounds, "rounds", "cluster")
    check_count(n_init, "n_init", "cluster")
    check_number(tol, "tol", "cluster", at_least=0)
    theory.consensus_factor(consensus_factor, 2.0)
    if isinstance(solver, str):
        solver = SOLVERS[check_name(solver, SOLVERS, "solver", "cluster")]
    start = initialize.resolve(init)

    best: _Try | None = None
    traffic = Traffic()
    chosen, why = (0.0, "") if isinstance(rho, str) else (float(rho), "given")
    for attempt in range(n_init):
        x, sent = start.centers(job.runtime, job.users, job.K, job.seed + attempt)
        traffic += sent
        if isinstance(rho, str):
            pilot = job.pilot(x, alpha, B, consensus_factor, solver)
            traffic += pilot.traffic
            x = pilot.x
            if attempt == 0:
                chosen, why = job.choose_rho(x)
        step, step_why = job.step(alpha, chosen, consensus_factor)
        c = theory.consensus_factor(consensus_factor, chosen)
        program = solver(rho=chosen, alpha=step, B=B, consensus_factor=c)
        watch = _Watch(job, chosen, c, keep=trace, progress=progress)
        run = job.runtime.run(
            program,
            job.users,
            x,
            rounds=rounds,
            threshold=job.threshold(tol),
            watch=watch if trace or progress else None,
        )
        if not np.isfinite(run.x).all():
            raise DivergedError(
                "The centers ran away: the step `alpha` is too long. Use alpha='auto', which is"
                " always safe."
            )
        traffic += run.traffic
        now = _Try(run, job.pooled_cost(run.x), watch.trace() if trace else None)
        if best is None or now.cost < best.cost:
            best = now
    assert best is not None
    return job.judge(
        best, rho=chosen, alpha=step, c=c, why={"rho": why, "alpha": step_why}, tol=tol,
        rounds=rounds, traffic=traffic,
    )  # fmt: skip


@dataclass(frozen=True)
class _Try:
    """One start's run, its pooled cost and its trace."""

    run: Run
    cost: float
    trace: Trace | None


@dataclass(frozen=True)
class Job:
    """A checked problem: users, graph, runtime and the scales by which residuals are judged."""

    users: Users
    graph: Graph
    runtime: Runtime
    K: int
    seed: int
    spread: float
    scale: float

    @property
    def W(self) -> float:
        """The largest total weight of a user."""
        return float(self.users.total_weights.max())

    @property
    def beta(self) -> float:
        """The smoothness of the loss under the distance."""
        return theory.smoothness(self.users.loss, self.users.distance)

    def threshold(self, tol: float) -> float:
        """Give tol in the units of a program's residual; never met if tol is 0."""
        return tol * self.W * self.scale * self.spread if tol > 0 else -1.0

    def step(
        self, alpha: float | str, rho: float, consensus_factor: float | str
    ) -> tuple[float, str]:
        """Give alpha, and why."""
        lambda_max = self.graph.lambda_max
        if alpha == "paper":
            largest = int(np.diff(self.users.offsets).max())
            value = theory.paper_step(
                m=self.graph.m, largest=largest, rho=rho, lambda_max=lambda_max.value
            )
            return (
                value,
                "1 / (2 m |D_max| / rho + lambda_max(L) + 1), as in the paper's experiments",
            )
        if alpha == "auto":
            c = theory.consensus_factor(consensus_factor, rho)
            value = theory.safe_step(
                beta=self.beta, W=self.W, rho=rho, lambda_max=lambda_max.value, consensus_factor=c
            )
            bound = "" if lambda_max.exact else f" (lambda_max(L) by {lambda_max.how})"
            outside = (
                "" if theory.in_theory(self.users.loss) else "; the loss is outside the theory"
            )
            return value, (
                f"{theory.SAFETY} / (beta W / rho + c lambda_max(L)) with beta = {self.beta:.4g},"
                f" W = {self.W:.4g}, c = {c:.4g},"
                f" lambda_max(L) = {lambda_max.value:.4g}{bound}{outside}"
            )
        return float(alpha), "given"

    def pilot(
        self,
        x: Array,
        alpha: float | str,
        B: int,
        consensus_factor: float | str,
        solver: Callable[..., Program],
    ) -> Run:
        """Run at the small rho from which rho="auto" scales."""
        rho = self._pilot_rho()
        step = self.step(alpha, rho, consensus_factor)[0]
        c = theory.consensus_factor(consensus_factor, rho)
        program = solver(rho=rho, alpha=step, B=B, consensus_factor=c)
        return self.runtime.run(
            program, self.users, x, rounds=_PILOT_ROUNDS, threshold=self.threshold(_PILOT_TOL)
        )

    def _pilot_rho(self) -> float:
        return theory.pilot_rho(beta=self.beta, W=self.W, lambda_2=self.graph.lambda_2.value)

    def choose_rho(self, x: Array) -> tuple[float, str]:
        """Give rho from the disagreement of the pilot's centers, and why."""
        if self.graph.m == 1:
            return 1.0, "one user alone has nobody to disagree with"
        pilot = self._pilot_rho()
        measured = disagreement(x).mean
        aimed = theory.AIMED_DISAGREEMENT * self.spread
        rho = theory.scaled_rho(pilot=pilot, measured=measured, aimed=aimed)
        return rho, (
            f"users disagreed by {measured / self.spread:.2%} of the data's spread at"
            f" rho = {pilot:.4g}; disagreement falls like 1/rho, and"
            f" {theory.AIMED_DISAGREEMENT:.0%} was aimed at"
        )

    def pooled_cost(self, x: Array) -> float:
        """Give the clustering cost of all rows at the mean centers; labels are set to match."""
        mean = self._mean_everywhere(x)
        self.users.assign(mean)
        return float(self.users.cost(mean).sum())

    def _mean_everywhere(self, x: Array) -> Array:
        return np.repeat(x.mean(axis=0)[None], len(x), axis=0)

    def judge(
        self,
        best: _Try,
        *,
        rho: float,
        alpha: float,
        c: float,
        why: dict[str, str],
        tol: float,
        rounds: int,
        traffic: Traffic,
    ) -> Solution:
        """Compute the certificate and put the solution together."""
        users, run = self.users, best.run
        x = run.x
        total = float(users.total_weights.sum())
        mean = self._mean_everywhere(x)
        users.assign(mean)
        pooled = np.linalg.norm(users.pull(mean).sum(axis=0), axis=1).max()
        users.assign(x)
        gradient = users.pull(x) / rho + c * self.graph.differences(x)
        apart = disagreement(x)
        certificate = Certificate(
            residual=float(
                rho * np.linalg.norm(gradient, axis=2).max() / (self.W * self.scale * self.spread)
            ),
            pooled_residual=float(pooled / (total * self.scale * self.spread)),
            disagreement=apart.mean,
            disagreement_stacked=apart.stacked,
            disagreement_exact=apart.exact,
            cost=float(users.cost(x).sum() / rho + 0.5 * c * self.graph.energy(x)),
            pooled_cost=best.cost,
            rounds=run.rounds,
            messages=run.traffic.messages,
            bytes=run.traffic.bytes,
            setup_messages=traffic.messages - run.traffic.messages,
            setup_bytes=traffic.bytes - run.traffic.bytes,
            spread=self.spread,
            largest_weight=self.W,
        )
        return Solution(
            centers=x,
            labels=np.split(users.labels, users.offsets[1:-1]),
            status=self._status(certificate, run.stopped, tol=tol, rounds=rounds),
            certificate=certificate,
            rho=rho,
            alpha=alpha,
            why=why,
            trace=best.trace,
            loss=users.loss,
            distance=users.distance,
        )

    def _status(
        self, certificate: Certificate, stopped: bool, *, tol: float, rounds: int
    ) -> Status:
        apart = certificate.disagreement / self.spread
        share = (
            f" The users' centers still differ by {apart:.0%} of the data's spread:"
            " a larger `rho` brings them closer."
            if apart > 10 * theory.AIMED_DISAGREEMENT
            else ""
        )
        if stopped:
            return Status("converged", f"every residual was below {tol:g}.{share}")
        return Status(
            "ran out of rounds",
            f"the residual is {certificate.residual:.2g} after {rounds} rounds, and"
            f" {tol:g} was asked for. Allow more `rounds`, or a larger `tol`; a smaller `rho`"
            f" converges faster.{share}",
        )


def prepare(
    parts: Any,
    *,
    n_clusters: int,
    graph: Any = "ring",
    loss: Any = "kmeans",
    distance: Any = "euclidean",
    weights: Any = "unit",
    runtime: Any = "simulator",
    random_state: Any = None,
) -> Job:
    """Check what a caller gives and return the job; see `cluster` for the parameters."""
    K = check_count(n_clusters, "n_clusters", "cluster")
    loss = losses.resolve(loss)
    distance = distances.resolve(distance)
    rows, offsets = check_parts(parts)
    given = check_weights(weights, offsets)
    distance.check(rows.shape[1])
    if isinstance(loss, Bregman):
        if not isinstance(distance, distances.Euclidean):
            raise ParameterError("`distance` of cluster must be left out with a Bregman loss.")
        _check_domain(loss, rows)
    network = graphs.resolve(graph, len(offsets) - 1)
    seed = _seed(random_state)
    users = Users(rows, offsets, weights=given, loss=loss, distance=distance)
    if (distinct := _distinct_rows(users, K)) < K:
        raise DataError(
            "`n_clusters` of cluster must be at most the number of distinct rows"
            f" (n_samples={len(rows)}, {distinct} of them distinct). Got {K}."
        )
    scale = loss.smoothness if isinstance(loss, Bregman) else distance.largest
    spread = _spread(users)
    # One distinct row has no spread; any unit will do then.
    return Job(
        users, network, runtimes.resolve(runtime, network), K, seed, spread or 1.0, float(scale)
    )


def _spread(users: Users) -> float:
    """Give the RMS distance of the joint data from its mean, weighted."""
    probe = Users(users.rows, users.offsets, weights=users.weights)
    total = probe.total_weights.sum()
    origin = np.zeros((users.m, 1, users.d))
    probe.assign(origin)
    mean = -probe.pull(origin).sum(axis=0) / total
    at_mean = np.repeat(mean[None], users.m, axis=0)
    # A K-means cost is half the sum of squares.
    return float(np.sqrt(2.0 * probe.cost(at_mean).sum() / total))


def _distinct_rows(users: Users, enough: int) -> int:
    """Count distinct rows of positive weight, looking no further than is enough."""
    weights = users.weights if not isinstance(users.weights, float) else None
    first = slice(0, 16 * enough)
    for here in (first, slice(None)):
        rows = users.rows[here] if weights is None else users.rows[here][weights[here] > 0]
        found = len(np.unique(rows, axis=0))
        if found >= enough:
            break
    return found


def _check_domain(loss: Bregman, rows: NDArray[Any]) -> None:
    outside = ~np.isfinite(loss.psi(rows.astype(np.float64)))
    if outside.any():
        raise DataError(
            f"The rows must lie in the domain of the {loss.name} loss. Row"
            f" {int(outside.argmax())} does not."
        )


def _seed(random_state: Any) -> int:
    generator = check_generator(random_state, "cluster")
    return int(generator.integers(1 << 62))


class _Watch:
    """Looks at the states between rounds: keeps the trace, reports progress."""

    def __init__(
        self,
        job: Job,
        rho: float,
        c: float,
        *,
        keep: bool,
        progress: Callable[[int, float], None] | None,
    ) -> None:
        self._job, self._rho, self._c, self._keep, self._progress = job, rho, c, keep, progress
        self._rows: list[tuple[float, float, float, int, float]] = []

    def __call__(self, states: Sequence[Any], blocks: Sequence[Users]) -> None:
        job = self._job
        residual = max(float(state.residual.max()) for state in states)
        residual /= job.W * job.scale * job.spread
        if self._keep:
            x = np.concatenate([state.x for state in states])
            costs = np.concatenate([b.cost(s.x) for b, s in zip(blocks, states, strict=True)])
            cost = costs.sum() / self._rho + 0.5 * self._c * job.graph.energy(x)
            apart = disagreement(x)
            changed = sum(block.changed for block in blocks)
            self._rows.append((float(cost), apart.mean, apart.stacked, changed, residual))
        if self._progress is not None:
            self._progress(states[0].round, residual)

    def trace(self) -> Trace:
        return Trace(*(np.array(column) for column in zip(*self._rows, strict=True)))
