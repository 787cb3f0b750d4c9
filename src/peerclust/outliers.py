"""Outliers of a clustering: their scores, and the delta of the Huber loss that finds them.

The score of a row is its distance to the nearest center: the farther away, the higher. It is only
as good as the centers. So these are found with the Huber loss, for which the gradient of a row does
not grow beyond the distance delta, and from starts in which far rows are seldom drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from peerclust import distances, losses, runtimes
from peerclust.arrays import Array
from peerclust.clustering.problem import prepare
from peerclust.doors import Door
from peerclust.initialize import KMeansPlusPlus, joint_quantile
from peerclust.losses import geometry_of
from peerclust.runtimes.protocol import Traffic
from peerclust.users.nearest import nearest
from peerclust.validation import check_features, check_rows

# Starts are drawn with D^2 capped at this quantile.
CAP = 0.9

# delta="auto" is this quantile of the rows' distances to the centers of such a start.
DELTA_QUANTILE = 0.5

# The parameters that `estimate_delta` has in common with `cluster`.
SHARED = ("n_clusters", "graph", "distance", "weights", "runtime", "random_state")


def outlier_scores(
    rows: ArrayLike, centers: ArrayLike, *, loss: Any = "kmeans", distance: Any = "euclidean"
) -> Array:
    """Return the distance of each row (N, d) to the nearest of the centers (K, d).

    For a Bregman loss the distance is the square root of its divergence.

    >>> outlier_scores([[0.0], [7.0]], [[0.0], [10.0]]).tolist()
    [0.0, 3.0]
    """
    of = "outlier_scores"
    y, x = check_rows(rows, of), check_rows(centers, f"the centers of {of}")
    geometry = geometry_of(losses.resolve(loss, of), distances.resolve(distance, of), of)
    geometry.check_rows(y, of)
    check_features(x, y, of)
    return np.sqrt(nearest(y, x.astype(np.float64), geometry)[1])


def find_threshold(scores: Array, weights: Array, contamination: float) -> float:
    """Return the score below which the fraction `contamination` of the weight lies.

    >>> find_threshold(np.array([5.0, 1.0, 3.0, 2.0]), np.ones(4), 0.5)
    3.0
    """
    order = np.argsort(scores, kind="stable")
    ends = np.cumsum(weights[order])
    # Without the slack, rounding of fractional weights might leave one row too few.
    at = np.searchsorted(ends, contamination * ends[-1] * (1 + 1e-9), side="right")
    return float(scores[order[min(at, len(order) - 1)]])


def estimate_delta(
    parts: Any,
    *,
    n_clusters: int,
    graph: Any = "auto",
    distance: Any = "euclidean",
    weights: Any = "unit",
    runtime: Any = "simulator",
    random_state: Any = None,
) -> tuple[float, Traffic]:
    """Return a delta for the Huber loss, and the traffic that estimating it took.

    It is the median distance of the joint rows to the centers of a k-means++ start drawn with D^2
    capped. The users agree on it without a server: they draw the start (see `programs.draw`), then
    they count rows (see `programs.quantile`). All users learn the start's rows and the distance.

    >>> parts = [np.array([[0.0], [1.0], [2.0]]), np.array([[10.0], [11.0], [12.0]])]
    >>> estimate_delta(parts, n_clusters=2, random_state=0)[0]
    1.0
    """
    door = Door("estimate_delta", {("cluster", name): name for name in ("parts", *SHARED)})
    with runtimes.process_group(runtime).abort_on_failure(), door.naming():
        problem = prepare(
            parts,
            n_clusters=n_clusters,
            graph=graph,
            loss=losses.KMeans(),
            distance=distances.resolve(distance),
            weights=weights,
            runtime=runtime,
            random_state=random_state,
        )
        runtime, users, K, seed = problem.runtime, problem.users, problem.K, problem.seed
        x, sent = KMeansPlusPlus(cap=CAP).centers(runtime, users, K, seed)
        r2, more = joint_quantile(runtime, users, x[0], DELTA_QUANTILE)
        problem.runtime.close()
    delta = float(np.sqrt(r2))
    # If half of the rows lie on centers, any delta that is small relative to the spread will do.
    return (delta if delta > 0 else 1e-3 * problem.scales.spread), sent + more
