"""Compile the kernels that most tests use, so that pytest's workers find them in the cache.

`make test` runs `python -m tests.warm_up` before it starts pytest. What is missing here is compiled
by the first test that needs it: that costs time, in each worker, and nothing else.
"""

from __future__ import annotations

import warnings

import numpy as np

import peerclust as pc
from peerclust.programs.solvers import SOLVERS

# Rows of a user and features: a kernel for few rows, by the number of features up to four; one that
# caches assignments; one with boxes of rows; one with bounds for each center.
SHAPES = [(6, 1), (6, 2), (6, 3), (6, 4), (6, 5), (30, 2), (30, 5), (30, 20), (600, 2), (600, 20)]


class OwnLoss:
    """A loss that has no formula in the kernels: K-means once more."""

    smoothness = 1.0

    def value(self, r2: np.ndarray) -> np.ndarray:
        return r2 / 2

    def gamma(self, r2: np.ndarray) -> np.ndarray:
        return np.ones_like(r2)


def warm_up() -> None:
    """Run a few rounds on each shape, and of each solver, loss, distance and exchange format."""
    for n, d in SHAPES:
        parts = make_parts(n, d)
        run(parts)
        run(parts, weights=[np.ones(len(rows)) for rows in parts])
        run([rows.astype(np.float32) for rows in parts])
        run(parts, distance=pc.Mahalanobis(np.eye(d)))
    parts = make_parts(30, 2)
    for solver in SOLVERS:
        for few in (parts, make_parts(6, 2)):
            run(few, solver=solver, rho="auto", runtime="loopback")
            run(few, solver=solver, rho="auto", rounds=100, search="swaps")
    for exchange in ("float32", "8-bit"):
        run(parts, exchange=exchange)
    for loss in ("huber", "logistic", "fair", OwnLoss(), pc.bregman.generalized_kl(smoothness=1.0)):
        run([abs(rows) + 1 for rows in parts], loss=loss)
    rows = np.concatenate(parts)
    pc.PeerOutlierDetector(n_clusters=2, max_iter=3).fit_predict(rows)


def make_parts(n: int, d: int) -> list[np.ndarray]:
    """Return the rows of three users."""
    rng = np.random.default_rng((n, d))
    return [rng.normal(size=(n, d)) for _ in range(3)]


def run(parts: list[np.ndarray], **options: object) -> None:
    """Cluster and predict, for a few rounds only."""
    solution = pc.cluster(parts, **{"n_clusters": 2, "rho": 2, "rounds": 3, **options})
    solution.predict(parts[0])


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of runs that end before they converge
    warm_up()
