"""What both estimators share: they check rows, split them by user, cluster and store the result."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    validate_data,
)

from peerclust import distances, doors, graphs, losses, partition, runtimes
from peerclust.arrays import Array
from peerclust.clustering import pickles
from peerclust.clustering.cluster import cluster
from peerclust.clustering.progress import RunPrinter
from peerclust.clustering.solution import Solution
from peerclust.errors import DataError, FewRowsError
from peerclust.initialize import Given, Warm, resolve
from peerclust.losses import geometry_of
from peerclust.row_validation import check_any_rows
from peerclust.sparse import concatenate
from peerclust.text import guess, parameter, shorten, show
from peerclust.users.nearest import nearest
from peerclust.validation import check_count

# The rows in flat form, dense or sparse, and their users' offsets.
Parts = tuple[Any, NDArray[np.int64]]


class Estimator(BaseEstimator):  # type: ignore[misc]
    """The base of both estimators."""

    @property
    def _loss(self) -> Any:
        return self.loss

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, users: Any = None) -> Self:  # noqa: ARG002
        """Fit the centers to the rows of all users.

        Parameters
        ----------
        X : (N, d) array, DataFrame, sparse array or dict
            The rows. A dict has the rows of each user by name. They are concatenated in its order,
            which is then that of `sample_weight` and `labels_`.
        y : ignored
            Not used, present for consistency with scikit-learn.
        sample_weight : (N,) array, optional
            The weight of each row; 1 if left out.
        users : (N,) array or str, optional
            The user of each row, or the name of the column of a DataFrame X that has it. That
            column is not a feature: `predict` and the other methods ignore it, too. Without
            `users` all rows belong to a single user, unless X is a dict.

        Returns
        -------
        self
        """
        title = type(self).__name__
        door, printer = doors.estimator(title), RunPrinter(self.verbose)
        with door.naming():
            group = runtimes.process_group(self.runtime)
            with group.abort_on_failure():
                with group.raise_on_all():
                    if not isinstance(self.verbose, bool):
                        check_count(self.verbose, "verbose", title, at_least=0)
                    parts, weights, order = self._read(X, sample_weight, users)
                    given = door.arguments(self.get_params(deep=False))
                    given |= {"graph": self._graph(), "weights": weights}
                    given["init"] = _sort_classes(self.init, order)
                    given["random_state"] = _convert_random_state(self.random_state)
                    given["progress"] = printer if self.verbose else None
                solution = self._cluster_distinct(parts, given)
        solution = replace(solution, status=solution.status.renamed(door))
        if self.verbose and group.rank == 0:
            printer.end(solution)
        self._store(solution, parts[0].dtype, order)
        self._measure(parts[0], None if isinstance(weights, str) else weights)
        if not solution.status.converged and self.tol > 0:
            warnings.warn(str(solution.status), ConvergenceWarning, stacklevel=2)
        return self

    def _cluster_distinct(self, parts: Parts, given: dict[str, Any]) -> Solution:
        """Return the solution; with fewer distinct rows than centers, some centers are repeated."""
        try:
            return self._cluster(parts, given)
        except FewRowsError as error:
            (rows, offsets), K, distinct = parts, self.n_clusters, error.distinct
        if len(rows) < K:
            raise DataError(
                parameter("n_clusters", type(self).__name__)
                + f" must be at most the number of rows (n_samples={len(rows)}). Got {K}."
            )
        init = given["init"]
        if not isinstance(init, str) and isinstance(start := resolve(init), Given):
            start.check(len(offsets) - 1, K, rows.shape[1])
        fewer = self._cluster(parts, given | {"n_clusters": distinct, "init": "k-means++"})
        warnings.warn(
            f"Number of distinct clusters ({distinct}) found smaller than n_clusters ({K})."
            " Possibly due to duplicate points in X.",
            ConvergenceWarning,
            stacklevel=3,
        )
        return replace(fewer, centers=fewer.centers[:, np.arange(K) % distinct])

    def _cluster(self, parts: Parts, given: dict[str, Any]) -> Solution:
        """Return the solution; `given` are the arguments of `cluster` that this estimator has."""
        return cluster(parts, **given)

    def _measure(self, rows: NDArray[Any], weights: Array | None) -> None:
        """Set the fitted attributes that only this estimator has, from the rows of `fit`."""
        raise NotImplementedError

    def _read(
        self, X: Any, sample_weight: Any, users: Any
    ) -> tuple[Parts, Any, NDArray[np.intp] | None]:
        """Return the rows in flat form, their weights, and the order of the rows, if changed."""
        title = type(self).__name__
        geometry = geometry_of(losses.resolve(self._loss), distances.resolve(self.distance))
        if _is_dict(X) and users is not None:
            raise DataError(
                parameter("users", title) + " must be left out if `X` is a dict, whose keys name"
                " the users."
            )
        self._users_column = users if isinstance(users, str) else None
        if isinstance(users, str):
            users = _read_column(X, users, title)
        rows = self._check(X, reset=True)
        geometry.check_rows(rows, "X")
        weights: Any = "unit"
        if isinstance(sample_weight, Mapping):
            raise DataError(
                parameter("sample_weight", title) + " must be an array of one weight per row, also"
                " if `X` is a dict. Got a dict."
            )
        if sample_weight is not None:
            weights = _check_sample_weight(
                sample_weight, rows, dtype=np.float64, ensure_non_negative=True
            )
        order, sizes = None, [len(rows)]
        self.user_names_ = np.array([0])
        if _is_dict(X):
            self.user_names_ = np.fromiter(X, dtype=object, count=len(X))
            sizes = [_num_samples(part) for part in X.values()]
        elif users is not None:
            self.user_names_, split = partition.by_user(users)
            order, sizes = np.concatenate(split), [len(part) for part in split]
            if len(order) != len(rows):
                raise DataError(
                    parameter("users", title) + f" must name the user of each of the {len(rows)}"
                    f" rows. Got {len(order)}."
                )
            rows = rows[order]
            weights = weights if isinstance(weights, str) else weights[order]
        return (rows, np.concatenate([[0], np.cumsum(sizes)])), weights, order

    def _graph(self) -> Any:
        """Return the graph for `cluster`; named nodes are matched with the users by name."""
        graph: Any = self.graph
        if isinstance(graph, str):
            return graph
        found = graphs.resolve(graph, len(self.user_names_))
        names = [str(name) for name in self.user_names_.tolist()]
        return found.matched(names, parameter("graph", type(self).__name__))

    def _store(
        self, solution: Solution, dtype: np.dtype[Any], order: NDArray[np.intp] | None
    ) -> None:
        """Set the fitted attributes that both estimators have."""
        names = getattr(self, "feature_names_in_", None)
        self.solution_ = replace(solution, feature_names=None if names is None else tuple(names))
        # Rows are compared with these, whatever the precision of `cluster_centers_`.
        self._consensus = solution.consensus
        self.cluster_centers_ = self._consensus.astype(dtype, copy=False)
        self.user_centers_ = solution.centers.astype(dtype, copy=False)
        self.n_iter_ = solution.certificate.rounds + solution.certificate.search_rounds
        flat = np.concatenate(solution.labels)
        self.labels_ = flat
        if order is not None:
            self.labels_ = np.empty_like(flat)
            self.labels_[order] = flat

    def _nearest(self, rows: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return each row's nearest of `cluster_centers_`, and its squared distance."""
        return nearest(rows, self._consensus, self.solution_.geometry)

    def _check_fitted(self, X: Any) -> Any:
        """Check that the model is fitted, and return the checked rows."""
        check_is_fitted(self, "solution_")
        rows = self._check(X, reset=False)
        self.solution_.geometry.check_rows(rows, "X")
        return rows

    def _check(self, X: Any, *, reset: bool) -> Any:
        """Return the rows of X, concatenated if it is a dict and without the column of users."""
        if _is_dict(X):
            parts: list[Any] = []
            for name, part in X.items():
                parts.append(self._check_part(part, show(name), reset=reset and not parts))
            if not any(map(len, parts)):
                title = type(self).__name__
                raise DataError(parameter("X", title) + " must hold at least one row. Got none.")
            return concatenate(parts)
        column = self._users_column
        if column is not None and column in getattr(X, "columns", ()):
            # Not by the names of the others, of which pandas may have several alike.
            X = X.drop(columns=column) if hasattr(X, "loc") else X.drop(column)
            if X.shape[1] == 0:
                raise DataError(
                    parameter("X", type(self).__name__) + " must have columns besides that of the"
                    f" users, {show(column)}. Got none."
                )
        return check_any_rows(self._validate(X, reset=reset), "X")

    def _check_part(self, part: Any, name: str, *, reset: bool) -> Any:
        """Return the rows of one user, which may be none."""
        try:
            rows = self._validate(part, reset=reset, ensure_min_samples=0)
        except ValueError as error:
            names, columns = getattr(self, "feature_names_in_", ()), getattr(part, "columns", ())
            if not reset and len(names) and len(columns) and [*names] != [*columns]:
                raise DataError(
                    f"The rows of user {name} must have the columns {shorten(names)}, in this"
                    f" order. Got {shorten(columns)}."
                ) from None
            raise DataError(f"The rows of user {name} cannot be used: {error}") from None
        return check_any_rows(rows, f"user {name}")

    def _validate(self, X: Any, **options: Any) -> Any:
        # Our own check names the first row that is not finite.
        options |= {"dtype": [np.float64, np.float32], "order": "C", "ensure_all_finite": False}
        _check_columns(X, type(self).__name__)
        return validate_data(self, X, accept_sparse="csr", **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Features that are centered have few zeros.
        tags.input_tags.sparse = self.scale == "none"
        return tags

    def __reduce__(self) -> tuple[Any, ...]:
        return pickles.reduce(self, self.__getstate__())

    def __setstate__(self, state: tuple[dict[str, Any]]) -> None:
        super().__setstate__(pickles.read_state(type(self), state))


def _check_columns(X: Any, of: str) -> None:
    """Raise if two columns of a data frame have the same name, or one holds text."""
    names = [*getattr(X, "columns", ())]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            parameter("X", of) + f" must have columns of different names. Got {show(twice)}"
            f" {names.count(twice)} times."
        )
    for name in names:
        first: list[Any] = X[name][:1].to_numpy().tolist()
        if first and isinstance(first[0], str):
            raise DataError(
                parameter("X", of)
                + f" must hold numbers. Column {name!r} holds {first[0]!r}; if it names the user of"
                f" each row, pass users={name!r}."
            )


def _is_dict(X: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Return whether X has rows by name; some sparse arrays are dicts, too."""
    return isinstance(X, Mapping) and not issparse(X)


def _read_column(X: Any, name: str, title: str) -> NDArray[Any]:
    """Return the column of a DataFrame that has the user of each row."""
    columns = getattr(X, "columns", None)
    if columns is None:
        raise DataError(
            parameter("users", title) + " must be an array with the user of each row, or the name"
            f" of a column if `X` is a DataFrame. Got {show(name)}."
        )
    if name not in columns:
        raise DataError(
            parameter("users", title) + f" must be a column of `X`. Got {show(name)}."
            f"{guess(name, map(str, columns))}"
        )
    return np.asarray(X[name])


def _sort_classes(init: Any, order: NDArray[np.intp] | None) -> Any:
    """Return a start with classes in the order of users' rows, any other start unchanged."""
    if order is not None and isinstance(init, Warm):
        classes = np.asarray(init.classes, dtype=object)
        if classes.shape == order.shape:
            return Warm(classes[order])
    return init


def _convert_random_state(random_state: Any) -> Any:
    """Return a seed drawn from a RandomState of scikit-learn, anything else unchanged."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return random_state
