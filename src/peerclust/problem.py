"""A problem that has been checked, with the scales and choices that follow from its data and graph.

What comes in through a door is checked here once. The loop over starts is in `clustering`, the
judgement of where it ended in `certify`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import distances, graphs, losses, runtimes, theory
from peerclust.bregman import Bregman
from peerclust.errors import DataError, ParameterError
from peerclust.graphs import Graph
from peerclust.metrics import disagreement
from peerclust.runtimes.protocol import Runtime
from peerclust.users import Users
from peerclust.validation import check_count, check_generator, check_parts, check_weights

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Users on a graph, the runtime that drives them, K, and the scales of the data.

    `spread` is the RMS distance s of the joint rows from their mean. `steepness` is what the
    distance or a Bregman loss multiplies gradients by: lambda_max(A), or the loss's smoothness.
    """

    users: Users
    graph: Graph
    runtime: Runtime
    K: int
    seed: int
    spread: float
    steepness: float

    @property
    def W(self) -> float:
        """The largest total weight of a user."""
        return float(self.users.total_weights.max())

    @property
    def unit(self) -> float:
        """W s, by which a gradient is divided to become a residual."""
        return self.W * self.steepness * self.spread

    @property
    def beta(self) -> float:
        """The smoothness of the loss under the distance."""
        return theory.smoothness(self.users.loss, self.users.distance)

    def pilot_rho(self, factor: float | str) -> float:
        """Give the small rho at which rho="auto" measures disagreement."""
        return theory.pilot_rho(
            beta=self.beta, W=self.W, lambda_2=self.graph.lambda_2.value, factor=factor
        )

    def choose_rho(self, x: Array, factor: float | str) -> tuple[float, str]:
        """Give rho from the disagreement of centers x found at the pilot's rho, and why."""
        if self.graph.m == 1:
            return 1.0, "one user alone has nobody to disagree with"
        pilot = self.pilot_rho(factor)
        measured = disagreement(x).mean
        aimed = theory.AIMED_DISAGREEMENT * self.spread
        rho = theory.scaled_rho(pilot=pilot, measured=measured, aimed=aimed, factor=factor)
        return rho, (
            f"users disagreed by {measured / self.spread:.2%} of the data's spread at"
            f" rho = {pilot:.4g}; disagreement falls like 1/rho, so {rho:.4g} aims at"
            f" {theory.AIMED_DISAGREEMENT:.0%}"
        )

    def choose_alpha(self, alpha: float | str, rho: float, c: float) -> tuple[float, str]:
        """Give the step for a rho and a consensus factor, and why."""
        lambda_max = self.graph.lambda_max
        if alpha == "paper":
            largest = int(np.diff(self.users.offsets).max())
            step = theory.paper_step(
                m=self.graph.m, largest=largest, rho=rho, lambda_max=lambda_max.value
            )
            return step, "1 / (2 m |D_max| / rho + lambda_max(L) + 1), the step of the paper"
        if alpha == "auto":
            step = theory.safe_step(
                beta=self.beta, W=self.W, rho=rho, lambda_max=lambda_max.value, consensus_factor=c
            )
            bound = "" if lambda_max.exact else f" ({lambda_max.how})"
            outside = "" if theory.in_theory(self.users.loss) else "; outside the theory"
            return step, (
                f"{theory.SAFETY} / (beta W / rho + c lambda_max(L)) with beta = {self.beta:.4g},"
                f" W = {self.W:.4g}, c = {c:.4g},"
                f" lambda_max(L) = {lambda_max.value:.4g}{bound}{outside}"
            )
        return float(alpha), "given"


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
) -> Problem:
    """Check what a caller gives and return the problem; see `cluster` for the parameters."""
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
    return Problem(
        users=users,
        graph=network,
        runtime=runtimes.resolve(runtime, network),
        K=K,
        seed=seed,
        # One distinct row has no spread; any unit will do then.
        spread=_spread(users) or 1.0,
        steepness=float(loss.smoothness if isinstance(loss, Bregman) else distance.largest),
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
