"""Metrics of a clustering: agreement with known classes, disagreement of the users, cost.

Against known classes: `accuracy` (the paper's tables on homogeneous data) and `ari` (those on
heterogeneous data). Among the users: `disagreement`, the paper's maximum center distance. Of
centers and rows: `cost`. scipy and scikit-learn are imported where they are used: importing them
takes 0.4 s and more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust import distances, losses
from peerclust.errors import DataError
from peerclust.losses import geometry_of
from peerclust.row_validation import (
    check_any_rows,
    check_features,
    check_labels,
    check_rows,
    check_weights,
)
from peerclust.users import Users

# Up to this many users all pairs are compared: 2000 users are 2 million pairs, 16 MB.
MAX_USERS_PAIRWISE = 2000


@dataclass(frozen=True)
class Disagreement:
    """How much the centers of m users differ; see `disagreement`.

    mean
        The mean over k of the largest distance between two users' centers k.
    stacked
        The largest distance between two users' stacks of all K centers.
    exact
        True if both come from all pairs of users, False if they are upper bounds.
    """

    mean: float
    stacked: float
    exact: bool


def accuracy(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the fraction of rows labeled correctly under the best one-to-one matching of labels.

    max over one-to-one matchings s of (1/N) #{r : true_r = s(predicted_r)}. Both arrays are (N,) of
    numbers or strings. They need not have the same names, nor the same number of distinct labels;
    rows whose label has no partner count as wrong.

    >>> accuracy(["cat", "cat", "dog", "dog"], [1, 1, 0, 1])
    0.75
    """
    left, right = _check_pair(true, predicted, "accuracy")
    from scipy.optimize import linear_sum_assignment

    shape = (int(left.max()) + 1, int(right.max()) + 1)
    table = np.bincount(left * shape[1] + right, minlength=shape[0] * shape[1]).reshape(shape)
    matched = table[linear_sum_assignment(table, maximize=True)].sum()
    return float(matched / len(left))


def ari(true: ArrayLike, predicted: ArrayLike) -> float:
    """Return the adjusted Rand index of two labelings: 1 if they are the same up to names.

    It compares pairs of rows (together or apart) and is 0 on average for random labels, -0.5 at
    worst. Both arrays are (N,) of numbers or strings. Computed by scikit-learn's
    `adjusted_rand_score`.

    >>> ari(["cat", "cat", "dog", "dog"], [1, 1, 0, 0])
    1.0
    """
    left, right = _check_pair(true, predicted, "ari")
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(left, right))


def disagreement(centers: ArrayLike) -> Disagreement:
    """Return how much the users' centers differ, by both of the paper's definitions.

    For `centers` x of shape (m, K, d):

    - mean = (1/K) sum over k of max over i, j of ||x_i(k) - x_j(k)||, as Table 1 was measured;
    - stacked = max over i, j of ||x_i - x_j|| over all K*d numbers, as its text defines it.

    Up to 2000 users both are exact. Above, each largest distance is replaced by the diagonal of the
    box that bounds the users' centers: an upper bound, at most sqrt(d) times too large for `mean`
    and sqrt(K*d) times for `stacked`. With one user both are 0.

    >>> disagreement([[[0.0, 0.0], [0.0, 1.0]], [[3.0, 4.0], [0.0, 1.0]]])
    Disagreement(mean=2.5, stacked=5.0, exact=True)
    """
    return measure_disagreement(_check_centers(centers, "disagreement"))


def measure_disagreement(x: NDArray[np.float64]) -> Disagreement:
    """Return the disagreement of centers (m, K, d), without checks; see `disagreement`."""
    m, K, _ = x.shape
    if m <= MAX_USERS_PAIRWISE:
        return measure_pairs(m, (x[:, k] for k in range(K)))
    return bound_pairs(x.min(axis=0), x.max(axis=0))


def measure_pairs(m: int, centers: Iterable[NDArray[np.float64]]) -> Disagreement:
    """Return the disagreement of m users from all pairs; `centers` yields (m, d) for each k."""
    from scipy.spatial.distance import pdist

    largest, total = [], np.zeros(m * (m - 1) // 2)
    for x in centers:
        # Differences, not |a|^2 + |b|^2 - 2ab, which loses all digits when users nearly agree.
        pairs = pdist(x, "sqeuclidean") if m > 1 else np.zeros(0)
        largest.append(pairs.max(initial=0.0))
        total += pairs
    stacked = float(np.sqrt(total.max(initial=0.0)))
    return Disagreement(mean=float(np.sqrt(largest).mean()), stacked=stacked, exact=True)


def bound_pairs(low: NDArray[np.float64], high: NDArray[np.float64]) -> Disagreement:
    """Return bounds on the disagreement of users whose centers are from `low` to `high`, (K, d)."""
    largest = np.square(high - low).sum(axis=1)
    stacked = float(np.sqrt(largest.sum()))
    return Disagreement(mean=float(np.sqrt(largest).mean()), stacked=stacked, exact=False)


def cost(
    rows: ArrayLike,
    centers: ArrayLike,
    *,
    loss: object = "kmeans",
    distance: object = "euclidean",
    weights: ArrayLike | None = None,
) -> float:
    """Return the clustering cost of one set of centers: the sum of w f(x(k), y), nearest k.

    This is H of eq. general-clust, for rows (N, d), centers (K, d) and weights (N,), 1 if left out.

    >>> cost([[0.0], [2.0], [10.0]], [[1.0], [10.0]])
    1.0
    """
    y, x = check_any_rows(rows, "cost"), check_rows(centers, "the centers of cost")
    check_features(x, y, "cost")
    f, metric = losses.resolve(loss, "cost"), distances.resolve(distance, "cost")
    geometry_of(f, metric, "cost").check_rows(y, "cost")
    offsets = np.array([0, len(y)])
    given = 1.0 if weights is None else check_weights(np.asarray(weights), offsets, "cost")
    users = Users(y, offsets, weights=given, loss=f, distance=metric)
    at = x.astype(np.float64)[None]
    return float(users.cost(users.assign(at), at)[0])


def _check_pair(
    true: ArrayLike, predicted: ArrayLike, of: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    _, left = check_labels(true, "true", of)
    _, right = check_labels(predicted, "predicted", of)
    if len(left) != len(right):
        raise DataError(
            f"`predicted` of {of} must have one label for each of the {len(left)} of `true`."
            f" Got {len(right)}."
        )
    return left, right


def _check_centers(centers: ArrayLike, of: str) -> NDArray[np.float64]:
    try:
        x = np.asarray(centers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"`centers` of {of} must be numbers. {error}.") from None
    if x.ndim != 3 or x.size == 0:
        raise DataError(
            f"`centers` of {of} must be an array (users, K, d), none of them 0."
            f" Got shape {x.shape}."
        )
    if not np.isfinite(x).all():
        raise DataError(
            f"`centers` of {of} must be finite. User"
            f" {int((~np.isfinite(x)).any(axis=(1, 2)).argmax())} has"
            f" {x[~np.isfinite(x)][0]}."
        )
    return x
