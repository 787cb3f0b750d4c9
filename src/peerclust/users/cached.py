"""Assigners that cache bounds from one assignment to the next, so that few rows are read again.

By the triangle inequality a row's label is valid until the centers have moved far enough (Elkan
2003, Hamerly 2010; see `kernels.center_drift`). There are three kinds of users:

- Many rows with few features are sorted into boxes of nearby rows, which are skipped as a whole, as
  in Pelleg and Moore (1999) and Kanungo et al. (2002): `BoxAssigner`, `kernels.boxes`.
- Other rows stay in their own order: `BoundedAssigner`, `kernels.bounds`. Each row has one bound
  (Hamerly 2010); rows with many features also have one per center (Elkan 2003). Drake and Hamerly
  (2012) choose a number of bounds between these two.
- For a handful of rows nothing is cached (`SmallUsersAssigner`): reading them again costs less.

Labels are always those of a full assignment. Sums by label are updated in double-double precision
(see `kernels.exact_sums`); they differ from a new sum in a last bit at most, and rarely.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Ints
from peerclust.kernels.exact_sums import no_sums
from peerclust.kernels.threads import parallel_for
from peerclust.users.assigners import Assigner, Data, FullAssigner, SmallUsersAssigner
from peerclust.users.boxes import find_layout
from peerclust.users.chunks import plan_chunks

# For users with fewer rows nothing is cached.
MIN_ROWS_CACHED = 16
# Boxes are worth it from this many rows per user on, and up to this many features.
MIN_ROWS_BOXED = 512
FEW_FEATURES = 8
# From this many features on, a bound per row and center saves more than it costs.
MANY_FEATURES = 16


class CachedAssigner(Assigner):
    """Tracks the drift of centers, and updates sums as rows enter and leave clusters."""

    changed: Ints
    rows_scanned: Ints

    def __init__(self, data: Data, owner: Ints, K: int, members: Ints) -> None:
        # Of rows with constant gamma, and of the others.
        constant = no_sums(len(owner), K, data.d)
        varying = no_sums(len(owner) if data.varies else 0, K, data.d)
        super().__init__(data, owner, [constant, varying] if data.varies else [constant])
        self._varying_sums = varying
        self.members = members
        self.changed, self.rows_scanned = np.zeros((2, len(owner)), np.int64)
        self._cold = True
        m = len(data.offsets) - 1
        self._z = np.empty((m, K, data.d))
        self._path, self._drift, self._max_drift = np.zeros((m, K)), np.zeros((m, K)), np.zeros(m)
        # Whether a sum must be recomputed follows from these; see `kernels.exact_sums`.
        few, many = (len(owner), K), (len(owner), K, data.d)
        self._rounding_marks = (
            np.zeros(few), np.zeros(few, np.bool_), np.zeros(many), np.zeros(many, np.bool_)
        )  # fmt: skip

    def _track_drift(self, z: Array) -> None:
        """Accumulate how far the centers moved to z."""
        if self._cold:
            self._z[self.members] = z[self.members]
        else:
            kernels.add_drift(z, self._z, self.members, self._path, self._drift, self._max_drift)

    def _work(self, z: Array, checked: int) -> float:
        """Estimate the work: as many rows as last time, plus the `checked` rows or boxes."""
        rows, d = self._data.rows.shape
        if self._cold:
            return float(rows * z[0].size)
        return float(
            self.rows_scanned.sum() * z[0].size + checked + (rows * d if self._data.varies else 0)
        )


class BoundedAssigner(CachedAssigner):
    """Rows in their own order: one bound per row; with many features, one per row and center."""

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        owner, start, stop = plan_chunks(data.offsets, members)
        super().__init__(data, owner, K, members)
        self._ends = np.cumsum(stop - start)
        rows = int(self._ends[-1])
        self._chunks = owner, start, stop, self._ends - (stop - start)
        self._in_sums = np.zeros(rows if data.mixed_gamma else 0, np.bool_)
        self._valid_until = np.empty(rows)
        bounded = data.d >= MANY_FEATURES and K > 1
        self._bounds = np.empty((rows, K) if bounded else (0, K), np.float32)

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z."""
        data = self._data
        self._track_drift(z)

        def loop(first: int, last: int) -> None:
            kernels.assign_bounded(
                data.rows, data.weights, data.unit, *self._chunks, first, last, z, self._path,
                self._drift, data.code, data.parameter, self._cold, labels, self._in_sums,
                self._valid_until, self._bounds, self.sums[0], self._rounding_marks,
                self._varying_sums, self.changed, self.rows_scanned,
            )  # fmt: skip

        parallel_for(loop, self._ends, self._work(z, int(self._ends[-1])))
        self._cold = False


class BoxAssigner(CachedAssigner):
    """Rows sorted into boxes, in a copy."""

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        self._layout = find_layout(data, members)
        super().__init__(data, self._layout.owner, K, members)
        self._ends = np.cumsum(self._layout.stop - self._layout.start)
        rows, boxes = len(self._layout.order), len(self._layout.mid)
        self._labels = np.empty(rows, np.int32)
        self._in_sums = np.zeros(rows if data.mixed_gamma else 0, np.bool_)
        self._valid_until = np.empty(rows)
        self._box_valid_until, self._uniform_label = np.empty(boxes), np.full(boxes, -1, np.int32)
        self._n_varying = np.diff(self._layout.begin).astype(np.int32) * np.int32(data.varies)

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z; `labels` are read only if cold, and written by `write`."""
        data, at = self._data, self._layout
        self._track_drift(z)
        if self._cold:
            kernels.take(labels, at.order, self._labels)

        def loop(first: int, last: int) -> None:
            kernels.assign_boxes(
                at.tiles, at.weights, data.unit, at.begin, at.mid, at.half, at.owner, at.start,
                at.stop, first, last, z, self._max_drift, data.code, data.parameter, self._cold,
                self._labels, self._in_sums, self._valid_until, self._box_valid_until,
                self._uniform_label, self._n_varying, self.sums[0], self._rounding_marks,
                self._varying_sums, self.changed, self.rows_scanned,
            )  # fmt: skip

        parallel_for(loop, self._ends, self._work(z, len(self._box_valid_until)))
        self._cold = False

    def write(self, labels: NDArray[np.int32]) -> None:
        """Write the labels in the original order of the rows."""
        kernels.scatter(self._labels, self._layout.order, labels)


def first_pass(data: Data, K: int) -> list[Assigner]:
    """Return assigners for a first assignment, which may be the only one: they read all rows."""
    few = data.sizes < MIN_ROWS_CACHED
    return _plan(data, K, (SmallUsersAssigner, few), (FullAssigner, ~few))


def cached_pass(data: Data, K: int) -> list[Assigner]:
    """Return assigners that cache what suits each user."""
    sizes = data.sizes
    few = sizes < MIN_ROWS_CACHED
    boxed = ~few & (sizes >= MIN_ROWS_BOXED) & (data.d <= FEW_FEATURES)
    return _plan(
        data, K, (SmallUsersAssigner, few), (BoundedAssigner, ~few & ~boxed), (BoxAssigner, boxed)
    )


def _plan(data: Data, K: int, *kinds: tuple[Any, NDArray[np.bool_]]) -> list[Assigner]:
    return [kind(data, np.flatnonzero(of), K) for kind, of in kinds if of.any()]
