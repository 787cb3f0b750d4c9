"""Assigners that read every row each time, and their base class; `cached` has those that cache.

Users with a handful of rows each, of which there may be millions, have an assigner of their own.
`Data` is what assigners work on, and says of which kind a user is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Ints
from peerclust.kernels import RowData, SmallUsers
from peerclust.kernels.exact_sums import Sums, no_sums
from peerclust.kernels.threads import parallel_for
from peerclust.users.boxes import BoxLayout, sort_rows
from peerclust.users.rows import plan_chunks

# For users with fewer rows nothing is cached.
MIN_ROWS_CACHED = 16
# Boxes (Pelleg and Moore 1999, Kanungo et al. 2002) are worth it from this many rows per user on,
# and up to this many features.
MIN_ROWS_BOXED = 512
FEW_FEATURES = 8
# From this many features on, a bound per row and center (Elkan 2003) saves more than it costs.
MANY_FEATURES = 16
# Work is counted in rows x centers x features. Adding a row to a sum costs this much per feature.
SUM_WORK = 8.0
# Up to this many features, the loop over small users is compiled for each number of features.
_MAX_UNROLLED = 4


@dataclass(eq=False)
class Data:
    """The rows of a block of users, in coordinates where distance is Euclidean.

    User i has rows offsets[i] to offsets[i + 1]. `spent` is the work of all assignments so far that
    read every row, and `asked_at` what it was when `cached.caching_pays` last looked.
    """

    row_data: RowData
    offsets: Ints
    spent: float = 0.0
    asked_at: float = 0.0
    # Of all blocks of this process.
    spent_by_all: ClassVar[float] = 0.0

    @cached_property
    def of_loops(self) -> tuple[object, ...]:
        """The row data as arguments of loops, with the parameter None if gamma is always 1."""
        data = self.row_data
        return (*data[:4], None if data.code == kernels.KMEANS else data.parameter)

    @cached_property
    def m(self) -> int:
        """The number of users."""
        return len(self.offsets) - 1

    @cached_property
    def d(self) -> int:
        """The number of features."""
        return int(self.row_data.rows.shape[1])

    @property
    def varies(self) -> bool:
        """Whether the gamma of a row may change while its label does not."""
        return self.row_data.code in kernels.VARYING

    @property
    def mixed_gamma(self) -> bool:
        """Whether gamma is constant for some rows and varies for others."""
        return self.row_data.code in kernels.MIXED

    @cached_property
    def sizes(self) -> Ints:
        """The number of rows of each user."""
        return np.diff(self.offsets)

    @cached_property
    def small(self) -> NDArray[np.bool_]:
        """Whether each user has a handful of rows only."""
        return self.sizes < MIN_ROWS_CACHED

    @property
    def boxed(self) -> NDArray[np.bool_]:
        """Whether each user's rows are worth sorting into boxes."""
        return ~self.small & (self.sizes >= MIN_ROWS_BOXED) & (self.d <= FEW_FEATURES)

    @property
    def bounded(self) -> bool:
        """Whether a bound per row and center is worth it."""
        return self.d >= MANY_FEATURES

    @property
    def has_layout(self) -> bool:
        """Whether the rows have been sorted into boxes."""
        return "box_layout" in vars(self)

    @cached_property
    def box_layout(self) -> BoxLayout:
        """A sorted copy of the boxed users' rows."""
        return sort_rows(self.row_data, self.offsets, np.flatnonzero(self.boxed))


class Assigner:
    """Assigns some of the users of a block, in chunks.

    Attributes
    ----------
    owner : (chunks,) int array
        The user of each chunk.
    sums : list of Sums
        Their total is the sum over all rows of each chunk.
    changed, rows_scanned : int or (chunks,) int arrays
        How many labels changed, and how many rows were measured, in the last assignment. They are
        new objects after each assignment and are not written to again.
    """

    changed: Ints | int = 0
    rows_scanned: Ints | int = 0
    # Whether labels are kept in another order, and so must be written when they are asked for.
    keeps_labels = False

    def __init__(self, data: Data, owner: Ints, sums: list[Sums]) -> None:
        self._data, self.owner, self.sums = data, owner, sums

    @cached_property
    def all_once(self) -> bool:
        """Whether each user has exactly one chunk, so that its sums are the user's."""
        return np.array_equal(self.owner, np.arange(self._data.m))

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z, (m, K, d); `labels` are the last ones and may be written to."""
        raise NotImplementedError

    def write(self, labels: NDArray[np.int32]) -> None:
        """Write the labels, if it `keeps_labels`; else `assign` has."""

    def sum(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Compute the sums, if `assign` has not; z and labels are those of the last `assign`."""


