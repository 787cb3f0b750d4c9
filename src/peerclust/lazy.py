"""What a block of users remembers from one assignment to the next, to read only a few rows again.

How long a row's label holds is told by how far centers have gone (see `kernels.drifts`). Users with
many rows in few dimensions have them sorted into boxes of nearby rows, which are skipped as a whole
(`Boxes`, `kernels.boxes`); the rows of others stay where they are (`InPlace`,
`kernels.remembered`). Users with a handful of rows remember nothing (`Anew`): to read them again
costs less.

Labels are those of a full assignment, always, and the sums over labels are exact but for one
rounding (see `kernels.exact`), however many rounds they have been kept.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.assigning import Anew, Array, Data, Few, Ints, Part, no_sums
from peerclust.tasks import plan_tasks
from peerclust.threads import spread

# Users with fewer rows remember nothing.
WORTH_REMEMBERING = 16
# Boxes pay with at least so many rows a user, and at most so many features.
WORTH_BOXES = 512
FEW_FEATURES = 8
# From so many features on, a bound for each row and center saves more than it costs.
MANY_FEATURES = 16
# Stretches of rows that are sorted by one thread.
_STRETCH = 1 << 18


class _Memory(Part):
    """The ways of the centers of the users `members`, and sums that rows enter and leave."""

    changed: Ints
    looked: Ints

    def __init__(self, data: Data, owner: Ints, K: int, members: Ints) -> None:
        kept = no_sums(len(owner), K, data.d)
        others = no_sums(len(owner) if data.varies else 0, K, data.d)
        super().__init__(data, owner, [kept, others] if data.varies else [kept])
        self._others = others
        self.members = members
        self.changed, self.looked = np.zeros((2, len(owner)), np.int64)
        self._begins = True
        m = len(data.offsets) - 1
        self._z = np.empty((m, K, data.d))
        self._gone, self._drift, self._clock = np.zeros((m, K)), np.zeros((m, K)), np.zeros(m)
        self._peak = np.zeros((len(owner), K))

    def _follow(self, z: Array) -> None:
        """Add up how far the centers went to z."""
        if self._begins:
            self._z[self.members] = z[self.members]
        else:
            kernels.add_drifts(z, self._z, self.members, self._gone, self._drift, self._clock)

    def _work(self, z: Array, each: int) -> float:
        """Estimate the work: as much as last time, and what is read in any case."""
        rows, d = self._data.rows.shape
        if self._begins:
            return float(rows * z[0].size)
        return float(self.looked.sum() * z[0].size + each + (rows * d if self._data.varies else 0))


class InPlace(_Memory):
    """Rows in their own order, with an expiry each and, of many features, a bound a center."""

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        owner, start, stop = plan_tasks(data.offsets, members)
        super().__init__(data, owner, K, members)
        self._ends = np.cumsum(stop - start)
        rows = int(self._ends[-1])
        self._tasks = owner, start, stop, self._ends - (stop - start)
        self._kept = np.zeros(rows if data.stays else 0, np.bool_)
        self._expiry = np.empty(rows)
        bounded = data.d >= MANY_FEATURES and K > 1
        self._bounds = np.empty((rows, K) if bounded else (0, K), np.float32)

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z."""
        data = self._data
        self._follow(z)

        def loop(first: int, last: int) -> None:
            kernels.assign_remembered(
                data.rows, data.weights, data.unit, *self._tasks, first, last, z, self._gone,
                self._drift, data.code, data.parameter, self._begins, labels, self._kept,
                self._expiry, self._bounds, self.sums[0], self._peak, self._others, self.changed,
                self.looked,
            )  # fmt: skip

        spread(loop, self._ends, self._work(z, int(self._ends[-1])))
        self._begins = False


