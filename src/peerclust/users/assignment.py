"""The assignment of a block's rows to centers, an immutable value, and the cache of the latest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints
from peerclust.users.assigners import Assigner

Labels = NDArray[np.int32]

# The sums of w gamma and of w gamma y by user and label, (u, K) and (u, K, d).
Terms = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
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

    x: Array
    z: Array
    # The cache's own while that is at this assignment.
    token: object = field(repr=False)
    read_labels: Callable[[Assignment], Labels] = field(repr=False)
    # Of each assigner; see `assigners`.
    changed_parts: tuple[Ints | int, ...] = field(repr=False)
    scanned_parts: tuple[Ints | int, ...] = field(repr=False)

    @classmethod
    def at(cls, x: Array) -> Assignment:
        """Return an assignment to the centers x of users that are not known yet."""
        return cls(x, x, object(), _no_labels, (), ())

    @cached_property
    def labels(self) -> Labels:
        """Each row's cluster, (N,); of equally near centers the first."""
        return self.read_labels(self)

    @property
    def changed(self) -> int:
        """The number of labels that differ from those of the assignment before it."""
        return sum(int(np.sum(each)) for each in self.changed_parts)

    @property
    def rows_scanned(self) -> int:
        """The number of rows that were measured against the centers."""
        return sum(int(np.sum(each)) for each in self.scanned_parts)


def _no_labels(_: Assignment) -> Labels:
    raise ValueError("an assignment of no users has no labels; see State.attach")


class AssignmentCache:
    """What the assigners know of the latest assignment; it only saves work.

    It is dropped while it is brought up to date, which may be interrupted.
    """

    def __init__(self) -> None:
        self.token: object = None
        self.assigners: list[Assigner] = []
        self.passes = 0
        self.labels: Labels = np.empty(0, np.int32)
        # The last sums, and of which assignment (its token) and at which centers they are.
        self.terms: tuple[object, Array, Terms] | None = None

    def drop(self) -> None:
        """Forget the assignment."""
        self.token, self.terms = object(), None
        self.assigners, self.passes = [], 0

    def is_at(self, assignment: Assignment) -> bool:
        """Return whether an assignment is the latest."""
        return assignment.token is self.token

    def read_labels(self) -> Labels:
        """Return the labels of the latest assignment; the next one writes to them."""
        for assigner in self.assigners:
            if assigner.keeps_labels:
                assigner.write(self.labels)
        return self.labels
