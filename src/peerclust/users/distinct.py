"""The distinct rows of each user, in an order that depends on their values only."""

from __future__ import annotations

import numpy as np

from peerclust import kernels
from peerclust.arrays import Array, Ints, Rows


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
