"""The memory layout of boxes (see `loops.boxes`)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from peerclust.arrays import Array, Ints, Rows
from peerclust.kernels.constants import EPS


def transpose_boxes(rows: Rows, begin: Ints, mid: Array, half: Array) -> None:
    """Transpose each box of rows, (n, d), to (d, n) in place; compute its middle and half width.

    `rows` are sorted, (N, d); box b has rows begin[b] to begin[b + 1].
    """
    d, sizes = rows.shape[1], np.diff(begin)
    flat = rows.reshape(-1)
    # Boxes of one size that follow each other are transposed together, some at a time.
    cuts = np.flatnonzero(sizes[1:] != sizes[:-1]) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(sizes)]):
        for a in range(first, last, 1024):
            b = min(a + 1024, last)
            here = rows[begin[a] : begin[b]].reshape(b - a, -1, d)
            here = np.ascontiguousarray(here.transpose(0, 2, 1))
            low, high = here.min(axis=2).astype(np.float64), here.max(axis=2).astype(np.float64)
            mid[a:b] = 0.5 * low + 0.5 * high
            # Rounded up, so that no row is outside the box.
            half[a:b] = np.maximum(high - mid[a:b], mid[a:b] - low) * (1.0 + 2.0 * EPS)
            flat[begin[a] * d : begin[b] * d] = here.reshape(-1)
