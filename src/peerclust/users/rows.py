"""The rows of a block of users: their chunks (see `kernels`), sums by user, and distinct rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Ints, Rows
from peerclust.kernels import Chunks
from peerclust.sparse import AnyRows, SparseRows

# The number of values that are reduced side by side.
_LINE = 256

# The most rows whose values are in memory at a time when they are summed.
BATCH_ROWS = 1 << 18


def plan_chunks(offsets: Ints, members: Ints | None = None, length: int | None = None) -> Chunks:
    """Return the chunks of all users, or of the `members` only.

    No chunk is longer than `length` (default `kernels.CHUNK_ROWS`).

    >>> [each.tolist() for each in plan_chunks(np.array([0, 8193, 8193, 8200]))]
    [[0, 0, 2], [0, 8192, 8193], [8192, 8193, 8200]]
    """
    length = kernels.CHUNK_ROWS if length is None else length
    if members is None:
        members = np.arange(len(offsets) - 1)
    pieces = -(-np.diff(offsets)[members] // length)
    owner = np.repeat(members, pieces)
    piece = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = offsets[owner] + piece * length
    return Chunks(owner, start, np.minimum(start + length, offsets[owner + 1]))


def sum_by_label(offsets: Ints, labels: NDArray[np.int32], values: Array, K: int) -> Array:
    """Return the sums of each user's values by label, (m, K).

    >>> sum_by_label(np.array([0, 2, 3]), np.array([1, 1, 0]), np.ones(3), 2).tolist()
    [[0.0, 2.0], [1.0, 0.0]]
    """
    m = len(offsets) - 1
    cell = np.repeat(np.arange(m), np.diff(offsets)) * K + labels
    # bincount adds in the order of the rows, so that a user's sums do not depend on other users.
    flat = np.bincount(cell, weights=values, minlength=m * K)
    return flat.reshape(m, K).astype(np.float64)


def column_ranges(rows: AnyRows, offsets: Ints) -> tuple[Array, Array]:
    """Return the least and the largest value of each feature at each user, (m, d).

    A user without rows has infinity and -infinity.

    >>> [each.tolist() for each in column_ranges(np.array([[1.0], [3.0]]), np.array([0, 0, 2]))]
    [[[inf], [1.0]], [[-inf], [3.0]]]
    """
    m, d = len(offsets) - 1, rows.shape[1]
    if isinstance(rows, SparseRows):
        return _sparse_ranges(rows, offsets)
    low, high = np.full((m, d), np.inf), np.full((m, d), -np.inf)
    own = np.flatnonzero(np.diff(offsets))
    for reduce, out in ((np.minimum, low), (np.maximum, high)):
        if len(rows) < _LINE * m:
            out[own] = reduce.reduceat(rows, offsets[own], axis=0) if len(own) else 0.0
        else:
            for i in own:
                out[i] = _reduce_columns(reduce, rows[offsets[i] : offsets[i + 1]])
    return low, high


def _sparse_ranges(rows: SparseRows, offsets: Ints) -> tuple[Array, Array]:
    values, columns, begin = rows.arrays
    m, d = len(offsets) - 1, rows.shape[1]
    cells = np.repeat(np.arange(m) * d, np.diff(begin[offsets])) + columns
    # Where a user has fewer values than rows, the others are 0.
    sizes = np.repeat(np.diff(offsets), d)
    zero = np.bincount(cells, minlength=m * d) < sizes
    low, high = np.where(zero, 0.0, np.inf), np.where(zero, 0.0, -np.inf)
    np.minimum.at(low, cells, values.astype(np.float64))
    np.maximum.at(high, cells, values.astype(np.float64))
    return low.reshape(m, d), high.reshape(m, d)


def _reduce_columns(reduce: np.ufunc, rows: Rows) -> Array:
    """Return reduce.reduce(rows, axis=0), for a ufunc whose result does not depend on the order."""
    n, d = rows.shape
    # Short lines are reduced slowly; here many rows are side by side in a line.
    side = max(1, _LINE // max(d, 1))
    lines = rows[: n - n % side].reshape(-1, side * d)
    if not len(lines):
        return np.asarray(reduce.reduce(rows, axis=0))
    rest = rows[n - n % side :]
    return np.asarray(
        reduce.reduce(np.concatenate([reduce.reduce(lines, axis=0).reshape(-1, d), rest]), axis=0)
    )


def plan_batches(
    chunks: Chunks, rows: int = BATCH_ROWS
) -> list[tuple[int, int, slice[int, int, int]]]:
    """Return ranges of chunks, first and last, with their rows: at most about that many each.

    >>> plan_batches(plan_chunks(np.array([0, 9000, 9002])))
    [(0, 3, slice(0, 9002, None))]
    """
    batches, first = [], 0
    while first < len(chunks.owner):
        start = int(chunks.start[first])
        last = int(np.searchsorted(chunks.stop, start + rows, side="right"))
        last = max(first + 1, last)
        batches.append((first, last, slice(start, int(chunks.stop[last - 1]))))
        first = last
    return batches


def hash_rows(rows: AnyRows) -> NDArray[np.uint64]:
    """Return a hash of each row's values, (N,); rows that are equal have the same.

    >>> len(set(hash_rows(np.array([[1.0], [2.0], [1.0]])).tolist()))
    2
    """
    code = np.empty(len(rows), np.uint64)
    if isinstance(rows, SparseRows):
        csc = rows.csr.tocsc()
        kernels.sparse_hashes(csc.data, csc.indices, csc.indptr, code)
    else:
        kernels.hashes(rows, code)
    return code


def distinct_rows(rows: AnyRows, offsets: Ints, weights: Array) -> tuple[Ints, Array, Ints]:
    """Return (indices, total weights, offsets) of the distinct rows of each user.

    The index is that of one of the equal rows. Within a user they are ordered by a hash of their
    values.

    >>> distinct_rows(np.array([[1.0], [1.0], [1.0]]), np.array([0, 2, 3]), np.ones(3))
    (array([0, 2]), array([2., 1.]), array([0, 1, 2]))
    """
    m = len(offsets) - 1
    code = hash_rows(rows)
    owner = np.repeat(np.arange(m), np.diff(offsets))
    order = np.lexsort((code, owner))
    code, owner = code[order], owner[order]
    new = np.ones(len(order), bool)
    new[1:] = (code[1:] != code[:-1]) | (owner[1:] != owner[:-1])
    starts = np.flatnonzero(new)
    total = np.add.reduceat(weights[order], starts) if len(order) else np.empty(0)
    return order[starts], total, np.searchsorted(owner[starts], np.arange(m + 1))
