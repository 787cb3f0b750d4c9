"""Sorting rows into boxes of nearby rows, and the memory layout of boxes (see `boxes`).

The boxes are the leaves of a kd-tree with median splits; the tree itself is not stored. Pelleg and
Moore (1999) and Kanungo et al. (2002) sort the rows of K-means into kd-trees; see `boxes`.
"""

from __future__ import annotations

import numpy as np

from peerclust.kernels.center_drift import EPS
from peerclust.kernels.compiling import compiled
from peerclust.kernels.distances import TILE

# Sample size from which the pivot of a selection is chosen.
SAMPLE = 31


@compiled(nogil=True)
def _select(rows, order, first, middle, last, j):
    """Move the rows with the least feature j before `middle`, among rows first to last.

    This is Hoare's selection (1961), with the pivot from a sample as in Floyd and Rivest (1975).
    """
    d = rows.shape[1]
    sample = np.empty(SAMPLE, rows.dtype)
    seed = np.uint64(88172645463325252)
    low, high = first, last - 1
    while low < high:
        # The pivot: a random row; among many rows, the one of a sample at the rank of `middle`.
        size = SAMPLE if high - low > 16 * SAMPLE else 1
        for s in range(size):
            seed ^= seed << np.uint64(13)
            seed ^= seed >> np.uint64(7)
            seed ^= seed << np.uint64(17)
            value = rows[low + np.int64(seed % np.uint64(high - low + 1)), j]
            p = s
            while p > 0 and sample[p - 1] > value:
                sample[p] = sample[p - 1]
                p -= 1
            sample[p] = value
        pivot = sample[(middle - low) * size // (high - low + 1)]
        a, b = low, high
        while a <= b:
            while rows[a, j] < pivot:
                a += 1
            while rows[b, j] > pivot:
                b -= 1
            if a <= b:
                for e in range(d):
                    rows[a, e], rows[b, e] = rows[b, e], rows[a, e]
                order[a], order[b] = order[b], order[a]
                a += 1
                b -= 1
        if middle <= b:
            high = b
        elif middle >= a:
            low = a
        else:
            return


@compiled(inline="always")
def _widest(rows, first, last, low, high):
    """Return the feature with the largest range over rows first to last, and that range."""
    low[:], high[:] = np.inf, -np.inf
    for row in range(first, last):
        for j in range(low.size):
            low[j] = min(low[j], rows[row, j])
            high[j] = max(high[j], rows[row, j])
    widest = 0
    for j in range(low.size):
        widest = j if high[j] - low[j] > high[widest] - low[widest] else widest
    return widest, high[widest] - low[widest]


@compiled(nogil=True)
def split_median(rows, order, first, last):
    """Partition rows first to last, and `order` with them, in two halves; return where they meet.

    They are split along the feature with the largest range, at a multiple of `TILE` from the
    first. Return `last` if they cannot be split.
    """
    if last - first <= TILE:
        return last
    low, high = np.empty(rows.shape[1]), np.empty(rows.shape[1])
    j, width = _widest(rows, first, last, low, high)
    middle = first + ((last - first) // TILE + 1) // 2 * TILE
    if not width > 0.0:
        return last
    _select(rows, order, first, middle, last, j)
    return middle


@compiled(nogil=True)
def sort_into_boxes(first, last, rows, order, start, stop):
    """Split ranges first to last, each of rows start to stop, until only boxes are left."""
    todo = np.empty((128, 2), np.int64)
    for s in range(first, last):
        todo[0] = start[s], stop[s]
        waiting = 1
        while waiting > 0:
            a, b = todo[waiting - 1]
            middle = split_median(rows, order, a, b)
            waiting -= 1
            if middle < b:
                todo[waiting] = a, middle
                todo[waiting + 1] = middle, b
                waiting += 2


@compiled(nogil=True)
def transpose_boxes(first, last, rows, begin, mid, half):
    """Transpose each box of rows, (n, d), to (d, n) in place; compute its middle and half width.

    `rows` is the flat array of all rows, (N d,).
    """
    d = mid.shape[1]
    tile = np.empty((TILE, d), rows.dtype)
    for b in range(first, last):
        n = begin[b + 1] - begin[b]
        for r in range(n):
            for j in range(d):
                tile[r, j] = rows[(begin[b] + r) * d + j]
        for j in range(d):
            low, high = np.float64(tile[0, j]), np.float64(tile[0, j])
            at = begin[b] * d + j * n
            for r in range(n):
                rows[at + r] = tile[r, j]
                low, high = min(low, tile[r, j]), max(high, tile[r, j])
            mid[b, j] = 0.5 * low + 0.5 * high
            # Rounded up, so that no row is outside the box.
            half[b, j] = max(high - mid[b, j], mid[b, j] - low) * (1.0 + 2.0 * EPS)
