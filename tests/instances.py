"""The one list of all losses, distances, objectives, graphs and weights that tests run over.

A new one joins every test by adding a line here. Use each list with `ids=repr`:

    @pytest.mark.parametrize("loss", LOSSES, ids=repr)

What depends on a size is a `Maker`: call it with the number of features d, users m or rows n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from peerclust import bregman, graphs
from peerclust.distances import Euclidean, Mahalanobis
from peerclust.losses import Fair, Huber, KMeans, Logistic


@dataclass(frozen=True)
class PseudoHuber:
    """A loss as a user of the library would write it: three members, nothing inherited."""

    delta: float = 1.0
    smoothness = 1.0

    def value(self, r2):
        # delta^2 (sqrt(1 + t) - 1) with t = r2 / delta^2, without the difference
        return r2 / (1.0 + np.sqrt(1.0 + r2 / self.delta**2))

    def gamma(self, r2):
        return 1.0 / np.sqrt(1.0 + r2 / self.delta**2)


@dataclass(frozen=True)
class Maker:
    """A function of a size, whose repr names what it makes."""

    name: str
    make: Callable[[int], Any]

    def __call__(self, size: int) -> Any:
        return self.make(size)

    def __repr__(self) -> str:
        return self.name


def spd(d: int, seed: int = 5) -> np.ndarray:
    """A symmetric positive definite (d, d) matrix, far from diagonal, of condition below 100."""
    root = np.random.default_rng((seed, d)).normal(size=(d, d))
    gram = root @ root.T / d
    return 0.5 * (gram + gram.T) + 0.25 * np.eye(d)


def _some_zero(n: int) -> np.ndarray:
    rng = np.random.default_rng((7, n))
    return rng.uniform(0.1, 3.0, n) * (rng.random(n) > 0.1)


LOSSES = [KMeans(), Huber(0.5), Huber(5.0), Logistic(), Fair(1.0), Fair(0.3), PseudoHuber(0.7)]

# of the number of features
DISTANCES = [
    Maker("euclidean", lambda d: Euclidean()),
    Maker("mahalanobis", lambda d: Mahalanobis(spd(d))),
]

# of the number of features; rows and centers above zero are in the domain of every one
BREGMANS = [
    Maker("squared_euclidean", lambda d: bregman.squared_euclidean()),
    Maker("squared_mahalanobis", lambda d: bregman.squared_mahalanobis(spd(d))),
    Maker("generalized_kl", lambda d: bregman.generalized_kl(smoothness=30.0)),
]

# of the number of users
GRAPHS = [
    Maker("ring", graphs.ring),
    Maker("path", graphs.path),
    Maker("star", graphs.star),
    Maker("complete", graphs.complete),
    Maker("grid", lambda m: graphs.resolve("grid", m)),
    Maker("erdos_renyi", lambda m: graphs.erdos_renyi(m, 0.5, random_state=0)),
    Maker("geometric", lambda m: graphs.geometric(m, 0.6, random_state=0)),
    Maker("exponential", graphs.exponential),
]


@dataclass(frozen=True)
class Objective:
    """What is minimized over rows of d features: a loss and a distance, as options of `Users`."""

    name: str
    loss: Callable[[int], Any]
    distance: Callable[[int], Any] = DISTANCES[0]

    def __call__(self, d: int) -> dict[str, Any]:
        return {"loss": self.loss(d), "distance": self.distance(d)}

    def __repr__(self) -> str:
        return self.name


# Every loss with every distance, and every Bregman loss, which brings its own.
OBJECTIVES = [
    Objective(f"{loss!r}-{distance!r}", lambda d, loss=loss: loss, distance)
    for loss in LOSSES
    for distance in DISTANCES
] + [Objective(repr(breg), breg) for breg in BREGMANS]

# of the number of rows
WEIGHTS = [
    Maker("unit", lambda n: 1.0),
    Maker("normalized", lambda n: 1.0 / max(n, 1)),
    Maker("each", _some_zero),
]


def random_block(sizes, d, K, *, dtype=np.float64, seed=0):
    """Rows, offsets and each user's own centers; above zero, so in every domain."""
    rng = np.random.default_rng((seed, sum(sizes), d, K))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = rng.uniform(0.2, 5.0, size=(offsets[-1], d)).astype(dtype)
    return rows, offsets, rng.uniform(0.2, 5.0, size=(len(sizes), K, d))


# Users' numbers of rows for a block: none, one, whole tiles and chunks, and around them.
SIZES = [5, 0, 1, 17, 64, 0, 16, 150, 33, 2]

# The users' numbers of rows, features d and centers K. kernels.TILE is 64, kernels.CHUNK_ROWS 8192.
SHAPES = [
    ([1], 1, 1),
    ([0], 2, 3),
    ([0, 0, 0], 1, 2),
    ([2], 3, 9),
    ([0, 1, 2, 0, 63, 64, 65, 0], 2, 3),
    ([200, 7, 1, 130], 5, 4),
    ([40, 41], 17, 6),
    ([3] * 20, 1, 2),
    ([8191, 8193, 0, 5], 2, 3),
]
