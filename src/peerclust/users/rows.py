"""The rows of a block of users: their chunks (see `kernels`), sums by user, and distinct rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Ints, Rows
from peerclust.kernels import Chunks

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


def plan_batches(chunks: Chunks) -> list[tuple[int, int, slice[int, int, int]]]:
    """Return ranges of chunks, first and last, with their rows: at most about BATCH_ROWS each.

    >>> plan_batches(plan_chunks(np.array([0, 9000, 9002])))
    [(0, 3, slice(0, 9002, None))]
    """
    batches, first = [], 0
    while first < len(chunks.owner):
        start = int(chunks.start[first])
        last = int(np.searchsorted(chunks.stop, start + BATCH_ROWS, side="right"))
        last = max(first + 1, last)
        batches.append((first, last, slice(start, int(chunks.stop[last - 1]))))
        first = last
    return batches


def distinct_rows(rows: Rows, offsets: Ints, weights: Array) -> tuple[Ints, Array, Ints]:
    """Return (indices, total weights, offsets) of the distinct rows of each user.

    The index is that of one of the equal rows. Within a user they are ordered by a hash of their
    values.

    >>> distinct_rows(np.array([[1.0], [1.0], [1.0]]), np.array([0, 2, 3]), np.ones(3))
    (array([0, 2]), array([2., 1.]), array([0, 1, 2]))
    """
    m = len(offsets) - 1
    code = np.empty(len(rows), np.uint64)
    kernels.hashes(rows, code)
    owner = np.repeat(np.arange(m), np.diff(offsets))
    order = np.lexsort((code, owner))
    code, owner = code[order], owner[order]
    new = np.ones(len(order), bool)
    new[1:] = (code[1:] != code[:-1]) | (owner[1:] != owner[:-1])
    starts = np.flatnonzero(new)
    total = np.add.reduceat(weights[order], starts) if len(order) else np.empty(0)
    return order[starts], total, np.searchsorted(owner[starts], np.arange(m + 1))
