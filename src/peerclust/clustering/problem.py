"""A checked problem, with the scales and choices that follow from its data and graph.

Arguments are checked here once. The loop over restarts is in `restarts`, the certificate of the
result in `certificate`, and its status in `status`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from peerclust import graphs, runtimes, theory
from peerclust.arrays import Array, Ints
from peerclust.clustering.auto_delta import choose_delta, is_auto
from peerclust.clustering.checkpoint import Journal
from peerclust.clustering.scaling import SCALES, Moments, Scale, agree_on_scale, distributed_moments
from peerclust.distances import Distance, Euclidean, Geometry
from peerclust.errors import DataError, FewRowsError, ParameterError
from peerclust.graphs import Graph
from peerclust.losses import Huber, KMeans, Loss, geometry_of
from peerclust.programs.protocol import UNKNOWN, State
from peerclust.ranks.distribution import Distribution
from peerclust.ranks.inputs import read_shared
from peerclust.row_validation import check_parts, check_ranges, check_weights
from peerclust.runtimes.convergence import Plan, Task, carry_out
from peerclust.runtimes.loop import check_finite, run_program
from peerclust.runtimes.protocol import (
    OnCheckpoint,
    OnRound,
    Run,
    Runtime,
    Snapshot,
    Traffic,
)
from peerclust.sparse import AnyRows, SparseRows
from peerclust.text import mention, parameter
from peerclust.theory import Curvature, Scales
from peerclust.users import Users
from peerclust.users.public_bounds import PublicBounds
from peerclust.users.rows import column_ranges, hash_rows
from peerclust.validation import RandomState, check_count, check_generator, check_name

# Squares of differences below the first number underflow; sums of squares of roots up to the second
# do not overflow.
_SMALLEST_WIDTH = 1e-150
_LARGEST_SUM = 1e153

# Squares of gradients that are 1e-10 of this do not underflow.
_SMALLEST_GRADIENT = 1e-140

# Users compare squares of curvatures, which are at most beta times this weight.
_LARGEST_WEIGHT = 1e140

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Problem:
    """Users on a graph, the runtime that runs their program, K, and the scales of the data.

    `users` are those of this process, by `distribution`; all else is the same in every process.
    With a `scale`, users' rows and all measures are in its coordinates. `sent` is the traffic of
    agreeing on the scale and on the loss. A `journal` writes checkpoints of the runs.
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

    def carry_out(self, plan: Plan[T], on_round: OnRound | None = None) -> T:
        """Run the tasks of a plan; return its result."""
        return carry_out(plan, partial(self.run, on_round=on_round))

    def run(self, task: Task, on_round: OnRound | None = None) -> Run[State]:
        """Run a task; raise if it diverges."""
        start = task.start if isinstance(task.start, Snapshot) else None
        x = self._centers(task.start) if isinstance(task.start, Snapshot) else task.start

        def call(
            *, on_checkpoint: OnCheckpoint | None = None, resume_from: Snapshot[State] | None = None
        ) -> Run[State]:
            return run_program(
                self.runtime,
                task.program,
                self.users,
                x,
                rounds=task.rounds,
                threshold=task.threshold,
                on_round=on_round if task.iterates else None,
                on_checkpoint=on_checkpoint,
                resume_from=start if resume_from is None else resume_from,
            )

        if self.journal is None or not task.iterates:
            run = call()
        else:
            run = self.journal.run(call, lambda: task.program.start(self.users, x), on_round)
        with self.distribution.group.raise_on_all():
            check_finite(run.x, run.rounds)
        return run

    @staticmethod
    def _centers(start: Snapshot[State]) -> Array:
        return np.concatenate([state.x for state in start.states])

    def check_curvature(self, curvature: Curvature) -> None:
        """Raise if gradients of the cost are so small that their squares underflow."""
        largest = float(curvature.mean.max()) * self.scales.spread
        if 0 < largest < _SMALLEST_GRADIENT:
            raise DataError(
                "The rows, or their weights, are so small that squares of gradients underflow:"
                f" gradients of a user's cost are about {largest:.3g}. Multiply all rows, or all"
                " weights, by a constant."
            )

    def residual(self, states: Sequence[State]) -> float:
        """Return the largest residual at the start of the last round; NaN if one is unknown."""
        largest = float(
            self.distribution.max_over_ranks(max(state.max_residual for state in states))
        )
        return largest / self.scales.spread if largest < UNKNOWN else float("nan")

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
    scale: str = "none",
    ranges: object = None,
    mean_of: int = 1,
) -> Problem:
    """Check the arguments and return the problem; see `cluster` for the parameters.

    `mean_of` is that of the start by which a Huber loss is chosen, if its delta is "auto".
    """
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
        _check_scale(scale, geometry, rows)
        geometry.check_rows(rows, "cluster")
        box = None if ranges is None else PublicBounds(*check_ranges(ranges, rows.shape[1]))
        if box is not None:
            _check_in_box(rows, offsets, distribution.local, box)
    resolved = runtimes.resolve(runtime, distribution)
    make = partial(
        Users, offsets=offsets, weights=given, ids=distribution.local.tolist(), bounds=box
    )
    moments: Moments | None = None
    units: Scale | None = None
    sent = Traffic()
    if scale != "none":
        plain = make(rows)
        moments, sent = distributed_moments(resolved, plain)
        units, more = agree_on_scale(resolved, plain, scale, moments)
        sent += more
        if units is not None:
            rows = units.forward(rows)
            scaled = box and PublicBounds(units.forward(box.low), units.forward(box.high))
            make = partial(make, bounds=scaled)
    users = make(rows, loss=KMeans() if is_auto(loss) else loss, distance=distance)
    if (distinct := _count_distinct(users, distribution, K)) < K:
        n = sum(group.allgather(len(rows)))
        raise FewRowsError(
            parameter("n_clusters", "cluster") + " must be at most the number of distinct rows"
            f" (n_samples={n}, {distinct} of them distinct). Got {K}.",
            distinct,
        )
    totals = distribution.gather_users(users.total_weights)
    W_total = float(totals.sum())
    _check_magnitude(users, distribution, W_total)
    spread = moments.spread_in(units) if moments else _spread(users, distribution, W_total)
    if is_auto(loss):
        delta, more = choose_delta(resolved, users, K, seed=seed, spread=spread, mean_of=mean_of)
        users, sent = make(rows, loss=Huber(delta), distance=distance), sent + more
    scales = Scales(W=float(totals.max()), W_total=W_total, beta=users.smoothness, spread=spread)
    return Problem(
        users=users,
        distribution=distribution,
        runtime=resolved,
        K=K,
        seed=seed,
        scales=scales,
        scale=units,
        sent=sent,
    )


