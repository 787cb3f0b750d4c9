"""What a block of users remembers from one assignment to the next, to read only a few rows again.

How long a row's label holds is told by how far centers have gone (see `kernels.drifts`). Users with
many rows in few dimensions have them sorted into boxes of nearby rows, which are skipped as a whole
(`BoxAssigner`, `kernels.boxes`); the rows of others stay where they are (`BoundedAssigner`,
`kernels.remembered`). Users with a handful of rows remember nothing (`SmallUsersAssigner`): to read them again
costs less.

Labels are those of a full assignment, always. Sums over labels are kept to twice the precision of a
number (see `kernels.exact`), so that they are those of a fresh sum but for a last bit now and then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.kernels.exact_sums import no_sums
from peerclust.kernels.threads import parallel_for
from peerclust.types import Array, Ints
from peerclust.users.assigners import Assigner, Data, FullAssigner, SmallUsersAssigner
from peerclust.users.boxes import find_layout
from peerclust.users.chunks import plan_tasks

# Users with fewer rows remember nothing.
MIN_ROWS_CACHED = 16
# Boxes pay with at least so many rows a user, and at most so many features.
MIN_ROWS_BOXED = 512
FEW_FEATURES = 8
# From so many features on, a bound for each row and center saves more than it costs.
MANY_FEATURES = 16


class CachedAssigner(Assigner):
    """The ways of the centers of the users `members`, and sums that rows enter and leave."""

    changed: Ints
    rows_scanned: Ints

    def __init__(self, data: Data, owner: Ints, K: int, members: Ints) -> None:
        kept = no_sums(len(owner), K, data.d)
        others = no_sums(len(owner) if data.varies else 0, K, data.d)
        super().__init__(data, owner, [kept, others] if data.varies else [kept])
        self._others = others
        self.members = members
        self.changed, self.rows_scanned = np.zeros((2, len(owner)), np.int64)
        self._begins = True
        m = len(data.offsets) - 1
        self._z = np.empty((m, K, data.d))
        self._gone, self._drift, self._clock = np.zeros((m, K)), np.zeros((m, K)), np.zeros(m)
        # What tells whether a sum is to be added up anew, see `kernels.exact`.
        few, many = (len(owner), K), (len(owner), K, data.d)
        self._marks = (
            np.zeros(few), np.zeros(few, np.bool_), np.zeros(many), np.zeros(many, np.bool_)
        )  # fmt: skip

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
        return float(
            self.rows_scanned.sum() * z[0].size + each + (rows * d if self._data.varies else 0)
        )


class BoundedAssigner(CachedAssigner):
    """Rows in their own order, with an expiry each and, of many features, a bound a center."""

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        owner, start, stop = plan_tasks(data.offsets, members)
        super().__init__(data, owner, K, members)
        self._ends = np.cumsum(stop - start)
        rows = int(self._ends[-1])
        self._tasks = owner, start, stop, self._ends - (stop - start)
        self._kept = np.zeros(rows if data.gamma_is_constant else 0, np.bool_)
        self._expiry = np.empty(rows)
        bounded = data.d >= MANY_FEATURES and K > 1
        self._bounds = np.empty((rows, K) if bounded else (0, K), np.float32)

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z."""
        data = self._data
        self._follow(z)

        def loop(first: int, last: int) -> None:
            kernels.assign_bounded(
                data.rows, data.weights, data.unit, *self._tasks, first, last, z, self._gone,
                self._drift, data.code, data.parameter, self._begins, labels, self._kept,
                self._expiry, self._bounds, self.sums[0], self._marks, self._others, self.changed,
                self.rows_scanned,
            )  # fmt: skip

        parallel_for(loop, self._ends, self._work(z, int(self._ends[-1])))
        self._begins = False


class BoxAssigner(CachedAssigner):
    """Rows sorted into boxes, in a copy."""

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        self._layout = find_layout(data, members)
        super().__init__(data, self._layout.owner, K, members)
        self._ends = np.cumsum(self._layout.stop - self._layout.start)
        rows, boxes = len(self._layout.order), len(self._layout.mid)
        self._labels = np.empty(rows, np.int32)
        self._kept = np.zeros(rows if data.gamma_is_constant else 0, np.bool_)
        self._expiry = np.empty(rows)
        self._due, self._common = np.empty(boxes), np.full(boxes, -1, np.int32)
        self._fresh = np.diff(self._layout.begin).astype(np.int32) * np.int32(data.varies)

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z; labels are read the first time, and written by `write`."""
        data, at = self._data, self._layout
        self._follow(z)
        if self._begins:
            kernels.take(labels, at.order, self._labels)

        def loop(first: int, last: int) -> None:
            kernels.assign_boxes(
                at.tiles, at.weights, data.unit, at.begin, at.mid, at.half,
                at.owner, at.start, at.stop, first, last, z, self._clock, data.code,
                data.parameter, self._begins, self._labels, self._kept, self._expiry, self._due,
                self._common, self._fresh, self.sums[0], self._marks, self._others,
                self.changed, self.rows_scanned,
            )  # fmt: skip

        parallel_for(loop, self._ends, self._work(z, len(self._due)))
        self._begins = False

    def write(self, labels: NDArray[np.int32]) -> None:
        """Write the labels where their rows are."""
        kernels.scatter(self._labels, self._layout.order, labels)


def begin(data: Data, K: int) -> list[Assigner]:
    """Give the users what reads all rows, for an assignment that may be the only one."""
    few = data.sizes < MIN_ROWS_CACHED
    return _plan(data, K, (SmallUsersAssigner, few), (FullAssigner, ~few))


def remember(data: Data, K: int) -> list[Assigner]:
    """Give each user the memory that suits it."""
    sizes = data.sizes
    few = sizes < MIN_ROWS_CACHED
    boxed = ~few & (sizes >= MIN_ROWS_BOXED) & (data.d <= FEW_FEATURES)
    return _plan(
        data, K, (SmallUsersAssigner, few), (BoundedAssigner, ~few & ~boxed), (BoxAssigner, boxed)
    )


def _plan(data: Data, K: int, *kinds: tuple[Any, NDArray[np.bool_]]) -> list[Assigner]:
    return [kind(data, np.flatnonzero(of), K) for kind, of in kinds if of.any()]
