"""The scikit-learn doors: `DGC`, a clusterer, and `DGCOutlierDetector`, an outlier detector.

They speak scikit-learn's names (`n_clusters`, `max_iter`, `tol`, `random_state`) and hand over to
`cluster`; nothing is computed here that it does not compute.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    OutlierMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from peerclust import initialize, partition
from peerclust.clustering import cluster
from peerclust.distances import resolve as resolve_distance
from peerclust.errors import DataError, ParameterError
from peerclust.losses import Huber
from peerclust.outliers import agree_on_delta, outlier_scores
from peerclust.solution import Solution
from peerclust.users import nearest
from peerclust.validation import check_count, check_number, check_rows

Array = NDArray[np.float64]


class _Fitted(BaseEstimator):  # type: ignore[misc]
    """What both estimators do the same way."""

    def _split(
        self, X: Any, sample_weight: Any, users: Any
    ) -> tuple[tuple[NDArray[Any], NDArray[np.int64]], Any, NDArray[np.intp] | None]:
        """Give the rows in flat form, their weights, and the order that made them so."""
        check_count(self.max_iter, "max_iter", type(self).__name__)
        X = self._checked(X, reset=True)
        weights: Any = "unit"
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        if users is None:
            return (X, np.array([0, len(X)])), weights, None
        if np.shape(users) != (len(X),):
            raise DataError(
                f"`users` of {type(self).__name__}.fit must name the user of each of the {len(X)}"
                f" rows. Got shape {np.shape(users)}."
            )
        self.user_names_, parts = partition.by_user(users)
        order = np.concatenate(parts)
        offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
        if not isinstance(weights, str):
            weights = weights[order]
        return (X[order], offsets), weights, order

    def _keep(self, solution: Solution, order: NDArray[np.intp] | None) -> None:
        """Set what both estimators learn."""
        self.solution_ = solution
        self.cluster_centers_ = solution.consensus
        self.user_centers_ = solution.centers
        self.n_iter_ = solution.certificate.rounds
        flat = np.concatenate(solution.labels)
        self.labels_ = flat
        if order is not None:
            self.labels_ = np.empty_like(flat)
            self.labels_[order] = flat

    def _rows(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        return self._checked(X, reset=False)

    def _checked(self, X: Any, *, reset: bool) -> NDArray[Any]:
        dtypes = [np.float64, np.float32]
        # Our own check names the first row that is not finite.
        X = validate_data(self, X, reset=reset, dtype=dtypes, order="C", ensure_all_finite=False)
        return check_rows(X, "X")


class DGC(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, _Fitted):  # type: ignore[misc]
    """Distributed gradient clustering behind the scikit-learn API.

    Parameters
    ----------
    n_clusters : int, default=3
        How many clusters.
    loss : str or object, default="kmeans"
        "kmeans", "huber", "logistic", "fair", or an object; see `peerclust.losses`.
    distance : str or object, default="euclidean"
        Or `peerclust.Mahalanobis(A)`.
    graph : str or object, default="ring"
        Who talks with whom, when `fit` is told of users.
    rho, alpha, B, init, n_init, runtime
        As in `peerclust.cluster`.
    max_iter : int, default=1000
        At most so many rounds.
    tol : float, default=1e-4
        Stop once every residual is below this.
    random_state : int, RandomState or None, default=None
        Seed of the starts.

    Attributes
    ----------
    cluster_centers_ : (K, d) array
        The mean of the users' centers.
    user_centers_ : (m, K, d) array
        Each user's own.
    labels_ : (N,) int array
        Each row's cluster, by its own user's centers.
    inertia_ : float
        Sum of squared distances of the rows to `cluster_centers_`, weighted.
    n_iter_ : int
        Rounds done.
    solution_ : Solution
        Status, certificate and the rest.
    user_names_ : array
        The distinct `users`, in the order of `user_centers_`; only if `fit` was told of users.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> hospital = np.arange(150) % 5
    >>> model = DGC(n_clusters=3, loss="huber", random_state=0).fit(X, users=hospital)
    >>> model.cluster_centers_.shape, model.user_centers_.shape, model.transform(X).shape
    ((3, 4), (5, 3, 4), (150, 3))
    """

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        loss: Any = "kmeans",
        distance: Any = "euclidean",
        graph: Any = "ring",
        rho: float | str = "auto",
        alpha: float | str = "auto",
        B: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-4,
        init: Any = "k-means++",
        n_init: int = 1,
        runtime: Any = "simulator",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.loss = loss
        self.distance = distance
        self.graph = graph
        self.rho = rho
        self.alpha = alpha
        self.B = B
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.n_init = n_init
        self.runtime = runtime
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None) -> Self:  # noqa: ARG002
        """Cluster the rows of X; `users` names the user of each row, None is one user."""
        parts, weights, order = self._split(X, sample_weight, users)
        solution = cluster(
            parts,
            n_clusters=self.n_clusters,
            graph=self.graph,
            loss=self.loss,
            distance=self.distance,
            rho=self.rho,
            alpha=self.alpha,
            B=self.B,
            rounds=self.max_iter,
            tol=self.tol,
            init=self.init,
            n_init=self.n_init,
            weights=weights,
            runtime=self.runtime,
            random_state=_seed(self.random_state),
        )
        self._keep(solution, order)
        _, r2 = self._nearest(parts[0])
        self.inertia_ = float(r2.sum() if isinstance(weights, str) else weights @ r2)
        return self

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None
    ) -> NDArray[np.int32]:
        """Cluster the rows of X and return `labels_`."""
        labels: NDArray[np.int32] = self.fit(X, y, sample_weight, users=users).labels_
        return labels

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None
    ) -> Array:
        """Cluster the rows of X and return their distances to the centers."""
        return self.fit(X, y, sample_weight, users=users).transform(X)

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Give the nearest of `cluster_centers_` for each row."""
        return self._nearest(self._rows(X))[0]

    def transform(self, X: Any) -> Array:
        """Give the distance of each row to each of `cluster_centers_`, (N, K)."""
        rows = self._rows(X)
        distance = resolve_distance(self.distance, "DGC")
        return np.column_stack(
            [outlier_scores(rows, c[None], distance=distance) for c in self.cluster_centers_]
        )

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Give minus the clustering cost of X at `cluster_centers_`: the higher, the better."""
        rows = self._rows(X)
        _, r2 = self._nearest(rows)
        loss = self.solution_.loss
        # The divergence of a Bregman loss is its value already.
        values = loss.value(r2) if hasattr(loss, "value") else r2
        if sample_weight is None:
            return -float(values.sum())
        return -float(_check_sample_weight(sample_weight, rows, dtype=np.float64) @ values)

    def _nearest(self, rows: NDArray[Any]) -> tuple[NDArray[np.int32], Array]:
        solution = self.solution_
        return nearest(rows, self.cluster_centers_, loss=solution.loss, distance=solution.distance)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)


class DGCOutlierDetector(OutlierMixin, _Fitted):  # type: ignore[misc]
    """Finds outliers as the rows far from every center of a robust clustering.

    The centers are found with the Huber loss, from several k-means++ starts drawn with D^2 capped
    at a quantile, so that far rows are seldom drawn. A row's score is its distance to the nearest
    center. A tight group of many outliers is a cluster to any center-based method, unless `init`
    says otherwise.

    Parameters
    ----------
    n_clusters : int, default=3
        How many clusters of good rows.
    contamination : float in (0, 0.5], default=0.1
        The share of the rows of `fit` to call outliers; sets `offset_`.
    delta : float or "auto", default="auto"
        Of the Huber loss; "auto" is the median distance of the rows to a start's centers, agreed by
        the users.
    init : str, array or object, default="auto"
        "auto" is k-means++ with D^2 capped at its 90 % quantile; else as in `peerclust.cluster`.
    n_init : int, default=5
        How many starts.
    distance, graph, rho, alpha, B, max_iter, tol, runtime, random_state
        As in `DGC`.

    Attributes
    ----------
    offset_ : float
        Rows whose `score_samples` is below are outliers.
    delta_ : float
        The delta that was used.
    cluster_centers_, user_centers_, labels_, n_iter_, solution_, user_names_
        As in `DGC`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(95, 2)), rng.uniform(20, 40, size=(5, 2))])
    >>> detector = DGCOutlierDetector(n_clusters=1, contamination=0.05, random_state=0)
    >>> np.flatnonzero(detector.fit_predict(X, users=np.arange(100) % 4) == -1).tolist()
    [95, 96, 97, 98, 99]
    """

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        contamination: float = 0.1,
        delta: float | str = "auto",
        distance: Any = "euclidean",
        graph: Any = "ring",
        rho: float | str = "auto",
        alpha: float | str = "auto",
        B: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-4,
        init: Any = "auto",
        n_init: int = 5,
        runtime: Any = "simulator",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.contamination = contamination
        self.delta = delta
        self.distance = distance
        self.graph = graph
        self.rho = rho
        self.alpha = alpha
        self.B = B
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.n_init = n_init
        self.runtime = runtime
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None) -> Self:  # noqa: ARG002
        """Find the centers of the good rows; `users` names the user of each row."""
        contamination = check_number(
            self.contamination, "contamination", "DGCOutlierDetector", above=0
        )
        if contamination > 0.5:
            raise ParameterError(
                "`contamination` of DGCOutlierDetector must be a number in (0, 0.5]."
                f" Got {contamination}."
            )
        parts, weights, order = self._split(X, sample_weight, users)
        init = (
            initialize.KMeansPlusPlus(cap=0.9)
            if isinstance(self.init, str) and self.init == "auto"
            else self.init
        )
        common = {
            "n_clusters": self.n_clusters,
            "graph": self.graph,
            "distance": self.distance,
            "weights": weights,
            "init": init,
            "runtime": self.runtime,
            "random_state": _seed(self.random_state),
        }
        delta: Any = self.delta
        self.delta_ = agree_on_delta(parts, **common) if delta == "auto" else delta
        solution = cluster(
            parts,
            loss=Huber(self.delta_),
            rho=self.rho,
            alpha=self.alpha,
            B=self.B,
            rounds=self.max_iter,
            tol=self.tol,
            n_init=self.n_init,
            **common,
        )
        self._keep(solution, order)
        scores = -outlier_scores(parts[0], self.cluster_centers_, distance=solution.distance)
        weights = np.ones(len(scores)) if isinstance(weights, str) else weights
        self.offset_ = _quantile(scores, weights, contamination)
        return self

    def score_samples(self, X: Any) -> Array:
        """Give minus the distance of each row to the nearest center: the lower, the odder."""
        rows = self._rows(X)
        return -outlier_scores(rows, self.cluster_centers_, distance=self.solution_.distance)

    def decision_function(self, X: Any) -> Array:
        """Give `score_samples` less `offset_`: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Give -1 for outliers and 1 for the rest."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None
    ) -> NDArray[np.int64]:
        """Fit to X and give -1 for its outliers and 1 for the rest."""
        return self.fit(X, y, sample_weight, users=users).predict(X)


def _seed(random_state: Any) -> int:
    """Give a whole number from what scikit-learn accepts as a random state."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 31))
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _quantile(values: Array, weights: Array, q: float) -> float:
    """Give the q-quantile where each value counts `weights` times, linearly between values."""
    order = np.argsort(values, kind="stable")
    v, ends = values[order], np.cumsum(weights[order])
    if len(v) == 1:
        return float(v[0])
    # With unit weights these are the positions 0, 1, ..., N - 1 of numpy's default quantile.
    at = q * (ends[-1] - 1.0)
    low, high = np.searchsorted(ends, [np.floor(at), np.floor(at) + 1], side="right")
    high = min(high, len(v) - 1)
    return float(v[low] + (at - np.floor(at)) * (v[high] - v[low]))
