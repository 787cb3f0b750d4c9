"""How far centers have moved in total, rounded up; cached labels are valid up to some drift.

Let a row have label a, distance `near` to center a and distance `other` to the nearest other
center. It keeps its label while center a and the fastest other center have together moved less than
its slack, other - near: by the triangle inequality no other center can be as near as a (Elkan 2003,
Hamerly 2010; see `bounds`). Drifts only grow, so a row's cache is one number: the drift up to which
its label is valid. Nothing is updated for rows that are not read.
"""

from __future__ import annotations

import math

import numpy as np

from peerclust.kernels.constants import EPS, TINY
from peerclust.kernels.loops.compiling import compiled, inlined
from peerclust.kernels.loops.gradient_steps import sum_squares


@inlined
def drift_limit(drift, slack):
    """Return the drift up to which a label is valid, rounded down, if centers may move `slack`."""
    return (drift + slack) * (1.0 - 4.0 * EPS)


@compiled()
def add_drift(x, members, last, path, drift, max_drift, scratch):
    """Add how far centers of the users `members` moved from `last` to x; the rest is a `Drift`."""
    moved, step = scratch
    K, d = x.shape[1:]
    for i in members:
        largest, second = 0.0, 0.0
        for k in range(K):
            for j in range(d):
                step[j] = x[i, k, j] - last[i, k, j]
            r = math.sqrt(sum_squares(step)) * (1.0 + (d + 8) * EPS) + TINY
            moved[k] = r if r < np.inf else np.inf
            second = max(second, min(largest, moved[k]))
            largest = max(largest, moved[k])
        for k in range(K):
            other = second if moved[k] == largest else largest
            path[i, k] = (path[i, k] + moved[k]) * (1.0 + 4.0 * EPS)
            drift[i, k] = (drift[i, k] + moved[k] + other) * (1.0 + 4.0 * EPS)
        max_drift[i] = (max_drift[i] + largest + second) * (1.0 + 4.0 * EPS)
