"""Sorting rows into boxes of nearby rows, and the memory layout of boxes (see `boxes`).

The boxes are the leaves of a kd-tree with median splits; the tree itself is not stored. Pelleg and
Moore (1999) and Kanungo et al. (2002) sort the rows of K-means into kd-trees; see `boxes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from peerclust.kernels.constants import SAMPLE, TILE
from peerclust.kernels.loops.compiling import compiled, inner


@inner()
def _select(rows, order, first, middle, last, j, sample):
    """Move the rows with the least feature j before `middle`, among rows first to last.

    This is Hoare's selection (1961), with the pivot from a sample as in Floyd and Rivest (1975).
    """
    d = rows.shape[1]
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
                    kept = rows[a, e]
                    rows[a, e] = rows[b, e]
                    rows[b, e] = kept
                place = order[a]
                order[a] = order[b]
                order[b] = place
                a += 1
                b -= 1
        if middle <= b:
            high = b
        elif middle >= a:
            low = a
        else:
            return


@compiled()
def split_median(rows, order, first, last, scratch):
    """Partition rows first to last, and `order` with them, in two halves; return where they meet.

    They are split along the feature with the largest range, at a multiple of `TILE` from the
    first. Return `last` if they cannot be split.
    """
    low, high, sample, _ = scratch
    if last - first <= TILE:
        return last
    for j in range(low.size):
        low[j], high[j] = np.inf, -np.inf
    for row in range(first, last):
        for j in range(low.size):
            low[j] = min(low[j], rows[row, j])
            high[j] = max(high[j], rows[row, j])
    # Not a literal, for which `_select` would be compiled once more.
    widest: Any = np.int64(0)
    width = 0.0
    for j in range(low.size):
        if high[j] - low[j] > width:
            widest, width = j, high[j] - low[j]
    if not width > 0.0:
        return last
    middle = first + ((last - first) // TILE + 1) // 2 * TILE
    _select(rows, order, first, middle, last, widest, sample)
    return middle


@compiled()
def sort_into_boxes(first, last, rows, order, start, stop, scratch):
    """Split ranges first to last, each of rows start to stop, until only boxes are left."""
    todo = scratch[3]
    for s in range(first, last):
        todo[0], todo[1] = start[s], stop[s]
        waiting = 2
        while waiting > 0:
            a, b = todo[waiting - 2], todo[waiting - 1]
            middle = split_median(rows, order, a, b, scratch)
            waiting -= 2
            if middle < b:
                todo[waiting], todo[waiting + 1] = a, middle
                todo[waiting + 2], todo[waiting + 3] = middle, b
                waiting += 4
