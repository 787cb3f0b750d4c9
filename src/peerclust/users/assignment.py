"""The assignment of a block's rows to centers, an immutable value; `users` computes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints

Labels = NDArray[np.int32]


class Assignment:
    """Each row's nearest center among its user's x[i]: steps 2-5 of Algorithm 1.

    Labels depend on the rows and on x only. They are kept by the assigners' cache while it is at
    this assignment, and copied from there, or else computed again, when they are first read.

    Attributes
    ----------
    x : (u, K, d) array
        The centers.
    z : (u, K, d) array
        The centers in the coordinates of the geometry (see `distances`).
    """

    def __init__(
        self,
        x: Array,
        z: Array,
        token: object,
        read_labels: Callable[[Assignment], Labels],
        changed: tuple[Ints | int, ...],
        rows_scanned: tuple[Ints | int, ...],
    ) -> None:
        self.x, self.z = x, z
        # Equal to the cache's while that is at this assignment.
        self.token = token
        self._read_labels = read_labels
        self._changed, self._rows_scanned = changed, rows_scanned

    @classmethod
    def at(cls, x: Array) -> Assignment:
        """Return an assignment to the centers x of users that are not known yet."""
        return cls(x, x, object(), _no_labels, (), ())

    @cached_property
    def labels(self) -> Labels:
        """Each row's cluster, (N,); of equally near centers the first."""
        return self._read_labels(self)

    @property
    def changed(self) -> int:
        """The number of labels that differ from those of the assignment before it."""
        return sum(int(np.sum(each)) for each in self._changed)

    @property
    def rows_scanned(self) -> int:
        """The number of rows that were measured against the centers."""
        return sum(int(np.sum(each)) for each in self._rows_scanned)


def _no_labels(_: Assignment) -> Labels:
    raise ValueError("an assignment of no users has no labels; see State.attach")
