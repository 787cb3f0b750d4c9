"""The assignment of a block's rows to centers, an immutable value, and the cache of the latest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    z : (u, K, d) array or None
        The centers in the coordinates of the geometry (see `distances`), if they are known.
    """

    x: Array
    z: Array | None
    # The cache's own while that is at this assignment.
    token: object = field(repr=False)
    read_labels: Callable[[Assignment], Labels] = field(repr=False)
    # What each assigner changed and scanned; see `assigners`.
    counts: Sequence[tuple[Ints | int, Ints | int]] = field(repr=False)

    @classmethod
    def at(cls, x: Array, changed: int = 0) -> Assignment:
        """Return an assignment to the centers x of users that are not known yet.

        Users compute with it as with their own; only its `labels` cannot be read.
        """
        return cls(x, None, object(), _no_labels, ((changed, 0),))

    @cached_property
    def labels(self) -> Labels:
        """Each row's cluster, (N,); of equally near centers the first."""
        labels = self.read_labels(self)
        labels.flags.writeable = False
        return labels

    @property
    def changed(self) -> int:
        """The number of labels that differ from those of the assignment before it."""
        return sum(int(np.sum(changed)) for changed, _ in self.counts)

    @property
    def rows_scanned(self) -> int:
        """The number of rows that were measured against the centers."""
        return sum(int(np.sum(scanned)) for _, scanned in self.counts)


def _no_labels(_: Assignment) -> Labels:
    raise ValueError("an assignment of no users has no labels; see State.attach")


@dataclass(eq=False)
class AssignmentCache:
    """What the assigners know of the latest assignment; it only saves work.

    `token` is that of the assignment, and `shape` that of its centers. `labels` are written to by
    the next assignment. `terms` are the last sums, with the token of their assignment and the
    centers at which they are.
    """

    labels: Labels
    token: object = None
    shape: tuple[int, ...] = ()
    assigners: list[Assigner] = field(default_factory=list)
    terms: tuple[object, Array, Terms] | None = None
