"""What a block of users remembers from one assignment to the next, to read only a few rows again.

Each row has an expiry, each user's center a drift that only grows (see `kernels.drifts`). Until the
drift of a row's own center reaches the row's expiry, its label is what a full assignment would
find, and so are the sums over the labels, to the last bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels

Array = NDArray[np.float64]


class Memory:
    """Centers, drifts, expiries and sums of the last assignment.

    Parameters
    ----------
    z : (u, K, d) array
        The users' centers in coordinates where distance is Euclidean; they are copied.
    rows, tasks : int
        How many rows and tasks the block has.
    """

    def __init__(self, z: Array, rows: int, tasks: int) -> None:
        self.z = z.copy()
        self.drift = np.zeros(z.shape[:2])
        self.expiry = np.empty(rows)
        self.s0 = np.zeros((tasks, z.shape[1]))
        self.s1 = np.zeros((tasks, *z.shape[1:]))

    def follow(self, z: Array) -> bool:
        """Add up the drifts of the centers to z; False if these are not as many as before."""
        if z.shape != self.z.shape:
            return False
        kernels.add_drifts(z, self.z, self.drift)
        return True
