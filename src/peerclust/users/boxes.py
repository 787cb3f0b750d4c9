"""A copy of the rows, sorted into boxes of nearby rows.

The boxes are the leaves of a kd-tree, as in Pelleg and Moore (1999) and Kanungo et al. (2002), who
skip the rows of a node together; see `kernels.boxes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Ints
from peerclust.kernels.threads import parallel_for
from peerclust.users.assigners import Data
from peerclust.users.chunks import plan_chunks

# The most rows that are sorted by one thread.
_BATCH = 1 << 18


@dataclass(frozen=True, eq=False)
class Layout:
    """The sorted rows of the users `members`, and their boxes.

    Attributes
    ----------
    order : (n,) int array
        The original index of each row.
    tiles : (n d,) array
        The rows box by box, each box transposed, (d, rows of the box).
    weights : (n,) array
        Their weights, in the same order; empty if all are the same.
    begin : (boxes + 1,) int array
        The first row of each box.
    mid, half : (boxes, d) arrays
        The middle of each box, and half its width.
    owner, start, stop : (chunks,) int arrays
        The user of each chunk, its first box, and the end of its boxes.
    """

    members: Ints
    order: NDArray[Any]
    tiles: NDArray[Any]
    weights: Array
    begin: Ints
    mid: Array
    half: Array
    owner: Ints
    start: Ints
    stop: Ints


def find_layout(data: Data, members: Ints) -> Layout:
    """Return the layout of these users; it depends on the rows only and is made once."""
    known: list[Layout] = data.layouts
    if not known or not np.array_equal(known[0].members, members):
        known[:] = [_make(data, members)]
    return known[0]


def _make(data: Data, members: Ints) -> Layout:
    sizes = data.sizes[members]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows, order = _sort(data, members, offsets)
    weights = np.empty(len(order) if data.weights.size else 0)
    kernels.take(data.weights, order[: len(weights)], weights)
    # Boxes start at each user's first row, and chunks at its first box.
    boxes = -(-sizes // kernels.TILE)
    firsts = np.concatenate([[0], np.cumsum(boxes)])
    inside = np.arange(firsts[-1]) - np.repeat(firsts[:-1], boxes)
    begin = np.append(np.repeat(offsets[:-1], boxes) + inside * kernels.TILE, offsets[-1])
    length = max(1, kernels.CHUNK_ROWS // kernels.TILE)
    owner, start, stop = plan_chunks(firsts, length=length)
    tiles, (mid, half) = rows.reshape(-1), np.empty((2, len(inside), data.d))

    def loop(first: int, last: int) -> None:
        kernels.transpose_boxes(tiles, begin, first, last, mid, half)

    parallel_for(loop, len(inside), tiles.size)
    return Layout(members, order, tiles, weights, begin, mid, half, members[owner], start, stop)


def _sort(data: Data, members: Ints, offsets: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a copy of the members' rows, sorted so that boxes are small, and their indices."""
    kind = np.int32 if len(data.rows) <= np.iinfo(np.int32).max else np.int64
    parts = [np.arange(data.offsets[i], data.offsets[i + 1], dtype=kind) for i in members]
    order = np.concatenate(parts)
    rows = data.rows.copy() if len(order) == len(data.rows) else data.rows[order]
    todo = list(pairwise(offsets.tolist()))
    ranges = []
    while todo:
        first, last = todo.pop()
        middle = kernels.split_median(rows, order, first, last) if last - first > _BATCH else last
        if middle < last:
            todo += [(first, middle), (middle, last)]
        else:
            ranges.append((first, last))
    start, stop = np.array(sorted(ranges)).T.copy()

    def loop(first: int, last: int) -> None:
        kernels.sort_into_boxes(rows, order, start, stop, first, last)

    parallel_for(loop, stop, 10.0 * rows.size)
    return rows, order
