"""Assigners that cache bounds from one assignment to the next, so that few rows are read again.

By the triangle inequality a row's label is valid until the centers have moved far enough (Elkan
2003, Hamerly 2010; see `kernels.center_drift`). There are three kinds of users:

- Many rows with few features are sorted into boxes of nearby rows, which are skipped as a whole, as
  in Pelleg and Moore (1999) and Kanungo et al. (2002): `BoxAssigner`, `kernels.boxes`.
- Other rows stay in their own order: `BoundedAssigner`, `kernels.bounds`. Each row has one bound
  (Hamerly 2010); rows with many features also have one per center (Elkan 2003). Drake and Hamerly
  (2012) choose a number of bounds between these two.
- For a handful of rows nothing is cached (`SmallUsersAssigner`): reading them again costs less.

`assigners.Data` says which users are of which kind.

Labels are always those of a full assignment. Sums by label are updated in double-double precision
(see `kernels.exact_sums`); they differ from a new sum in a last bit at most, and rarely.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Ints
from peerclust.kernels import BoxCache, CachedSums, Chunks, Drift, RowCache
from peerclust.kernels.exact_sums import no_marks, no_sums
from peerclust.kernels.threads import parallel_for
from peerclust.users.assigners import Assigner, Data, SmallUsersAssigner, make_assigners
from peerclust.users.rows import plan_chunks


class CachedAssigner(Assigner):
    """Tracks the drift of centers, and updates sums as rows enter and leave clusters."""

    changed: Ints
    rows_scanned: Ints

    def __init__(self, data: Data, members: Ints, chunks: Chunks, K: int) -> None:
        n = len(chunks.owner)
        sums = CachedSums(
            constant=no_sums(n, K, data.d),
            varying=no_sums(n if data.varies else 0, K, data.d),
            marks=no_marks(n, K, data.d),
        )
        kept = [sums.constant, sums.varying] if data.varies else [sums.constant]
        super().__init__(data, chunks.owner, kept)
        self._members = members
        self._ends = np.cumsum(chunks.stop - chunks.start)
        self._cold = True
        N = len(data.row_data.rows)
        self._work_per_row, self._cold_work = K * data.d, float(N * K * data.d)
        # All rows or boxes are checked, and rows with varying gamma are measured.
        self._fixed_work = int(self._ends[-1]) + (N * data.d if data.varies else 0)
        drift = Drift(
            centers=np.empty((0, K, data.d)),
            path=np.zeros((data.m, K)),
            drift=np.zeros((data.m, K)),
            max_drift=np.zeros(data.m),
        )
        self._centers, *self._lengths = drift
        self._cached_sums = tuple(map(tuple, sums))

    def _track_drift(self, z: Array) -> tuple[Array, ...]:
        """Accumulate how far the centers moved to z, which is not copied; return the `Drift`."""
        if not self._cold:
            kernels.add_drift(z, self._members, self._centers, *self._lengths)
        self._centers = z
        return (z, *self._lengths)

    def _work(self) -> float:
        """Estimate the work: as many rows as last time, and what is done whatever moved."""
        if self._cold:
            return self._cold_work
        return float(self.rows_scanned.sum() * self._work_per_row + self._fixed_work)


class BoundedAssigner(CachedAssigner):
    """Rows in their own order: one bound per row; with many features, one per row and center."""

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        chunks = plan_chunks(data.offsets, members)
        super().__init__(data, members, chunks, K)
        rows = int(self._ends[-1])
        cache = RowCache(
            place=self._ends - (chunks.stop - chunks.start),
            valid_until=np.empty(rows),
            in_sums=np.zeros(rows if data.mixed_gamma else 0, np.bool_),
            bounds=np.empty((rows if data.bounded and K > 1 else 0, K), np.float32),
        )
        self._rows = tuple(data.row_data), tuple(chunks)
        self._cache = tuple(cache), self._cached_sums

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z."""
        drift = self._track_drift(z)
        counts = np.empty((2, len(self.owner)), np.int64)
        arguments = *self._rows, drift, *self._cache, self._cold, labels, counts
        parallel_for(kernels.assign_bounded, self._ends, self._work(), *arguments)
        self.changed, self.rows_scanned = counts
        self._cold = False


class BoxAssigner(CachedAssigner):
    """Rows sorted into boxes, in a copy."""

    keeps_labels = True

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        layout = data.box_layout
        super().__init__(data, members, layout.chunks, K)
        rows, sizes = len(layout.order), np.diff(layout.boxes.begin)
        self._order, self._labels = layout.order, np.empty(rows, np.int32)
        cache = BoxCache(
            labels=self._labels,
            valid_until=np.empty(rows),
            in_sums=np.zeros(rows if data.mixed_gamma else 0, np.bool_),
            box_valid_until=np.empty(len(sizes)),
            uniform_label=np.full(len(sizes), -1, np.int32),
            n_varying=sizes.astype(np.int32) * np.int32(data.varies),
        )
        self._rows = tuple(layout.row_data), tuple(layout.boxes), tuple(layout.chunks)
        self._cache = tuple(cache), self._cached_sums

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z; `labels` are read only if cold, and written by `write`."""
        drift = self._track_drift(z)
        if self._cold:
            kernels.take(labels, self._order, self._labels)
        counts = np.empty((2, len(self.owner)), np.int64)
        arguments = *self._rows, drift, *self._cache, self._cold, counts
        parallel_for(kernels.assign_boxes, self._ends, self._work(), *arguments)
        self.changed, self.rows_scanned = counts
        self._cold = False

    def write(self, labels: NDArray[np.int32]) -> None:
        """Write the labels in the original order of the rows."""
        kernels.scatter(self._labels, self._order, labels)


def cached_pass(data: Data, K: int) -> list[Assigner]:
    """Return assigners that cache what suits each user."""
    small, boxed = data.small, data.boxed
    return make_assigners(
        data, K,
        (SmallUsersAssigner, small), (BoundedAssigner, ~small & ~boxed), (BoxAssigner, boxed),
    )  # fmt: skip
