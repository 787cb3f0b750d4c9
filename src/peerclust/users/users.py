"""A block of users: their rows, weights and labels, and what they compute from these alone.

A block may have all users, some or one. What it computes for a user does not depend, to the last
bit, on the other users of the block. Nothing here knows of neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Rows
from peerclust.bregman import Bregman
from peerclust.distances import Distance, Euclidean
from peerclust.errors import DivergedError
from peerclust.kernels.exact_sums import no_sums
from peerclust.kernels.threads import parallel_for
from peerclust.losses import KMeans
from peerclust.users import cached
from peerclust.users.assigners import Assigner, FullAssigner, SmallUsersAssigner, sum_by_user
from peerclust.users.chunks import plan_chunks, sum_by_label, sum_values
from peerclust.users.data import Data
from peerclust.users.distinct import distinct_rows
from peerclust.users.nearest import nearest


class Users:
    """A block of u users, with user i's rows at offsets[i]:offsets[i+1].

    Parameters
    ----------
    rows : (N, d) array
        float32 or float64 in C order; used as is, never copied or written to.
    offsets : (u + 1,) int array
        The first row of each user, and N at the end; a user may have no rows.
    weights : float or (N,) array
        One weight for all rows, or one per row.
    loss, distance
        See `losses`, `bregman` and `distances`. A Bregman loss brings its own distance.
    ids : sequence of u ints, optional
        The ids of these users among all users (default 0 to u - 1).

    Examples
    --------
    >>> users = Users(np.array([[0.0], [2.0], [10.0]]), np.array([0, 2, 3]))
    >>> x = np.array([[[0.0], [9.0]], [[0.0], [9.0]]])
    >>> users.assign(x)
    >>> users.labels.tolist(), users.gradient(x).tolist(), users.cost(x).tolist()
    ([0, 0, 1], [[[-2.0], [0.0]], [[0.0], [-1.0]]], [2.0, 0.5])
    """

    def __init__(
        self,
        rows: Rows,
        offsets: NDArray[np.int64],
        *,
        weights: float | Array = 1.0,
        loss: Any = None,
        distance: Distance | None = None,
        ids: Sequence[int] | None = None,
    ) -> None:
        self.rows = rows
        self.offsets = offsets
        self.weights = weights
        self.loss: Any = KMeans() if loss is None else loss
        self.distance = Euclidean() if distance is None else distance
        self.ids = tuple(range(len(offsets) - 1) if ids is None else ids)
        # The rows in coordinates where distance is Euclidean: a copy only for Mahalanobis.
        self._y = self.distance.forward(rows)
        whole = isinstance(weights, float)
        self._weights: Array = np.empty(0) if whole else weights  # type: ignore[assignment]
        self._unit = weights if whole else 1.0
        known = (kernels.KMEANS if isinstance(self.loss, Bregman) else kernels.GIVEN), 0.0
        compiled: tuple[int, float] = getattr(self.loss, "compiled", known)
        self._code, self._parameter = compiled
        row_data = kernels.RowData(self._y, self._weights, float(self._unit), *compiled)
        self._data = Data(row_data, offsets)
        self._owner, self._start, self._stop = self._chunks = plan_chunks(offsets)
        self._ends = np.cumsum(self._stop - self._start)
        self.reset_cache()

    @property
    def m(self) -> int:
        """The number of users in the block."""
        return len(self.offsets) - 1

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.rows.shape[1])

    @property
    def labels(self) -> NDArray[np.int32]:
        """Each row's cluster by the last assignment, (N,); -1 before the first."""
        for assigner in self._assigners:
            assigner.write(self._labels)
        return self._labels

    @property
    def changed(self) -> int:
        """The number of labels that the last assignment changed."""
        return sum(int(np.sum(assigner.changed)) for assigner in self._assigners)

    @property
    def rows_scanned(self) -> int:
        """The number of rows that the last assignment measured against the centers."""
        return sum(int(np.sum(assigner.rows_scanned)) for assigner in self._assigners)

    @property
    def all_small(self) -> SmallUsersAssigner | None:
        """The assigner of all users, if all have a handful of rows only; for `DGC`."""
        plain = isinstance(self.distance, Euclidean) and self._code != kernels.GIVEN
        only = self._assigners[0] if plain and len(self._assigners) == 1 else None
        return only if isinstance(only, SmallUsersAssigner) else None

    @cached_property
    def total_weights(self) -> Array:
        """Each user's total weight, (u,)."""
        if self._weights.size == 0:
            return np.diff(self.offsets) * float(self._unit)
        return self._sum_values(lambda a, b: np.ones(self._stop[b - 1] - self._start[a]))

    def broadcast_centers(self, centers: Array) -> Array:
        """Return a copy of common centers (k, d) for each user of the block, (u, k, d)."""
        return np.repeat(centers[None], self.m, axis=0)

    def reset_cache(self, labels: NDArray[np.int32] | None = None) -> None:
        """Drop labels and sums, as before the first assignment; or set labels and drop all else."""
        self._labels = np.full(len(self.rows), -1, np.int32) if labels is None else labels.copy()
        self._sums: tuple[Array, Array] | None = None
        self._sums_at: Array | None = None
        self._shape: tuple[int, ...] = ()
        self._n_passes = 0
        self._assigners: list[Assigner] = []

    def single_user(self, i: int) -> Users:
        """Return a block of user i of this block alone; its rows are a view."""
        here = slice(self.offsets[i], self.offsets[i + 1])
        weights = self.weights if isinstance(self.weights, float) else self.weights[here]
        offsets = self.offsets[i : i + 2] - self.offsets[i]
        return self._copy_with(self.rows[here], offsets, weights, (self.ids[i],))

    def with_weights(self, weights: Array) -> Users:
        """Return the same users with other weights, one per row."""
        return self._copy_with(self.rows, self.offsets, weights, self.ids)

    def assign(self, x: Array) -> None:
        """Label each row with its nearest center among its user's x[i] (steps 2-5 of Algorithm 1).

        Of equally near centers the first is taken. From the third time on, a row is not read if
        the centers have moved too little for its label to change (see `cached`).
        """
        z = np.ascontiguousarray(self.distance.forward(x))
        affine: tuple[Array, ...] = ()
        if isinstance(self.loss, Bregman):
            self._check_domain(x)
            affine = self.loss.affine(x)
        # The cache is dropped until labels and sums are complete: this may be interrupted.
        assigners = self._assigners
        labels = self.labels if self._shape != z.shape else self._labels
        passes = self._n_passes if self._shape == z.shape else 0
        self._sums = self._sums_at = None
        self._shape, self._n_passes, self._assigners = z.shape, 0, []
        if affine:
            assigners = [FullAssigner(self._data, np.arange(self.m), z.shape[1])]
        elif passes == 0:
            assigners = cached.first_pass(self._data, z.shape[1])
        elif passes == 1:
            assigners.clear()
            assigners = cached.cached_pass(self._data, z.shape[1])
        for assigner in assigners:
            assigner.assign(z, labels, *affine)
        self._n_passes, self._assigners, self._sums_at = passes + 1, assigners, x

    def gradient(self, x: Array) -> Array:
        """Return the gradient of the local cost, sum over C_i(k) of w grad f(x_i(k), y): (u, K, d).

        The labels are those of the last `assign`. For K-means and Bregman losses rows are read at
        most once. For other losses this holds if x is the very array that was assigned, so it must
        not be written to in between.
        """
        z = np.ascontiguousarray(self.distance.forward(x))
        s0, s1 = self._find_sums(x, z)
        gradient = s0[..., None] * z - s1
        if isinstance(self.loss, Bregman):
            self._check_domain(x)
            return self.loss.back(x, gradient)
        return self.distance.back(gradient)

    def gradient_terms(self, x: Array) -> tuple[Array, Array]:
        """Return (s0, s1), (u, K) and (u, K, d), such that the gradient is s0 x - s1.

        They are valid until the next `assign` and must not be written to.
        """
        if isinstance(self.distance, Euclidean) and not isinstance(self.loss, Bregman):
            return self._find_sums(x, np.ascontiguousarray(x))
        return np.zeros(x.shape[:2]), -self.gradient(x)

    def curvature(self, x: Array) -> Array:
        """Return a bound on the curvature of each user's cost, (u, K).

        A step x - gradient / curvature never raises the cost (with a Bregman loss: where its
        smoothness holds). Labels are those of the last `assign`. The bound is beta times the weight
        of C_i(k); for Huber and K-means, which are concave in r^2, it is the sum of w gamma.
        """
        if self._code in (kernels.KMEANS, kernels.HUBER):
            weights = self._find_sums(x, np.ascontiguousarray(self.distance.forward(x)))[0]
        else:
            weights = sum_by_label(self.offsets, self.labels, self._each_weight(), x.shape[1])
        return np.asarray(weights * (float(self.loss.smoothness) * self.distance.largest))

    def cost(self, x: Array) -> Array:
        """Return each user's cost, the sum of w f(x_i(label), y) over its rows, (u,)."""
        if isinstance(self.loss, Bregman):
            self._check_domain(x)
        z = np.ascontiguousarray(self.distance.forward(x))
        labels = self.labels

        def values(first: int, last: int) -> Array:
            if isinstance(self.loss, Bregman):
                here = slice(self._start[first], self._stop[last - 1])
                owner = np.repeat(self._owner[first:last], (self._stop - self._start)[first:last])
                centers = x[owner, labels[here]]
                return self.loss.divergence(centers, self.rows[here].astype(np.float64))
            r2 = np.empty(self._stop[last - 1] - self._start[first])
            kernels.own_distance2(self._y, self._chunks, first, last, z, labels, r2)
            r2[:] = self.loss.value(r2)
            return r2

        return self._sum_values(values)

    def nearest(self, centers: Array) -> tuple[NDArray[np.int32], Array]:
        """Return each row's nearest of common centers (K, d), and its squared distance, both (N,).

        For a Bregman loss the divergence replaces the squared distance.
        """
        return nearest(
            self.rows, centers, loss=self.loss, distance=self.distance, transformed=self._y
        )

    @cached_property
    def distinct(self) -> tuple[NDArray[np.int64], Array, NDArray[np.int64]]:
        """(indices, weights, offsets): the distinct rows of each user, with their total weights.

        They are ordered by a hash of their values. So the order does not depend on the order of a
        user's rows, nor on whether a row occurs three times or once with a weight of 3. Draws that
        walk in this order do not depend on these either.
        """
        return distinct_rows(self.rows, self.offsets, self._each_weight())

    def generator(self, i: int, seed: int, step: int) -> np.random.Generator:
        """Return user i's random stream for a step, the same on every runtime."""
        children = np.random.SeedSequence(seed, spawn_key=(self.ids[i], step))
        return np.random.default_rng(children)

    def _copy_with(self, rows: Rows, offsets: Any, weights: Any, ids: tuple[int, ...]) -> Users:
        same: Any = {"loss": self.loss, "distance": self.distance}
        return Users(rows, offsets, weights=weights, ids=ids, **same)

    def _each_weight(self) -> Array:
        return self._weights if self._weights.size else np.full(len(self.rows), self._unit)

    def _find_sums(self, x: Array, z: Array) -> tuple[Array, Array]:
        """Return each user's sums of w gamma and w gamma y by label; z is distance.forward(x)."""
        known = self._sums_at is x or self._code == kernels.KMEANS
        if known and self._sums is None and self._assigners and self._code != kernels.GIVEN:
            for assigner in self._assigners:
                assigner.sum(z, self._labels)
            self._sums = sum_by_user(self._assigners, x.shape)
        elif not known or self._sums is None:
            self._sum_by_labels(x, z)
        assert self._sums is not None
        return self._sums

    def _sum_by_labels(self, x: Array, z: Array) -> None:
        """Sum all rows by their current labels, with gamma at the centers x."""
        sums = no_sums(len(self._owner), *x.shape[1:])
        labels, given = self.labels, np.empty(0)
        if self._code == kernels.GIVEN and len(self.rows):
            given = np.empty(len(self.rows))
            kernels.own_distance2(self._y, self._chunks, 0, len(self._owner), z, labels, given)
            given[:] = self.loss.gamma(given)

        def loop(first: int, last: int) -> None:
            kernels.gradient(self._data.row_data, self._chunks, first, last, z, labels, given, sums)

        parallel_for(loop, self._ends, self._y.size)
        summed = [Assigner(self._data, self._owner, [sums])]
        self._sums, self._sums_at = sum_by_user(summed, x.shape), x

    def _sum_values(self, values: Callable[[int, int], Array]) -> Array:
        return sum_values(values, self._weights, float(self._unit), self._chunks, self.m)

    def _check_domain(self, x: Array) -> None:
        if not self.loss.contains(x):
            raise DivergedError(
                f"A center left the domain of the {self.loss.name} loss;"
                " use a larger `smoothness`, or the solver 'dgc' with a smaller `alpha`."
            )
