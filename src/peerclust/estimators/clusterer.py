"""`PeerClustering`: distributed gradient clustering behind the scikit-learn API."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight

from peerclust import losses
from peerclust.arrays import Array
from peerclust.estimators.base import Estimator
from peerclust.users.nearest import measure


class PeerClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, Estimator):  # type: ignore[misc]
    """Distributed gradient clustering behind the scikit-learn API.

    Parameters
    ----------
    n_clusters : int, default=3
        Number of clusters. If the rows have fewer distinct values, some centers are repeated.
    loss : str or object, default="kmeans"
        "kmeans", "huber", "logistic", "fair", or an object, such as Huber(delta="auto"); see
        `peerclust.losses`.
    distance : str or object, default="euclidean"
        Or `peerclust.Mahalanobis(A)`.
    scale : "none", "standard" or "robust", default="none"
        Units of the features, as in `peerclust.cluster`. Centers are in the units of the rows;
        `transform`, `score` and `inertia_` are of distances in scaled units.
    graph : str or object, default="auto"
        Communication graph, if `fit` is given users.
    solver, rho, alpha, B, init, n_init, search, runtime
        As in `peerclust.cluster`.
    max_iter : int, default=1000
        Maximum number of rounds.
    tol : float, default=1e-4
        Stop once every residual is below this.
    verbose : int, default=0
        1 prints a line per run, per move of a search, and how the fit ended; 2 also one per round.
    random_state : int, RandomState or None, default=None
        Seed of the initial centers.

    Attributes
    ----------
    cluster_centers_ : (K, d) array
        The mean of the users' centers; float32 if the rows of `fit` are.
    user_centers_ : (m, K, d) array
        Each user's own centers.
    labels_ : (N,) int array
        Each row's cluster, by its own user's centers.
    inertia_ : float
        Sum of squared distances of the rows to `cluster_centers_`, weighted; of divergences for a
        Bregman loss.
    n_iter_ : int
        Number of rounds that were run.
    solution_ : Solution
        Status, certificate and the rest; `solution_.labels` are the labels user by user.
    user_names_ : array
        The names of the users, in the order of `user_centers_`; [0] if `fit` was given none.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> hospital = np.arange(150) % 5
    >>> model = PeerClustering(n_clusters=3, loss="huber", random_state=0).fit(X, users=hospital)
    >>> model.cluster_centers_.shape, model.user_centers_.shape, model.transform(X).shape
    ((3, 4), (5, 3, 4), (150, 3))

    Or with the rows of each user by name:

    >>> parts = {"Bern": X[:60], "Oslo": X[60:]}
    >>> model = PeerClustering(n_clusters=3, random_state=0).fit(parts)
    >>> labels = dict(zip(model.user_names_, model.solution_.labels, strict=True))
    >>> labels["Oslo"].shape
    (90,)
    """

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        loss: Any = "kmeans",
        distance: Any = "euclidean",
        scale: str = "none",
        graph: Any = "auto",
        solver: Any = "auto",
        rho: float | str = "auto",
        alpha: float | str = "auto",
        B: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-4,
        init: Any = "k-means++",
        n_init: int | str = "auto",
        search: str = "auto",
        runtime: Any = "simulator",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.loss = loss
        self.distance = distance
        self.scale = scale
        self.graph = graph
        self.solver = solver
        self.rho = rho
        self.alpha = alpha
        self.B = B
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.n_init = n_init
        self.search = search
        self.runtime = runtime
        self.verbose = verbose
        self.random_state = random_state

    def _measure(self, rows: NDArray[Any], weights: Array | None) -> None:
        _, r2 = self._nearest(rows)
        self.inertia_ = float(r2.sum() if weights is None else weights @ r2)

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None
    ) -> NDArray[np.int32]:
        """Cluster the rows of X and return `labels_`; the parameters are those of `fit`."""
        labels: NDArray[np.int32] = self.fit(X, y, sample_weight, users=users).labels_
        return labels

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None
    ) -> Array:
        """Cluster the rows of X and return `transform(X)`; the parameters are those of `fit`."""
        return self.fit(X, y, sample_weight, users=users).transform(X)

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the index of the nearest of `cluster_centers_` for each row."""
        return self._nearest(self._check_fitted(X))[0]

    def transform(self, X: Any) -> Array:
        """Return the distance of each row to each of `cluster_centers_`, (N, K).

        For a Bregman loss the distance is the square root of its divergence. The result is float32
        if both X and the rows of `fit` are.
        """
        rows = self._check_fitted(X)
        r2 = measure(rows, self._consensus, self.solution_.geometry)
        dtype = np.result_type(rows, self.cluster_centers_)
        return np.sqrt(r2, out=r2).astype(dtype, copy=False)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return minus the clustering cost of X at `cluster_centers_`; higher is better.

        The cost is that of this model's loss, so scores of models with different losses are not
        comparable. `y` is ignored.
        """
        rows = self._check_fitted(X)
        _, r2 = self._nearest(rows)
        values = losses.resolve(self.solution_.loss).value(r2)
        if sample_weight is None:
            return -float(values.sum())
        return -float(_check_sample_weight(sample_weight, rows, dtype=np.float64) @ values)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)
