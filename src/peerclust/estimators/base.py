"""What both estimators share: they check rows, split them by user and store the result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from peerclust import graphs, partition, runtimes
from peerclust.clustering.solution import Solution
from peerclust.errors import DataError
from peerclust.users.nearest import nearest
from peerclust.validation import check_count, check_rows


class Estimator(BaseEstimator):  # type: ignore[misc]
    """The base of both estimators."""

    def _flatten(
        self, X: Any, sample_weight: Any, users: Any
    ) -> tuple[tuple[NDArray[Any], NDArray[np.int64]], Any, NDArray[np.intp] | None]:
        """Return the rows in flat form, their weights, and the order of the rows, if changed."""
        group = runtimes.process_group(self.runtime)
        with group.abort_on_failure(), group.raise_on_all():
            return self._read(X, sample_weight, users)

    def _read(
        self, X: Any, sample_weight: Any, users: Any
    ) -> tuple[tuple[NDArray[Any], NDArray[np.int64]], Any, NDArray[np.intp] | None]:
        check_count(self.max_iter, "max_iter", type(self).__name__)
        X = self._check(X, reset=True)
        weights: Any = "unit"
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        if users is None:
            self.user_names_ = np.array([0])
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

    def _graph(self) -> Any:
        """Return the graph for `cluster`; named nodes are matched with the users by name."""
        graph: Any = self.graph
        if isinstance(graph, str):
            return graph
        found = graphs.resolve(graph, len(self.user_names_))
        names = [str(name) for name in self.user_names_.tolist()]
        return found.matched(names, f"`graph` of {type(self).__name__}")

    def _store(self, solution: Solution, order: NDArray[np.intp] | None) -> None:
        """Set the fitted attributes that both estimators have."""
        self.solution_ = solution
        self.cluster_centers_ = solution.consensus
        self.user_centers_ = solution.centers
        self.n_iter_ = solution.certificate.rounds
        flat = np.concatenate(solution.labels)
        self.labels_ = flat
        if order is not None:
            self.labels_ = np.empty_like(flat)
            self.labels_[order] = flat

    def _nearest(self, rows: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return each row's nearest of `cluster_centers_`, and its squared distance."""
        return nearest(rows, self.cluster_centers_, self.solution_.geometry)

    def _check_fitted(self, X: Any) -> NDArray[Any]:
        """Check that the model is fitted, and return the checked rows."""
        check_is_fitted(self)
        return self._check(X, reset=False)

    def _check(self, X: Any, *, reset: bool) -> NDArray[Any]:
        dtypes = [np.float64, np.float32]
        # Our own check names the first row that is not finite.
        X = validate_data(self, X, reset=reset, dtype=dtypes, order="C", ensure_all_finite=False)
        return check_rows(X, "X")


def convert_random_state(random_state: Any) -> Any:
    """Return a seed drawn from a RandomState of scikit-learn, anything else unchanged."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return random_state