class Boxes(_Memory):
    """Rows sorted into boxes, in a copy."""

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        sizes, d = data.sizes[members], data.d
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows, self._order = _sort(data, members, offsets)
        self._tiles = rows.reshape(-1)
        self._weights = np.empty(len(self._order) if data.weights.size else 0)
        kernels.take(data.weights, self._order[: len(self._weights)], self._weights)
        # Boxes are counted from each user's first row on, and tasks from its first box.
        boxes = -(-sizes // kernels.TILE)
        box_offsets = np.concatenate([[0], np.cumsum(boxes)])
        inside = np.arange(box_offsets[-1]) - np.repeat(box_offsets[:-1], boxes)
        self._begin = np.append(np.repeat(offsets[:-1], boxes) + inside * kernels.TILE, offsets[-1])
        box_owner, start, stop = plan_tasks(
            box_offsets, np.arange(len(members)), max(1, kernels.SEGMENT // kernels.TILE)
        )
        super().__init__(data, members[box_owner], K, members)
        self._tasks = self.owner, start, stop
        self._ends = np.cumsum(stop - start)
        count, n = len(inside), len(self._order)
        self._mid, self._half = np.empty((2, count, d))
        spread(
            lambda first, last: kernels.lay_out(
                self._tiles, self._begin, first, last, self._mid, self._half
            ),
            count, self._tiles.size,
        )  # fmt: skip
        self._labels = np.empty(n, np.int32)
        self._kept = np.zeros(n if data.stays else 0, np.bool_)
        self._expiry = np.empty(n)
        self._due, self._common = np.empty(count), np.full(count, -1, np.int32)
        self._fresh = np.diff(self._begin).astype(np.int32) * np.int32(data.varies)

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z; labels are read the first time, and written by `write`."""
        data = self._data
        self._follow(z)
        if self._begins:
            kernels.take(labels, self._order, self._labels)

        def loop(first: int, last: int) -> None:
            kernels.assign_boxes(
                self._tiles, self._weights, data.unit, self._begin, self._mid,
                self._half, *self._tasks, first, last, z, self._clock, data.code, data.parameter,
                self._begins, self._labels, self._kept, self._expiry, self._due, self._common,
                self._fresh, self.sums[0], self._peak, self._others, self.changed, self.looked,
            )  # fmt: skip

        spread(loop, self._ends, self._work(z, len(self._due)))
        self._begins = False

    def write(self, labels: NDArray[np.int32]) -> None:
        """Write the labels where their rows are."""
        kernels.put(self._labels, self._order, labels)


def _sort(data: Data, members: Ints, offsets: Ints) -> tuple[NDArray[Any], NDArray[Any]]:
    """Give a copy of the members' rows, sorted so that boxes are small, and where they were."""
    kind = np.int32 if len(data.rows) <= np.iinfo(np.int32).max else np.int64
    parts = [np.arange(data.offsets[i], data.offsets[i + 1], dtype=kind) for i in members]
    order = np.concatenate(parts)
    rows = data.rows.copy() if len(order) == len(data.rows) else data.rows[order]
    todo = list(pairwise(offsets.tolist()))
    stretches = []
    while todo:
        first, last = todo.pop()
        middle = kernels.halve(rows, order, first, last) if last - first > _STRETCH else last
        if middle < last:
            todo += [(first, middle), (middle, last)]
        else:
            stretches.append((first, last))
    start, stop = np.array(sorted(stretches)).T.copy()
    levels = np.log2(np.maximum(stop - start, 2))
    spread(
        lambda first, last: kernels.sort_into_boxes(rows, order, start, stop, first, last),
        stop, float((rows.size) * levels.max()),
    )  # fmt: skip
    return rows, order


def begin(data: Data, K: int) -> list[Part]:
    """Give the users what reads all rows, for an assignment that may be the only one."""
    few = data.sizes < WORTH_REMEMBERING
    return _plan(data, K, (Few, few), (Anew, ~few))


def remember(data: Data, K: int) -> list[Part]:
    """Give each user the memory that suits it."""
    sizes = data.sizes
    few = sizes < WORTH_REMEMBERING
    boxed = ~few & (sizes >= WORTH_BOXES) & (data.d <= FEW_FEATURES)
    return _plan(data, K, (Few, few), (InPlace, ~few & ~boxed), (Boxes, boxed))


def _plan(data: Data, K: int, *kinds: tuple[Any, NDArray[np.bool_]]) -> list[Part]:
    return [kind(data, np.flatnonzero(of), K) for kind, of in kinds if of.any()]
