"""Small problems for the conformance suites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peerclust import graphs
from peerclust.arrays import Array
from peerclust.bregman import generalized_kl, squared_mahalanobis
from peerclust.distances import Distance, Euclidean, Mahalanobis
from peerclust.graphs import Graph
from peerclust.losses import Fair, Huber, KMeans, Logistic
from peerclust.programs.solver_spec import Tuning
from peerclust.theory import safe_step, smoothness
from peerclust.users import Users

# Two of the 13 users are empty, and one has more rows than two chunks of the kernels.
_SIZES = (5, 0, 1, 9, 2, 40, 3, 0, 70, 6, 1, 4, 129)
# At most a handful of rows each.
_SMALL = (5, 0, 1, 9, 2, 15, 3, 0, 7, 6, 1, 4, 12)
_LARGE = (5, 0, 1, 9, 2, 40, 3, 0, 70, 6, 1, 4, 20_000)


@dataclass(frozen=True)
class Case:
    """A small problem: 13 users of unequal size on some graph, with rows from a fixed seed."""

    name: str
    graph: Graph
    loss: Any = field(default_factory=KMeans)
    distance: Distance = field(default_factory=Euclidean)
    weighted: bool = True
    sizes: tuple[int, ...] = _SIZES
    dtype: type[Any] = np.float64

    def users(self, own: Sequence[int] | None = None) -> Users:
        """Return new users, so that nothing is cached from an earlier run.

        All of them, or only those with the numbers `own`.
        """
        rng = np.random.default_rng(7)
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        rows = rng.normal(size=(offsets[-1], 3)) + 4.0 * rng.integers(0, 3, (offsets[-1], 1))
        # Far enough above 0 for the domain of every loss.
        rows = (np.abs(rows) + 1.0).astype(self.dtype)
        weights = rng.uniform(0.1, 2.0, len(rows)) if self.weighted else 1.0
        options: Any = {"loss": self.loss, "distance": self.distance}
        if own is None or len(own) == self.graph.m:
            return Users(rows, offsets, weights=weights, **options)
        here = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in own])
        if not isinstance(weights, float):
            weights = weights[here]
        offsets = np.concatenate([[0], np.cumsum([self.sizes[i] for i in own])])
        return Users(rows[here], offsets, weights=weights, ids=own, **options)

    def start(self) -> Array:
        """Return centers of its own for each user, (13, 4, 3)."""
        return 1.0 + np.abs(np.random.default_rng(8).normal(size=(self.graph.m, 4, 3)) * 3.0)

    def step(self, rho: float) -> float:
        """Return a safe step for a consensus factor up to 1."""
        return safe_step(
            beta=smoothness(self.loss, self.distance),
            W=float(self.users().total_weights.max()),
            rho=rho,
            lambda_max=self.graph.lambda_max.value,
        )

    def tuning(self, rho: float = 20.0) -> Tuning:
        """Return what a `SolverSpec` makes its program from."""
        users = self.users()
        curvature = users.local_curvature(users.assign(self.start()), self.start()).mean(axis=0)
        return Tuning(lambda: self.graph, curvature, rho=rho, alpha=self.step(rho))

    def relative_step(self, rho: float) -> float:
        """Return a safe step for a program that divides it by the curvature of each center.

        That curvature, weight / rho + |N_i|, is at least the minimum degree.
        """
        return self.step(rho) * float(self.graph.degree.min())


def cases() -> Iterator[Case]:
    """Yield every loss and distance on a ring, every graph, large and small users, float32 rows."""
    A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
    ring = graphs.ring(13)
    for loss in (KMeans(), Huber(0.7), Logistic(), Fair(0.5), _Own()):
        for distance in (Euclidean(), Mahalanobis(A)):
            name = f"{loss}, {type(distance).__name__}, ring(13)"
            yield Case(name, ring, loss, distance)
    for bregman in (squared_mahalanobis(A), generalized_kl(smoothness=9.0)):
        yield Case(f"{bregman.name}, ring(13)", ring, bregman)
    for graph in (
        graphs.path(13),
        graphs.star(13),
        graphs.complete(13),
        graphs.erdos_renyi(13, 0.3, random_state=0),
        graphs.geometric(13, 0.45, random_state=0),
    ):
        yield Case(f"KMeans, {graph.name}", graph, weighted=False)
        yield Case(f"Huber, {graph.name}", graph, Huber(0.7))
    for loss in (KMeans(), Huber(0.7)):
        yield Case(f"{loss}, a large user", ring, loss, sizes=_LARGE)
        yield Case(f"{loss}, float32", ring, loss, sizes=_LARGE, dtype=np.float32)

    for loss in (KMeans(), Huber(0.7), Logistic(), Fair(0.5)):
        yield Case(f"{loss}, small users", ring, loss, sizes=_SMALL)
    star = graphs.star(13)
    yield Case("KMeans, small users, float32, star", star, sizes=_SMALL, dtype=np.float32)
    yield Case("KMeans, small users, unweighted", ring, weighted=False, sizes=_SMALL)


@dataclass(frozen=True)
class _Own:
    """A loss that is not built in: h(r) = sqrt(1 + r^2) - 1."""

    smoothness: float = 1.0

    def value(self, r2: Array) -> Array:
        return np.asarray(np.sqrt(1.0 + r2) - 1.0)

    def gamma(self, r2: Array) -> Array:
        return np.asarray(1.0 / np.sqrt(1.0 + r2))
