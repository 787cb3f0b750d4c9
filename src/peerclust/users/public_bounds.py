"""Bounds on users' rows and weights that are public: all users know them before any message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from peerclust import kernels
from peerclust.arrays import Array


@dataclass(frozen=True, eq=False)
class PublicBounds:
    """The box of all rows, in their coordinates, and what else limits a user's claims.

    Attributes
    ----------
    low, high : (d,) arrays
        No row lies outside; infinite if nothing is known yet.
    weight : float, optional
        The largest total weight of a user. Without one, claims are not checked.
    overshoot : float
        How far centers may leave the box, in widths of it.

    Examples
    --------
    >>> bounds = PublicBounds(np.zeros(2), np.array([3.0, 4.0]), weight=10.0)
    >>> bounds.reach, bounds.overshoot
    (5.0, 0.0)
    """

    low: Array
    high: Array
    weight: float | None = None
    overshoot: float = 0.0

    @cached_property
    def center_box(self) -> tuple[Array, Array]:
        """The least and the largest coordinates of a center."""
        low, high = self.low, self.high
        # If all rows have the same value, its magnitude is the unit.
        width = np.maximum(high - low, 1e-3 * np.maximum(np.abs(low), np.abs(high)))
        slack = self.overshoot * width
        return low - slack, high + slack

    def refuse(self, x: Array) -> str:
        """Return the reason why centers, (..., d), are invalid, or "".

        >>> PublicBounds(np.zeros(1), np.ones(1)).refuse(np.array([[2.0]]))
        'centers outside the box of the data'
        """
        if kernels.all_in_box(x, *self.center_box):
            return ""
        finite = np.isfinite(x).all()
        return f"centers {'outside the box of the data' if finite else 'that are not finite'}"

    @cached_property
    def reach(self) -> float:
        """The largest distance of a row from a center."""
        low, high = self.center_box
        return float(np.linalg.norm(np.maximum(self.high - low, high - self.low)))

    @cached_property
    def center_reach(self) -> float:
        """The largest distance of two centers."""
        low, high = self.center_box
        return float(np.linalg.norm(high - low))