def _check_scale(scale: str, geometry: Geometry, rows: AnyRows) -> None:
    check_name(scale, SCALES, "scale", "cluster")
    if scale != "none" and geometry.divergence is not None:
        raise ParameterError(
            parameter("scale", "cluster")
            + " must be 'none' with a Bregman loss, whose domain and divergence belong to the rows'"
            f" own units. Got {scale!r} and the {geometry.name} loss."
        )
    if scale != "none" and isinstance(rows, SparseRows):
        raise ParameterError(
            parameter("scale", "cluster") + " must be 'none' with sparse rows, whose zeros would be"
            f" lost as features are centered. Got {scale!r}."
        )


def _check_in_box(rows: AnyRows, offsets: Ints, ids: Ints, box: PublicBounds) -> None:
    """Raise if a row of these users lies outside of the public ranges."""
    low, high = column_ranges(rows, offsets)
    outside = np.argwhere((low < box.low) | (high > box.high))
    if len(outside):
        user, column = outside[0]
        below = low[user, column] < box.low[column]
        got = low[user, column] if below else high[user, column]
        raise DataError(
            parameter("ranges", "cluster")
            + f" must contain all rows. Got {got:g} in column {column} of user {ids[user]}, outside"
            f" of {box.low[column]:g} to {box.high[column]:g}."
        )


def _check_magnitude(users: Users, distribution: Distribution, weight: float) -> None:
    """Raise if squares of differences between rows, or their sum, leave the range.

    `weight` is the total weight of all rows.
    """
    largest = np.zeros(2)
    if users.rows.size:
        low, high = (each[np.isfinite(each[:, 0])] for each in users.ranges)
        low, high = low.min(axis=0), high.max(axis=0)
        largest[:] = (high - low).max(), max(high.max(), -low.min())
    width, far = distribution.max_over_ranks(largest)
    if 0 < width < _SMALLEST_WIDTH:
        raise DataError(
            f"The rows must differ by at least {_SMALLEST_WIDTH:g}, or the squares of their"
            f" differences underflow. Got a largest difference of {width:.3g}; multiply all rows by"
            " a constant."
        )
    if weight * users.smoothness > _LARGEST_WEIGHT:
        raise DataError(
            f"The total weight of all rows must be at most {_LARGEST_WEIGHT:g}. Got {weight:.3g};"
            " divide all weights by a constant."
        )
    if not far * max(np.sqrt(max(weight, 1.0) * users.d), 1e3 * weight) < _LARGEST_SUM:
        raise DataError(
            f"The squares of the rows, times their weights, must not overflow. Got numbers up to"
            f" {far:.3g} and a total weight of {weight:.3g}; divide all rows, or all weights, by a"
            " constant."
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
    if isinstance(users.rows, SparseRows):
        weighted = np.broadcast_to(users.weights, len(users.rows)) > 0
        return len(np.unique(hash_rows(users.rows)[weighted]))
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
