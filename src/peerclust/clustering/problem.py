"""A checked problem, with the scales and choices that follow from its data and graph.

Arguments are checked here once. The loop over restarts is in `restarts`, the certificate of the
result in `certificate`, and its status in `status`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from peerclust import graphs, runtimes, theory
from peerclust.arrays import Array
from peerclust.clustering.checkpoint import Journal
from peerclust.clustering.scaling import Moments, Scale, distributed_moments
from peerclust.distances import Distance, Euclidean, Geometry
from peerclust.errors import DataError, ParameterError
from peerclust.graphs import Graph
from peerclust.graphs.graph import DENSE
from peerclust.losses import KMeans, Loss, geometry_of
from peerclust.programs.protocol import UNKNOWN, H, Program, S, State
from peerclust.ranks.distribution import Distribution
from peerclust.ranks.inputs import read_shared
from peerclust.runtimes.loop import check_finite, run_program
from peerclust.runtimes.protocol import OnRound, Run, Runtime, Traffic
from peerclust.text import mention, parameter
from peerclust.theory import Scales
from peerclust.users import Users
from peerclust.validation import (
    RandomState,
    check_count,
    check_generator,
    check_name,
    check_parts,
    check_weights,
)

SCALES = ("standard",)


@dataclass(frozen=True, eq=False)
class Problem:
    """Users on a graph, the runtime that runs their program, K, and the scales of the data.

    `users` are those of this process, by `distribution`; all else is the same in every process.
    With a `scale`, users' rows and all measures are in its coordinates, and `sent` is the traffic
    of agreeing on it. A `journal` writes checkpoints of the runs.
    """

    users: Users
    distribution: Distribution
    runtime: Runtime
    K: int
    seed: int
    scales: Scales
    scale: Scale | None = None
    sent: Traffic = field(default_factory=Traffic)
    journal: Journal | None = None

    @cached_property
    def graph(self) -> Graph:
        """The communication graph."""
        return self.distribution.graph

    def initial_rho(self, consensus_factor: float | str) -> float:
        """Return the small rho at which rho="auto" starts."""
        return theory.initial_rho(
            beta=self.scales.beta,
            W=self.scales.W,
            lambda_max=self.graph.lambda_max.value,
            consensus_factor=consensus_factor,
        )

    def scaled(self, x: Array) -> Array:
        """Convert centers from the rows' own units to the coordinates of the problem."""
        return x if self.scale is None else np.asarray(self.scale.forward(x))

    def check_start(self, x: Array) -> None:
        """Raise if an initial center lies outside the domain of a Bregman loss."""
        if self.distribution.any_rank(not self.users.geometry.contains(x)):
            raise DataError(
                f"The start must lie in the domain of the {self.users.geometry.name} loss, and a"
                " center of it does not; pass centers that do as " + mention("init") + "."
            )

    def run(
        self,
        program: Program[S, H],
        x: Array,
        rounds: int,
        tol: float,
        on_round: OnRound | None = None,
    ) -> Run[S]:
        """Run a program from x; raise if it diverges."""
        threshold = tol * self.scales.residual if tol > 0 else -1.0
        call = partial(
            run_program,
            self.runtime,
            program,
            self.users,
            x,
            rounds=rounds,
            threshold=threshold,
            on_round=on_round,
        )
        if self.journal is None:
            run = call()
        else:
            run = self.journal.run(call, lambda: program.start(self.users, x), on_round)
        with self.distribution.group.raise_on_all():
            check_finite(run.x, run.rounds)
        return run

    def residual(self, states: Sequence[State]) -> float:
        """Return the largest residual at the start of the last round; NaN if one is unknown."""
        largest = float(
            self.distribution.max_over_ranks(max(state.max_residual for state in states))
        )
        return largest / self.scales.residual if largest < UNKNOWN else float("nan")

    def disagreement(self, x: Array) -> float:
        """Return the disagreement of the users' centers x as a fraction of the data's spread."""
        return self.distribution.disagreement(x).mean / self.scales.spread

    def choose_alpha(self, alpha: float | str, rho: float, c: float) -> tuple[float, str]:
        """Return the step size for a rho and a consensus factor, and how it was chosen."""
        if not isinstance(alpha, str):
            return float(alpha), "given"
        lambda_max, beta, W = self.graph.lambda_max, self.scales.beta, self.scales.W
        if alpha == "paper":
            largest = int(self.distribution.max_over_ranks(np.diff(self.users.offsets).max()))
            step = theory.paper_step(
                m=self.graph.m, largest=largest, rho=rho, lambda_max=lambda_max.value
            )
            return step, "1 / (2 m |D_max| / rho + lambda_max(L) + 1), the paper's step size"
        step = theory.safe_step(beta=beta, W=W, rho=rho, lambda_max=lambda_max.value, c=c)
        bound = "" if lambda_max.exact else f" ({lambda_max.how})"
        outside = "" if self.users.geometry.in_theory else "; outside the theory"
        return step, (
            f"{theory.SAFETY} / (beta W / rho + c lambda_max(L)) with beta = {beta:.4g},"
            f" W = {W:.4g}, c = {c:.4g},"
            f" lambda_max(L) = {lambda_max.value:.4g}{bound}{outside}"
        )


