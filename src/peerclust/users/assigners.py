"""How a block's users are assigned when every row is read; `lazy` has those who remember.

Users with a handful of rows each, who may be very many, are a case of their own (`SmallUsersAssigner`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.kernels.exact_sums import Sums, no_sums
from peerclust.kernels.threads import parallel_for
from peerclust.types import Array, Ints
from peerclust.users.chunks import plan_tasks

# Up to so many features the loop over users with few rows is compiled for their number.
_COUNTED = 4
# What a loss that measures distances has of what a Bregman loss does.
_NO_SLOPE, _NO_OFFSET = np.empty((0, 0, 0)), np.empty((0, 0))


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of a block of users, moved to where distance is Euclidean, and their loss."""

    rows: NDArray[Any]
    offsets: Ints
    weights: Array
    unit: float
    code: int
    parameter: float
    # Where rows are sorted, if they are: see `layout`.
    layouts: list[Any] = field(default_factory=list)

    @property
    def d(self) -> int:
        """How many features a row has."""
        return int(self.rows.shape[1])

    @property
    def varies(self) -> bool:
        """Whether the gamma of a row may change while its label does not."""
        return self.code in (kernels.HUBER, kernels.LOGISTIC, kernels.FAIR)

    @property
    def gamma_is_constant(self) -> bool:
        """Whether there are rows whose gamma stays what it is beside others."""
        return self.code in (kernels.HUBER, kernels.LOGISTIC)

    @property
    def sizes(self) -> Ints:
        """How many rows each user has."""
        return np.diff(self.offsets)


class Assigner:
    """Some of the users, in tasks.

    Attributes
    ----------
    owner : (tasks,) int array
        Whose rows a task has.
    sums : list of Sums
        What is to be added up to have the sums over all rows of a task.
    changed, looked : int or (tasks,) int arrays
        How many labels changed, and how many rows were measured, in the last assignment.
    """

    changed: Ints | int = 0
    rows_scanned: Ints | int = 0

    def __init__(self, data: Data, owner: Ints, sums: list[Sums]) -> None:
        self._data, self.owner, self.sums = data, owner, sums

    @cached_property
    def all_once(self) -> bool:
        """Whether each user has exactly one task, so that its sums are the user's."""
        return np.array_equal(self.owner, np.arange(len(self._data.offsets) - 1))

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z, (m, K, d); labels hold the last ones and may be written."""
        raise NotImplementedError

    def write(self, labels: NDArray[np.int32]) -> None:
        """Write the labels, if `assign` has not."""

    def sum(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Find the sums, if `assign` has not; z and labels are those of the last one."""


def add_up(parts: Sequence[Assigner], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Give the sums of w gamma and w gamma y by user, (m, K) and (m, K, d)."""
    if len(parts) == 1 and len(parts[0].sums) == 1 and parts[0].all_once:
        return parts[0].sums[0].hi0, parts[0].sums[0].hi1
    total = no_sums(*shape)
    for part in parts:
        for sums in part.sums if len(part.owner) else ():
            for two in (slice(0, 2), slice(2, 4)):
                flat = [each.reshape(len(each), -1) for each in (*sums[two], *total[two])]
                kernels.by_user_exactly(part.owner, *flat)
    return total.hi0, total.hi1


class FullAssigner(Assigner):
    """Every row is read every time."""

    changed: Ints
    rows_scanned: Ints

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        self._tasks = plan_tasks(data.offsets, members)
        owner = self._tasks[0]
        super().__init__(data, owner, [no_sums(len(owner), K, data.d)])
        self.rows_scanned = self._tasks[2] - self._tasks[1]
        self._ends = np.cumsum(self.rows_scanned)
        self.changed = np.zeros_like(self.rows_scanned)

    def assign(
        self,
        z: Array,
        labels: NDArray[np.int32],
        slope: Array = _NO_SLOPE,
        offset: Array = _NO_OFFSET,
    ) -> None:
        """Assign to the centers z, or by the affine scores of a Bregman loss."""
        data = self._data

        def loop(first: int, last: int) -> None:
            kernels.assign(
                data.rows, data.weights, data.unit, *self._tasks, first, last, z, slope, offset,
                data.code, data.parameter, labels, self.sums[0], self.changed,
            )  # fmt: skip

        parallel_for(loop, self._ends, float(self.rows_scanned.sum() * z[0].size))


class SmallUsersAssigner(Assigner):
    """Users with a handful of rows, who may be very many: a task each.

    Their rows are summed, plainly and in order, only when that is asked for.
    """

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        super().__init__(data, members, [])
        self.rows_scanned = int(data.sizes[members].sum())
        # A loop is compiled for each small number of features.
        self.row = (0.0,) * data.d if data.d <= _COUNTED else ()
        self._work = float((self.rows_scanned + len(members)) * K * data.d)

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z."""
        data, changed = self._data, []

        def loop(first: int, last: int) -> None:
            changed.append(
                kernels.assign_small(
                    data.rows, data.offsets, self.owner, first, last, z, self.row, labels
                )
            )

        parallel_for(loop, len(self.owner), self._work)
        self.changed = sum(changed)
        self.sums = []

    def sum(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Sum the rows by their labels, with gamma at the centers z."""
        data = self._data
        sums = no_sums(len(self.owner), *z.shape[1:])

        def loop(first: int, last: int) -> None:
            kernels.sum_small(
                data.rows, data.weights, data.unit, data.offsets, self.owner, first, last, z,
                data.code, data.parameter, self.row, labels, sums.hi0, sums.hi1,
            )  # fmt: skip

        parallel_for(loop, len(self.owner), self._work)
        self.sums = [sums]

    def descend(
        self,
        x: Array,
        labels: NDArray[np.int32],
        *others: Any,
        out: Array,
        size: Array,
    ) -> None:
        """Move all users' centers as `kernels.gradient_step` does, which `others` is for, unsummed."""
        data = self._data

        def loop(first: int, last: int) -> None:
            kernels.small_gradient_step(
                data.rows, data.weights, data.unit, data.offsets, first, last, x, data.code,
                data.parameter, self.row, labels, *others, out, size,
            )  # fmt: skip

        parallel_for(loop, len(self.owner), self._work)
