"""Compiling all kernels in advance, for images and services."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray

from peerclust import graphs, kernels
from peerclust.clustering.cluster import cluster
from peerclust.distances import Euclidean, Linear, Mahalanobis
from peerclust.runtimes.simulator import Simulator
from peerclust.users.nearest import measure

# Rows of a user and features: rows in boxes, rows with one bound and with one per center, and users
# with few rows, whose loops are compiled for each number of features up to four.
_SHAPES = [(700, 2), (100, 2), (100, 20), *((6, d) for d in (1, 2, 3, 4, 5))]
_SOLVERS = ["exact", "accelerated", "admm"]


def warm_up(report: Callable[[str], None], *, float32: bool = False) -> None:
    """Compile what K-means and the robust losses need, for float64 rows or for both types.

    `report` is called with a line before each step. Weights need no code of their own, and the
    robust losses share theirs.
    """
    dtypes = ("float64", "float32") if float32 else ("float64",)
    steps = list(product(_SHAPES, dtypes, ("kmeans", "huber")))
    with kernels.use_mode("always"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs that end before they converge
        for number, ((n, d), dtype, loss) in enumerate(steps, 1):
            report(f"{number} of {len(steps)}: {n} rows with {d} features, {dtype}, {loss}")
            parts = _draw_parts(n, d, dtype)
            solutions = [
                cluster(
                    parts, n_clusters=4, loss=loss, solver=solver, graph="ring", rounds=30,
                    tol=1e-12, random_state=0,
                )
                for solver in _SOLVERS
            ]  # fmt: skip
            rows, centers = parts[0], solutions[0].consensus
            solutions[0].predict(rows)
            measure(rows, centers, Linear(Euclidean()))
            kernels.split_median(rows.copy(), np.arange(n, dtype=np.int32), 0, n)
        links = Simulator(graphs.path(2)).distribution
        links.energy(np.zeros((2, 1, 1)))
        links.differences(np.zeros((2, 1, 1)))
        for dtype in dtypes:
            parts, matrix = _draw_parts(6, 5, dtype), Mahalanobis(np.eye(5))
            cluster(parts, n_clusters=2, distance=matrix, rounds=2, search="none")


def _draw_parts(n: int, d: int, dtype: str) -> list[NDArray[np.float32 | np.float64]]:
    """Return the rows of three users, (n, d) each."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, d)).astype(dtype) for _ in range(3)]