def sum_by_user(assigners: Sequence[Assigner], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the sums of w gamma and w gamma y by user, (m, K) and (m, K, d)."""
    if len(assigners) == 1 and len(assigners[0].sums) == 1 and assigners[0].all_once:
        return assigners[0].sums[0].hi0, assigners[0].sums[0].hi1
    total = no_sums(*shape)
    for assigner in assigners:
        for sums in assigner.sums if len(assigner.owner) else ():
            for pair in (slice(0, 2), slice(2, 4)):
                flat = [each.reshape(len(each), -1) for each in (*sums[pair], *total[pair])]
                kernels.exact_by_user(assigner.owner, *flat)
    return total.hi0, total.hi1


class FullAssigner(Assigner):
    """Reads every row each time."""

    changed: Ints
    rows_scanned: Ints

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        chunks = plan_chunks(data.offsets, members)
        super().__init__(data, chunks.owner, [no_sums(len(chunks.owner), K, data.d)])
        self._rows = data.of_loops, tuple(chunks)
        # All rows, in every assignment.
        self.rows_scanned = chunks.stop - chunks.start
        self._ends = np.cumsum(self.rows_scanned)

    def assign(
        self,
        z: Array,
        labels: NDArray[np.int32],
        slope: Array | None = None,
        offset: Array | None = None,
    ) -> None:
        """Assign to the centers z, or by the affine scores of a Bregman loss."""
        changed = np.empty_like(self.rows_scanned)
        n, (K, d) = float(self.rows_scanned.sum()), z.shape[1:]
        work = n * K * d
        spent = work + n * SUM_WORK * (d + 1)
        self._data.spent += spent
        Data.spent_by_all += spent
        into = slope, offset, labels, self.sums[0], changed
        parallel_for(kernels.assign, self._ends, work, *self._rows, z, *into)
        self.changed = changed


class SmallUsersAssigner(Assigner):
    """Assigns users with a handful of rows, of which there may be millions: one chunk per user.

    Their rows are summed, plainly and in order, only when `sum` is called.
    """

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        super().__init__(data, members, [])
        self.rows_scanned = int(data.sizes[members].sum())
        # Its length selects the compiled loop.
        self._row = (0.0,) * data.d if data.d <= _MAX_UNROLLED else ()
        self._rows = data.row_data.rows
        self._users = tuple(SmallUsers(members, data.offsets, self._row, *data.row_data))
        self._work = float((self.rows_scanned + len(members)) * K * data.d)

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z."""
        users = self._rows, self._data.offsets, self.owner
        changed: list[int] = parallel_for(
            kernels.assign_small, len(self.owner), self._work, *users, z, self._row, labels
        )
        self.changed = sum(changed)
        self.sums = []

    def sum(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Sum the rows by their labels, with gamma at the centers z."""
        sums = no_sums(len(self.owner), *z.shape[1:])
        into = sums.hi0, sums.hi1
        parallel_for(kernels.sum_small, len(self.owner), self._work, self._users, z, labels, *into)
        self.sums = [sums]

    def gradient_step(
        self,
        x: Array,
        labels: NDArray[np.int32],
        ratio: float,
        neighbors: tuple[Array, Array],
        step: tuple[float, float, float],
        stiffness: Array,
        results: tuple[Array, Array, Array],
    ) -> None:
        """Move all users' centers as `kernels.gradient_step` does."""
        parallel_for(
            kernels.small_gradient_step, len(self.owner), self._work,
            self._users, x, labels, ratio, neighbors, step, stiffness, results,
        )  # fmt: skip


def first_pass(data: Data, K: int) -> list[Assigner]:
    """Return assigners for a first assignment, which may be the only one: they read all rows."""
    return make_assigners(data, K, (SmallUsersAssigner, data.small), (FullAssigner, ~data.small))


def reads_all(assigners: Sequence[Assigner]) -> bool:
    """Return whether some of the assigners read every row, though they could cache."""
    return any(isinstance(each, FullAssigner) for each in assigners)


def make_assigners(
    data: Data,
    K: int,
    *kinds: tuple[Callable[[Data, Ints, int], Assigner], NDArray[np.bool_]],
) -> list[Assigner]:
    """Return an assigner of each kind that has users; `kinds` say which users are of which."""
    return [kind(data, np.flatnonzero(of), K) for kind, of in kinds if of.any()]
