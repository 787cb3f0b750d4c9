"""How far centers have gone, never told too small, so that a row knows when it must be read again.

A row with label a whose distances to center a and to the nearest other center are near and other
keeps its label while center a and the fastest of the others together have gone less than
other - near: by the triangle inequality no center can have come to be as near as a.
"""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.steps import sum_squares

# The loops in `centers` hold these numbers as they were when compiled, and the loop here holds
# `sum_squares`: a change needs one there, too, or numba takes its cached loops.
EPS = 2.0**-52
# More than what a distance loses when squares underflow.
TINY = 1e-155


@compiled(nogil=True)
def add_drifts(x, last, drift):
    """Add to drift[i, k] how far center k of user i went since `last`, and the farthest other.

    Rounded up, whatever rounds here; where a center is not finite, to infinity. Then last is x.
    """
    m, K, d = x.shape
    gone, step = np.zeros(K), np.empty(d)
    for i in range(m):
        largest, second = 0.0, 0.0
        for k in range(K):
            for j in range(d):
                step[j] = x[i, k, j] - last[i, k, j]
                last[i, k, j] = x[i, k, j]
            r = math.sqrt(sum_squares(step)) * (1.0 + (d + 8) * EPS) + TINY
            gone[k] = r if r < np.inf else np.inf
            second = max(second, min(largest, gone[k]))
            largest = max(largest, gone[k])
        for k in range(K):
            other = second if gone[k] == largest else largest
            drift[i, k] = (drift[i, k] + gone[k] + other) * (1.0 + 4.0 * EPS)
