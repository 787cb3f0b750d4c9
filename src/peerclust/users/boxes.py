"""A copy of the rows, sorted into boxes of nearby rows.

The boxes are the leaves of a kd-tree, as in Pelleg and Moore (1999) and Kanungo et al. (2002), who
skip the rows of a node together; see `kernels.boxes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Ints, Rows
from peerclust.kernels import Boxes, Chunks, RowData
from peerclust.kernels.threads import parallel_for
from peerclust.users.rows import plan_chunks

# The first few splits are made one after the other, the parts are sorted by several threads.
_PARTS = 8


@dataclass(frozen=True, eq=False)
class BoxLayout:
    """The sorted rows of some users, and their boxes.

    Attributes
    ----------
    order : (n,) int array
        The original index of each row.
    row_data : RowData
        The rows box by box, each box transposed, (d, rows of the box); weights in the same order.
    boxes : Boxes
        The first row of each box, its middle, and half its width.
    chunks : Chunks
        The user of each chunk, its first box, and the end of its boxes.
    """

    order: NDArray[np.int32] | Ints
    row_data: RowData
    boxes: Boxes
    chunks: Chunks


def sort_rows(data: RowData, offsets: Ints, members: Ints) -> BoxLayout:
    """Return the layout of the users `members`; user i has rows offsets[i] to offsets[i + 1]."""
    sizes, d = np.diff(offsets)[members], data.rows.shape[1]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    rows, order = _sort(data.rows, offsets, members, ends)
    weights = data.weights[order] if data.weights.size else data.weights
    # Boxes start at each user's first row, and chunks at its first box.
    boxes = -(-sizes // kernels.TILE)
    firsts = np.concatenate([[0], np.cumsum(boxes)])
    inside = np.arange(firsts[-1]) - np.repeat(firsts[:-1], boxes)
    begin = np.append(np.repeat(ends[:-1], boxes) + inside * kernels.TILE, ends[-1])
    length = max(1, kernels.CHUNK_ROWS // kernels.TILE)
    owner, start, stop = plan_chunks(firsts, length=length)
    mid, half = np.empty((2, len(inside), d))
    kernels.transpose_boxes(rows, begin, mid, half)
    return BoxLayout(
        order,
        data._replace(rows=rows.reshape(-1), weights=weights),
        Boxes(begin, mid, half),
        Chunks(members[owner], start, stop),
    )


def _sort(
    unsorted: Rows, offsets: Ints, members: Ints, ends: Ints
) -> tuple[Rows, NDArray[np.int32] | Ints]:
    """Return a copy of the members' rows, sorted so that boxes are small, and their indices."""
    kind = np.int32 if len(unsorted) <= np.iinfo(np.int32).max else np.int64
    order = np.concatenate([np.arange(offsets[i], offsets[i + 1], dtype=kind) for i in members])
    rows = unsorted.copy() if len(order) == len(unsorted) else unsorted[order]
    todo = list(pairwise(ends.tolist()))
    ranges, batch = [], max(len(order) // _PARTS, kernels.TILE)
    while todo:
        first, last = todo.pop()
        middle = kernels.split_median(rows, order, first, last) if last - first > batch else last
        if middle < last:
            todo += [(first, middle), (middle, last)]
        else:
            ranges.append((first, last))
    start, stop = np.array(sorted(ranges)).T.copy()
    parallel_for(kernels.sort_into_boxes, stop, 10.0 * rows.size, rows, order, start, stop)
    return rows, order
