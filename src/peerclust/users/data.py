"""The rows of a block of users as the kernels read them, and how each user's rows are assigned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Ints
from peerclust.kernels import RowData
from peerclust.users.boxes import BoxLayout, sort_rows

# For users with fewer rows nothing is cached.
MIN_ROWS_CACHED = 16
# Boxes (Pelleg and Moore 1999, Kanungo et al. 2002) are worth it from this many rows per user on,
# and up to this many features.
MIN_ROWS_BOXED = 512
FEW_FEATURES = 8
# From this many features on, a bound per row and center (Elkan 2003) saves more than it costs.
MANY_FEATURES = 16


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of a block of users, in coordinates where distance is Euclidean.

    User i has rows offsets[i] to offsets[i + 1].
    """

    row_data: RowData
    offsets: Ints

    @property
    def m(self) -> int:
        """The number of users."""
        return len(self.offsets) - 1

    @property
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

    @property
    def sizes(self) -> Ints:
        """The number of rows of each user."""
        return np.diff(self.offsets)

    @property
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

    @cached_property
    def box_layout(self) -> BoxLayout:
        """A sorted copy of the boxed users' rows."""
        return sort_rows(self.row_data, self.offsets, np.flatnonzero(self.boxed))
