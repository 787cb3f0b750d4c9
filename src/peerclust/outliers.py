"""Outliers of a clustering: their score, and how robust the loss must be to find them.

The score of a row is its distance to the nearest center: the further out, the higher. It is only as
good as the centers, so these are found with the Huber loss, whose far rows pull no harder than rows
at distance delta, from starts that far rows are seldom drawn into.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import initialize
from peerclust.distances import Distance, Euclidean
from peerclust.losses import KMeans
from peerclust.problem import prepare
from peerclust.users import nearest

Array = NDArray[np.float64]

# delta="auto" is this quantile of the rows' distances to the start's centers.
DELTA_QUANTILE = 0.5


def outlier_scores(
    rows: NDArray[Any], centers: Array, *, distance: Distance | None = None
) -> Array:
    """Give the distance of each row (N, d) to the nearest of the centers (K, d).

    >>> outlier_scores(np.array([[0.0], [7.0]]), np.array([[0.0], [10.0]])).tolist()
    [0.0, 3.0]
    """
    _, r2 = nearest(rows, centers, loss=KMeans(), distance=distance or Euclidean())
    return np.sqrt(r2)


def agree_on_delta(
    parts: Any,
    *,
    n_clusters: int,
    graph: Any = "ring",
    distance: Any = "euclidean",
    weights: Any = "unit",
    init: Any = "k-means++",
    runtime: Any = "simulator",
    random_state: Any = None,
) -> float:
    """Give a delta for the Huber loss: the median distance of the joint rows to a start's centers.

    The users agree on it without a server: they draw the start, then the distances of 1000 rows of
    the joint data (see `programs.draw`); those distances become known to all.

    >>> parts = [np.array([[0.0], [1.0], [2.0]]), np.array([[10.0], [11.0], [12.0]])]
    >>> agree_on_delta(parts, n_clusters=2, random_state=0)
    1.0
    """
    problem = prepare(
        parts,
        n_clusters=n_clusters,
        graph=graph,
        distance=distance,
        weights=weights,
        runtime=runtime,
        random_state=random_state,
    )
    start = initialize.resolve(init)
    x, _ = start.centers(problem.runtime, problem.users, problem.K, problem.seed)
    r2, _ = initialize.sample_distances(
        problem.runtime, problem.users, x[0], problem.seed, problem.K
    )
    delta = float(np.quantile(np.sqrt(r2), DELTA_QUANTILE))
    # Half of the rows lie on centers: any delta that is small beside the spread will do.
    return delta if delta > 0 else 1e-3 * problem.spread
