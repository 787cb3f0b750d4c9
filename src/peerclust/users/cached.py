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

# What sorting costs per row and level of the tree (see `SUM_WORK`), and compiling per second.
SORT_WORK, SORT_WORK_PER_FEATURE = 25.0, 10.0
WORK_PER_SECOND = 4e9
# Loops are compiled once full assignments have taken this many times as long: caching saves only a
# part of their time. So it is with sorting; boxes save less the more features there are.
PATIENCE = 2.0
SORT_PATIENCE, SORT_PATIENCE_PER_FEATURE = 0.5, 0.3
# `caching_pays` looks again after this many times the work.
_ASK_AGAIN = 1.05


class CachedAssigner(Assigner):
    """Tracks the drift of centers, and updates sums as rows enter and leave clusters."""

    changed: Ints
    rows_scanned: Ints

    def __init__(self, data: Data, members: Ints, chunks: Chunks, K: int) -> None:
        n = len(chunks.owner)
        sums = CachedSums(
            constant=no_sums(n, K, data.d),
            varying=no_sums(n, K, data.d) if data.varies else None,
            marks=no_marks(n, K, data.d),
        )
        kept = [each for each in (sums.constant, sums.varying) if each is not None]
        super().__init__(data, chunks.owner, kept)
        self._members = members
        # None leaves out of the loops what rows with varying gamma need.
        self._parameter = data.row_data.parameter if data.varies else None
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
        self._cached_sums = tuple(each if each is None else tuple(each) for each in sums)

    def _track_drift(self, z: Array) -> tuple[Array, ...]:
        """Accumulate how far the centers moved to z; return the `Drift`."""
        if self._cold:
            self._centers = z.copy()
        else:
            kernels.add_drift(z, self._members, self._centers, *self._lengths)
            np.copyto(self._centers, z)
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
            bounds=np.empty((rows, K), np.float32) if data.bounded and K > 1 else None,
        )
        self._rows = (*data.row_data[:4], self._parameter), tuple(chunks)
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
        row_data = *layout.row_data[:4], self._parameter
        self._rows = row_data, tuple(layout.boxes), tuple(layout.chunks)
        self._cache = tuple(cache), self._cached_sums

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z; `labels` are read only if cold, and written by `write`."""
        drift = self._track_drift(z)
        if self._cold:
            self._labels[:] = labels[self._order]
        counts = np.empty((2, len(self.owner)), np.int64)
        arguments = *self._rows, drift, *self._cache, self._cold, counts
        parallel_for(kernels.assign_boxes, self._ends, self._work(), *arguments)
        self.changed, self.rows_scanned = counts
        self._cold = False

    def write(self, labels: NDArray[np.int32]) -> None:
        """Write the labels in the original order of the rows."""
        labels[self._order] = self._labels


def caching_pays(data: Data) -> bool:
    """Return whether the assignments so far cost as much as caching: to sort rows, to compile.

    A block that will be assigned a few times only never pays for sorting, and any other pays a
    bounded multiple of what it had to (the ski rental problem). Compiling is paid for by all blocks
    together. The question takes as long as assigning hundreds of rows, so it is asked again only
    once the block has spent some more.
    """
    if data.spent < _ASK_AGAIN * data.asked_at:
        return False
    data.asked_at, boxed = data.spent, data.boxed
    patience = SORT_PATIENCE + SORT_PATIENCE_PER_FEATURE * data.d
    if data.spent < patience * _sorting_work(data, boxed):
        return False
    # Each with the arguments whose types depend on the data.
    needed: dict[kernels.Kernel, tuple[object, ...]] = {kernels.add_drift: ()}
    rows, *others = data.of_loops
    if boxed.any():
        sorted_rows = np.empty(0, data.row_data.rows.dtype)
        needed[kernels.sort_into_boxes] = ()
        needed[kernels.assign_boxes] = ((sorted_rows, *others),)
    if (~data.small & ~boxed).any():
        needed[kernels.assign_bounded] = ((rows, *others),)
    seconds = Data.spent_by_all / WORK_PER_SECOND
    delays = {kernel: kernel.delay(seconds, *types) for kernel, types in needed.items()}
    price = PATIENCE * sum(delays.values())
    if 0.5 * price <= seconds:
        kernels.Kernel.due_soon.update(kernel for kernel in needed if delays[kernel] > 0.0)
    return seconds >= price


def _sorting_work(data: Data, boxed: NDArray[np.bool_]) -> float:
    """Estimate the work of sorting rows into boxes: one pass over them per level of the tree."""
    if data.has_layout:
        return 0.0
    sizes = data.sizes[boxed]
    levels = np.log2(np.maximum(sizes / kernels.TILE, 1.0))
    return float((sizes * levels).sum()) * (SORT_WORK + SORT_WORK_PER_FEATURE * data.d)


def cached_pass(data: Data, K: int) -> list[Assigner]:
    """Return assigners that cache what suits each user."""
    small, boxed = data.small, data.boxed
    return make_assigners(
        data, K,
        (SmallUsersAssigner, small), (BoundedAssigner, ~small & ~boxed), (BoxAssigner, boxed),
    )  # fmt: skip
