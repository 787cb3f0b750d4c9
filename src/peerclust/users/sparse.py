"""Assignment, distances and sums of sparse rows, with the bits of the same rows made dense.

A squared distance is a sum over all features, one after the other, so rows are made dense for it,
a batch at a time. But most labels are certain without it: by

    ||x - y||^2 - ||y||^2 = ||x||^2 - 2 <x, y>,

of which only the product with the nonzero values has to be computed for each row, up to a bound on
the rounding errors of both sides. Sums by label are of the nonzero values alone, and exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from peerclust import kernels
from peerclust.arrays import Array, Ints
from peerclust.kernels import Chunks
from peerclust.kernels.exact_sums import Sums
from peerclust.kernels.threads import parallel_for
from peerclust.sparse import SparseRows
from peerclust.users.assigners import Assigner, Data
from peerclust.users.rows import plan_batches, plan_chunks

# The most numbers of a batch of rows that is made dense, and of scores that are computed at a time.
BATCH = 1 << 20


class SparseAssigner(Assigner):
    """Assigns all users; rows are summed only when `sum` is called."""

    def __init__(self, data: Data, rows: SparseRows) -> None:
        super().__init__(data, np.arange(data.m), [])
        self._rows, self.rows_scanned = rows, len(rows)

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z."""
        found = find_nearest(self._rows, self._data.offsets, z)
        self.changed = int(np.count_nonzero(found != labels))
        labels[:] = found
        self.sums = []

    def sum(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Sum the rows by their labels, with gamma at the centers z."""
        rows, (_, weights, unit, code, parameter) = self._rows, self._data.row_data
        w = weights if weights.size else np.full(len(rows), unit)
        if code != kernels.KMEANS:
            r2 = own_distance2(rows, self._data.offsets, z, labels)
            w = w * kernels.gamma(code, parameter, r2)
        small = self._data.small
        self.sums = [sum_rows(rows, self._data.offsets, labels, w, z.shape[1], small)]


def own_distance2(rows: SparseRows, offsets: Ints, z: Array, labels: NDArray[np.int32]) -> Array:
    """Return each row's squared distance to its own center, among those of its user in (m, K, d).

    >>> rows = SparseRows(csr_array(np.array([[0.0, 3.0], [4.0, 0.0]])))
    >>> own_distance2(rows, np.array([0, 2]), np.zeros((1, 1, 2)), np.zeros(2, np.int32)).tolist()
    [9.0, 16.0]
    """
    r2 = np.empty(len(rows))
    batches = _plan_dense(rows, offsets)

    def measure(first: int, last: int) -> None:
        for here, chunks in batches[first:last]:
            y = np.asarray(rows[here])
            kernels.own_distance2(0, len(chunks.owner), y, chunks, z, labels[here], r2[here])

    parallel_for(measure, len(batches), rows.size)
    return r2


def find_nearest(
    rows: SparseRows, offsets: Ints, z: Array, but: NDArray[np.int32] | None = None
) -> NDArray[np.int32]:
    """Return each row's nearest center among those of its user in (m, K, d), as `assign` does.

    With `but`, the nearest one other than that, as `kernels.nearest_other` does.

    >>> rows, z = SparseRows(csr_array(np.array([[0.0], [4.0]]))), np.array([[[1.0], [5.0]]])
    >>> find_nearest(rows, np.array([0, 2]), z).tolist()
    [0, 1]
    >>> find_nearest(rows, np.array([0, 2]), z, np.array([0, 1], np.int32)).tolist()
    [1, 0]
    """
    labels = np.zeros(len(rows), np.int32)
    m, K, d = z.shape
    if K == 1:
        return labels
    owner = np.repeat(np.arange(m), np.diff(offsets))
    unsure = np.empty(len(rows), np.bool_)
    with np.errstate(all="ignore"):
        squares = (z * z).sum(axis=2)
        longest = np.sqrt(squares.max(axis=1))
        # User i's centers are columns i d to (i + 1) d of one matrix.
        by_column = np.ascontiguousarray(z.transpose(0, 2, 1).reshape(m * d, K))
        step = max(1, BATCH // K)
        for start in range(0, len(rows), step):
            here = slice(start, start + step)
            users, part = owner[here], rows if len(rows) <= step else rows[here]
            score = squares[users] - 2.0 * (_shift_columns(part, users, m) @ by_column)
            every = np.arange(len(part))
            if but is not None:
                score[every, but[here]] = np.inf
            label = score.argmin(axis=1)
            best = score[every, label]
            score[every, label] = np.inf
            reach = np.sqrt(rows.squares[here]) + longest[users]
            margin = kernels.product_margin(d, reach)
            unsure[here] = ~(score.min(axis=1) - best > margin)
            labels[here] = label
    if unsure.any():
        which = np.flatnonzero(unsure)
        given = None if but is None else but[which]
        ends = np.searchsorted(which, offsets)
        labels[which] = _measure_nearest(rows[which], ends, z, given)
    return labels


def lower_distance2(rows: SparseRows, center: Array, r2: Array) -> Array:
    """Return the lower of r2, (N,), and each row's squared distance to a center (d,).

    >>> rows = SparseRows(csr_array(np.array([[0.0], [4.0]])))
    >>> lower_distance2(rows, np.array([5.0]), np.array([2.0, 2.0])).tolist()
    [2.0, 1.0]
    """
    with np.errstate(all="ignore"):
        square = float(center @ center)
        rough = rows.squares + (square - 2.0 * (rows.csr @ center))
        reach = np.sqrt(rows.squares) + np.sqrt(square)
        margin = kernels.product_margin(rows.shape[1], reach)
        which = np.flatnonzero(~(rough - margin > r2))
    lower = r2.copy()
    some, label = rows[which], np.zeros(len(which), np.int32)
    measured = own_distance2(some, np.array([0, len(which)]), center[None, None], label)
    lower[which] = np.fmin(r2[which], measured)
    return lower


def sum_rows(
    rows: SparseRows,
    offsets: Ints,
    labels: NDArray[np.int32],
    w: Array,
    K: int,
    plain: NDArray[np.bool_],
) -> Sums:
    """Return the sums of w and w y by user and label; those of `plain` users are not exact.

    >>> rows = SparseRows(csr_array(np.array([[0.0, 3.0], [4.0, 0.0]])))
    >>> exact = np.zeros(1, np.bool_)
    >>> sum_rows(rows, np.array([0, 2]), np.zeros(2, np.int32), np.ones(2), 1, exact).hi1.tolist()
    [[[4.0, 3.0]]]
    """
    values, columns, begin = rows.arrays
    (m, d), counts = (len(offsets) - 1, rows.shape[1]), np.diff(begin)
    cells = np.repeat(np.arange(m) * K, np.diff(offsets)) + labels
    sizes = np.diff(offsets)
    hi0, lo0 = kernels.sum_entries(w, cells, m * K, offsets, sizes, plain)
    entries = np.repeat(w, counts) * values
    cells = np.repeat(cells * d, counts) + columns
    hi1, lo1 = kernels.sum_entries(entries, cells, m * K * d, begin[offsets], sizes, plain)
    shape = m, K, d
    return Sums(hi0.reshape(m, K), lo0.reshape(m, K), hi1.reshape(shape), lo1.reshape(shape))


def dense_length(d: int) -> int:
    """Return how many rows with d features are made dense at a time."""
    return min(max(1, BATCH // d), kernels.CHUNK_ROWS)


def _plan_dense(rows: SparseRows, offsets: Ints) -> list[tuple[slice[int, int, int], Chunks]]:
    """Return batches of rows that are made dense together, each with its chunks."""
    length = dense_length(rows.shape[1])
    owner, start, stop = plan_chunks(offsets, length=length)
    return [
        (here, Chunks(owner[a:b], start[a:b] - here.start, stop[a:b] - here.start))
        for a, b, here in plan_batches(Chunks(owner, start, stop), length)
    ]


def _shift_columns(rows: SparseRows, users: Ints, m: int) -> csr_array:
    """Return the rows (N, d) as (N, m d), with those of user i in columns i d to (i + 1) d."""
    if m == 1:
        return rows.csr
    values, columns, begin = rows.arrays
    d = rows.shape[1]
    shifted = columns + np.repeat(users * d, np.diff(begin))
    return csr_array((values, shifted, begin), shape=(len(rows), m * d))


def _measure_nearest(
    rows: SparseRows, offsets: Ints, z: Array, but: NDArray[np.int32] | None
) -> NDArray[np.int32]:
    """Return what `find_nearest` does, by measuring all distances."""
    labels, r2 = np.zeros(len(rows), np.int32), np.empty(len(rows))
    for here, chunks in _plan_dense(rows, offsets):
        y, into = np.asarray(rows[here]), labels[here]
        if but is not None:
            centers = z, None, None, but[here], into
            kernels.nearest_other(0, len(chunks.owner), y, chunks, *centers)
            continue
        for i, start, stop in zip(*(each.tolist() for each in chunks), strict=True):
            own = slice(start, stop)
            kernels.nearest(0, stop - start, y[own], z[i], None, None, into[own], r2[here][own])
    return labels
