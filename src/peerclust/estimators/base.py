"""What both estimators share: they check rows, split them by user, cluster and store the result."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from peerclust import doors, graphs, partition, runtimes
from peerclust.arrays import Array
from peerclust.clustering.cluster import cluster
from peerclust.clustering.solution import Solution
from peerclust.errors import DataError
from peerclust.text import parameter
from peerclust.users.nearest import nearest
from peerclust.validation import check_rows


class Estimator(BaseEstimator):  # type: ignore[misc]
    """The base of both estimators."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None) -> Self:  # noqa: ARG002
        """Fit the centers to X; `users` names the user of each row, None means a single user."""
        door = doors.estimator(type(self).__name__)
        group = runtimes.process_group(self.runtime)
        with group.abort_on_failure(), door.naming():
            with group.raise_on_all():
                parts, weights, order = self._read(X, sample_weight, users)
                given = door.arguments(self.get_params(deep=False))
                given |= {"graph": self._graph(), "weights": weights}
                given["random_state"] = _convert_random_state(self.random_state)
            solution = self._cluster(parts, given)
        solution = replace(solution, status=solution.status.renamed(door))
        if not solution.status.converged and self.tol > 0:
            warnings.warn(str(solution.status), ConvergenceWarning, stacklevel=2)
        self._store(solution, order)
        self._measure(parts[0], None if isinstance(weights, str) else weights)
        return self

    def _cluster(self, parts: Any, given: dict[str, Any]) -> Solution:
        """Return the solution; `given` are the arguments of `cluster` that this estimator has."""
        return cluster(parts, **given)

    def _measure(self, rows: NDArray[Any], weights: Array | None) -> None:
        """Set the fitted attributes that only this estimator has, from the rows of `fit`."""
        raise NotImplementedError

    def _read(
        self, X: Any, sample_weight: Any, users: Any
    ) -> tuple[tuple[NDArray[Any], NDArray[np.int64]], Any, NDArray[np.intp] | None]:
        """Return the rows in flat form, their weights, and the order of the rows, if changed."""
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
        return found.matched(names, parameter("graph", type(self).__name__))

    def _store(self, solution: Solution, order: NDArray[np.intp] | None) -> None:
        """Set the fitted attributes that both estimators have."""
        self.solution_ = solution
        self.cluster_centers_ = solution.consensus
        self.user_centers_ = solution.centers
        self.n_iter_ = solution.certificate.rounds + solution.certificate.search_rounds
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


def _convert_random_state(random_state: Any) -> Any:
    """Return a seed drawn from a RandomState of scikit-learn, anything else unchanged."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return random_state
