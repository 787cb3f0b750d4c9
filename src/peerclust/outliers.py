"""Outliers of a clustering: their scores, and the threshold above which a row is one.

The score of a row is its distance to the nearest center: the farther away, the higher. It is only
as good as the centers. So these are found with the Huber loss, for which the gradient of a row does
not grow beyond the distance delta, and from starts in which far rows are seldom drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from peerclust import distances, losses
from peerclust.arrays import Array
from peerclust.losses import geometry_of
from peerclust.row_validation import check_any_rows, check_features, check_rows
from peerclust.users.nearest import nearest

# contamination="auto" labels rows whose score is this many scaled MADs below the median.
SCALED_MADS = 3.0
# The standard deviation of normally distributed numbers, over their MAD.
MAD_SCALE = 1.4826


def outlier_scores(
    rows: ArrayLike, centers: ArrayLike, *, loss: Any = "kmeans", distance: Any = "euclidean"
) -> Array:
    """Return the distance of each row (N, d) to the nearest of the centers (K, d).

    For a Bregman loss the distance is the square root of its divergence.

    >>> outlier_scores([[0.0], [7.0]], [[0.0], [10.0]]).tolist()
    [0.0, 3.0]
    """
    of = "outlier_scores"
    y, x = check_any_rows(rows, of), check_rows(centers, f"the centers of {of}")
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


def find_robust_threshold(scores: Array, weights: Array) -> float:
    """Return the median score minus 3 scaled MADs: 1.4826 times the median absolute deviation.

    Of normally distributed scores, 1.4826 MAD is the standard deviation; unlike that, it hardly
    depends on outliers. Where half of the scores are equal, every lower score is an outlier.

    >>> find_robust_threshold(np.array([-1.0, -2.0, -3.0, -2.0, -50.0]), np.ones(5))
    -6.4478
    """
    median = find_threshold(scores, weights, 0.5)
    mad = find_threshold(np.abs(scores - median), weights, 0.5)
    return median - SCALED_MADS * MAD_SCALE * mad
