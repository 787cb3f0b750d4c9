"""How far centers have gone, never told too small, so that a row knows when it must be read again.

A row with label a whose distances to center a and to the nearest other center are near and other
keeps its label while center a and the fastest of the others together have gone less than
other - near: by the triangle inequality no center can have come to be as near as a.
"""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.compiling import compiled
from peerclust.kernels.gradient_steps import sum_squares

EPS = 2.0**-52
# More than what a distance loses when squares underflow.
TINY = 1e-155


@compiled(nogil=True)
def add_drifts(x, last, members, path, drift, max_drift):
    """Add up how far the centers of the users `members` went since `last`; then last is x.

    Of user i, gone[i, k] is center k's own way, drift[i, k] that and the farthest other's, clock[i]
    those of the two that went farthest. Rounded up, whatever rounds here; where a center is not
    finite, to infinity.
    """
    K, d = x.shape[1:]
    way, step = np.zeros(K), np.empty(d)
    for i in members:
        largest, second = 0.0, 0.0
        for k in range(K):
            for j in range(d):
                step[j] = x[i, k, j] - last[i, k, j]
                last[i, k, j] = x[i, k, j]
            r = math.sqrt(sum_squares(step)) * (1.0 + (d + 8) * EPS) + TINY
            way[k] = r if r < np.inf else np.inf
            second = max(second, min(largest, way[k]))
            largest = max(largest, way[k])
        for k in range(K):
            other = second if way[k] == largest else largest
            path[i, k] = (path[i, k] + way[k]) * (1.0 + 4.0 * EPS)
            drift[i, k] = (drift[i, k] + way[k] + other) * (1.0 + 4.0 * EPS)
        max_drift[i] = (max_drift[i] + largest + second) * (1.0 + 4.0 * EPS)