def prepare(
    parts: object,
    *,
    n_clusters: int,
    graph: object,
    loss: Loss,
    distance: Distance,
    weights: object,
    runtime: object,
    random_state: RandomState,
    scale: str | None = None,
) -> Problem:
    """Check the arguments and return the problem; see `cluster` for the parameters."""
    group = runtimes.process_group(runtime)
    with group.raise_on_all():
        K = check_count(n_clusters, "n_clusters", "cluster")
        geometry = geometry_of(loss, distance)
        seed = draw_seed(random_state)
    if group.size == 1 and not isinstance(parts, Mapping) and not isinstance(weights, Mapping):
        rows, offsets = check_parts(parts)
        network = graphs.resolve(graph, len(offsets) - 1)
        distribution = Distribution(group, network, [np.arange(network.m)])
        given = check_weights(weights, offsets)
    else:
        common = {"n_clusters": K, "loss": loss, "distance": distance, "scale": scale}
        distribution, rows, offsets, given = read_shared(parts, graph, weights, group, common)
        network, seed = distribution.graph, group.bcast(seed)
    with group.raise_on_all():
        if scale is not None:
            _check_scale(scale, geometry, network)
        geometry.check_rows(rows, "cluster")
    resolved = runtimes.resolve(runtime, distribution)
    moments: Moments | None = None
    sent = Traffic()
    make = partial(Users, offsets=offsets, weights=given, ids=distribution.local.tolist())
    if scale is not None:
        moments, sent = distributed_moments(resolved, make(rows))
        rows = moments.scale.forward(rows)
    users = make(rows, loss=loss, distance=distance)
    if (distinct := _count_distinct(users, distribution, K)) < K:
        raise DataError(
            parameter("n_clusters", "cluster") + " must be at most the number of distinct rows"
            f" (n_samples={sum(group.allgather(len(rows)))}, {distinct} of them distinct). Got {K}."
        )
    totals = distribution.gather_users(users.total_weights)
    W_total = float(totals.sum())
    scales = Scales(
        W=float(totals.max()),
        W_total=W_total,
        steepness=geometry.steepness,
        beta=users.smoothness,
        spread=_spread(users, distribution, W_total) if moments is None else moments.scaled_spread,
    )
    return Problem(
        users=users,
        distribution=distribution,
        runtime=resolved,
        K=K,
        seed=seed,
        scales=scales,
        scale=None if moments is None else moments.scale,
        sent=sent,
    )


def _check_scale(scale: str, geometry: Geometry, network: Graph) -> None:
    check_name(scale, SCALES, "scale", "cluster")
    if geometry.divergence is not None:
        raise ParameterError(
            parameter("scale", "cluster")
            + " must be left out with a Bregman loss, whose domain and divergence"
            f" belong to the rows' own units. Got {scale!r} and the {geometry.name} loss."
        )
    if network.m > DENSE:
        raise ParameterError(
            parameter("scale", "cluster")
            + f" must be none for more than {DENSE} users, because an exact average"
            f" needs all eigenvalues of the graph. Got {scale!r} and {network.m} users."
        )


def _spread(users: Users, distribution: Distribution, total: float) -> float:
    """Return the RMS distance of the joint data, of this total weight, from its mean; never 0."""
    plain = isinstance(users.loss, KMeans) and isinstance(users.distance, Euclidean)
    probe = users if plain else Users(users.rows, users.offsets, weights=users.weights)
    origin = np.zeros((users.m, 1, users.d))
    assignment = probe.assign(origin)
    mean = -distribution.sum_over_users(probe.gradient(assignment, origin)) / total
    at_mean = users.broadcast_centers(mean)
    # A K-means cost is half the sum of squares.
    squares = 2.0 * distribution.gather_users(probe.cost(assignment, at_mean)).sum()
    return theory.nonzero_spread(float(np.sqrt(squares / total)), mean)


def _count_distinct(users: Users, distribution: Distribution, enough: int) -> int:
    """Count distinct rows of positive weight, up to at least `enough`."""
    weights = users.weights if not isinstance(users.weights, float) else None
    first = slice(0, 16 * enough)
    for here in (first, slice(None)):
        rows = users.rows[here] if weights is None else users.rows[here][weights[here] > 0]
        found = np.unique(rows, axis=0)
        if len(found) >= enough:
            break
    if distribution.group.size == 1:
        return len(found)
    # A rank that has enough rows on its own need not send more.
    return len(np.unique(np.concatenate(distribution.group.allgather(found[:enough])), axis=0))


def draw_seed(random_state: RandomState) -> int:
    """Return the seed of all users' random streams, drawn from a random state."""
    generator = check_generator(random_state, "cluster")
    return int(generator.integers(1 << 62))
