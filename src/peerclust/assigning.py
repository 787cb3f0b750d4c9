"""How a block's users are assigned when every row is read; `lazy` has those who remember.

Users with a handful of rows each, who may be very many, are a case of their own (`Few`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.tasks import plan_tasks
from peerclust.threads import spread

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

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

    @property
    def d(self) -> int:
        """How many features a row has."""
        return int(self.rows.shape[1])

    @property
    def varies(self) -> bool:
        """Whether the gamma of a row may change while its label does not."""
        return self.code in (kernels.HUBER, kernels.LOGISTIC, kernels.FAIR)

    @property
    def stays(self) -> bool:
        """Whether there are rows whose gamma stays what it is beside others."""
        return self.code in (kernels.HUBER, kernels.LOGISTIC)

    @property
    def factor(self) -> float:
        """What gamma is where it stays."""
        return 2.0 if self.code == kernels.LOGISTIC else 1.0

    @property
    def sizes(self) -> Ints:
        """How many rows each user has."""
        return np.diff(self.offsets)


class Part:
    """Some of the users, in tasks, and their sums over labels.

    Attributes
    ----------
    owner : (tasks,) int array
        Whose rows a task has.
    exact : (tasks, K), (tasks, K), (tasks, K, d) and (tasks, K, d) arrays
        The sums of w and w y over rows whose gamma stays what it is, two numbers each (see
        `kernels.exact`).
    varying : (tasks, K) and (tasks, K, d) arrays
        The sums of w gamma and w gamma y over all other rows.
    changed, looked : int or (tasks,) int arrays
        How many labels changed, and how many rows were measured, in the last assignment.
    """

    changed: Ints | int = 0
    looked: Ints | int = 0

    def __init__(self, data: Data, owner: Ints, K: int, *, exact: bool = True) -> None:
        self.owner = owner
        self._data = data
        shape = len(owner) if exact else 0, K, data.d
        self.exact = *np.zeros((2, *shape[:2])), *np.zeros((2, *shape))
        shape = len(owner) if data.varies or not exact else 0, K, data.d
        self.varying = np.zeros(shape[:2]), np.zeros(shape)

    @cached_property
    def all_once(self) -> bool:
        """Whether each user has exactly one task, so that its sums are the user's."""
        return np.array_equal(self.owner, np.arange(len(self._data.offsets) - 1))

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z, (m, K, d); labels hold the last ones and may be written."""
        raise NotImplementedError

    def write(self, labels: NDArray[np.int32]) -> None:
        """Write the labels, if `assign` has not."""


def add_up(parts: Sequence[Part], factor: float, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Give the sums of w gamma and w gamma y by user, (m, K) and (m, K, d).

    Where gamma stays what it is, it is `factor`.
    """
    if len(parts) == 1 and parts[0].all_once:
        s0, _, s1, _ = parts[0].exact
        t0, t1 = parts[0].varying
    else:
        (s0, low0, t0), (s1, low1, t1) = np.zeros((3, *shape[:2])), np.zeros((3, *shape))
        for part in parts:
            for words, totals in ((part.exact[:2], (s0, low0)), (part.exact[2:], (s1, low1))):
                if len(words[0]):
                    kernels.by_user_exactly(part.owner, *words, *totals)
            for each, total in zip(part.varying, (t0, t1), strict=True):
                if len(each):
                    kernels.by_user(part.owner, each, total)
    if not len(t0):
        return s0, s1
    return (t0 + factor * s0, t1 + factor * s1) if len(s0) else (t0, t1)


class Anew(Part):
    """Every row is read every time."""

    changed: Ints
    looked: Ints

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        self._tasks = plan_tasks(data.offsets, members)
        super().__init__(data, self._tasks[0], K)
        self.looked = self._tasks[2] - self._tasks[1]
        self._ends = np.cumsum(self.looked)
        self.changed = np.zeros_like(self.looked)

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
                data.code, data.parameter, labels, self.exact, *self.varying, self.changed,
            )  # fmt: skip

        spread(loop, self._ends, float(self.looked.sum() * z[0].size))


class Few(Part):
    """Users with a handful of rows, who may be very many: a task each."""

    def __init__(self, data: Data, members: Ints, K: int) -> None:
        super().__init__(data, members, K, exact=False)
        self.looked = int(data.sizes[members].sum())

    def assign(self, z: Array, labels: NDArray[np.int32]) -> None:
        """Assign to the centers z."""
        data, changed = self._data, []
        row = (0.0,) * data.d if data.d <= _COUNTED else ()

        def loop(first: int, last: int) -> None:
            changed.append(
                kernels.assign_few(
                    data.rows, data.weights, data.unit, data.offsets, self.owner, first, last, z,
                    data.code, data.parameter, row, labels, *self.varying,
                )
            )  # fmt: skip

        spread(loop, len(self.owner), float((self.looked + len(self.owner)) * z[0].size))
        self.changed = sum(changed)
