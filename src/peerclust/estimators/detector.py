"""`PeerOutlierDetector`: detects rows far from every center of a robust clustering."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from peerclust.arrays import Array
from peerclust.clustering.auto_delta import CAP
from peerclust.clustering.solution import Solution
from peerclust.estimators.base import Estimator
from peerclust.initialize import Given, KMeansPlusPlus, Warm, resolve
from peerclust.losses import Huber
from peerclust.outliers import find_robust_threshold, find_threshold
from peerclust.validation import check_number

# n_init="auto" if the start is drawn: no search follows that would make up for a bad one.
RESTARTS = 5


class PeerOutlierDetector(OutlierMixin, Estimator):  # type: ignore[misc]
    """Detect outliers as the rows far from every center of a robust clustering.

    The centers are found with the Huber loss, from several k-means++ starts drawn with D^2 capped
    at a quantile, so that far rows are seldom drawn. A row's score is its distance to the nearest
    center. To any center-based method, a tight group of many outliers is a cluster, unless `init`
    keeps the centers away from it.

    Parameters
    ----------
    n_clusters : int, default=3
        Number of clusters of inliers.
    contamination : float in (0, 0.5] or "auto", default=0.1
        The fraction of the rows of `fit` to label as outliers; sets `offset_`. "auto" labels the
        rows that are farther from their center than median + 3 x 1.4826 x MAD of all rows'
        distances, where MAD is the median absolute deviation from the median. Of the two middle
        values of an even number of rows, the median distance is the lower and MAD the upper.
    scale : "none", "standard" or "robust", default="robust"
        Units of the features, as in `peerclust.cluster`; outliers hardly change "robust" ones.
    delta : float or "auto", default="auto"
        Threshold of the Huber loss, in these units; "auto" is the median distance of the rows to a
        start's centers, on which the users agree.
    init : str, array or object, default="auto"
        "auto" is k-means++ with D^2 capped at its 90 % quantile; else as in `peerclust.cluster`.
    n_init : int or "auto", default="auto"
        Number of restarts. "auto" is 5, or 1 if `init` gives centers or classes.
    distance, graph, solver, rho, alpha, B, max_iter, tol, runtime, verbose, random_state
        As in `PeerClustering`.

    Attributes
    ----------
    offset_ : float
        Rows whose `score_samples` is below this are outliers.
    delta_ : float
        The delta that was used, in units of the scale.
    cluster_centers_, user_centers_, labels_, n_iter_, solution_, user_names_
        As in `PeerClustering`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(95, 2)), rng.uniform(20, 40, size=(5, 2))])
    >>> detector = PeerOutlierDetector(n_clusters=1, contamination=0.05, random_state=0)
    >>> np.flatnonzero(detector.fit_predict(X, users=np.arange(100) % 4) == -1).tolist()
    [95, 96, 97, 98, 99]
    """

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        contamination: float | str = 0.1,
        scale: str = "robust",
        delta: float | str = "auto",
        distance: Any = "euclidean",
        graph: Any = "auto",
        solver: Any = "auto",
        rho: float | str = "auto",
        alpha: float | str = "auto",
        B: int = 1,
        max_iter: int = 1000,
        tol: float = 1e-4,
        init: Any = "auto",
        n_init: int | str = "auto",
        runtime: Any = "simulator",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.contamination = contamination
        self.scale = scale
        self.delta = delta
        self.distance = distance
        self.graph = graph
        self.solver = solver
        self.rho = rho
        self.alpha = alpha
        self.B = B
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.n_init = n_init
        self.runtime = runtime
        self.verbose = verbose
        self.random_state = random_state

    @property
    def _loss(self) -> str:
        return "huber"

    def _cluster(self, parts: Any, given: dict[str, Any]) -> Solution:
        of = type(self).__name__
        if not (isinstance(self.contamination, str) and self.contamination == "auto"):
            limits = {"above": 0, "at_most": 0.5}
            check_number(self.contamination, "contamination", of, **limits, names=("auto",))
        init, n_init = given["init"], given["n_init"]
        start = resolve(
            KMeansPlusPlus(cap=CAP) if isinstance(init, str) and init == "auto" else init
        )
        if isinstance(n_init, str) and n_init == "auto":
            n_init = 1 if isinstance(start, Given | Warm) else RESTARTS
        # Moves seek compact groups, and a group of outliers is one.
        given = given | {"search": "none", "init": start, "n_init": n_init}
        solution = super()._cluster(parts, given | {"loss": Huber(self.delta)})
        assert isinstance(solution.loss, Huber)
        self.delta_ = solution.loss.delta
        return solution

    def _measure(self, rows: NDArray[Any], weights: Array | None) -> None:
        scores = -np.sqrt(self._nearest(rows)[1])
        weights = np.ones(len(scores)) if weights is None else weights
        if isinstance(self.contamination, str):
            self.offset_ = find_robust_threshold(scores, weights)
        else:
            self.offset_ = find_threshold(scores, weights, self.contamination)

    def score_samples(self, X: Any) -> Array:
        """Return minus the distance of each row to the nearest center; lower is more abnormal.

        In scaled units, unless `scale` is "none".
        """
        return -np.sqrt(self._nearest(self._check_fitted(X))[1])

    def decision_function(self, X: Any) -> Array:
        """Return `score_samples` minus `offset_`: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return -1 for outliers and 1 for inliers."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None
    ) -> NDArray[np.int64]:
        """Fit to X and return -1 for its outliers and 1 for its inliers; see `fit`."""
        return self.fit(X, y, sample_weight, users=users).predict(X)
