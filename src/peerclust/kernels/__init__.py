"""The compiled loops: arrays in, arrays out. No classes, no checks, no threads of their own.

Every loop that reads rows works on *tasks*: task t is the stretch of rows start[t] to stop[t] of
user owner[t], never longer than `SEGMENT` rows and always counted from the user's own first row.
A task sums into a place of its own, so what comes out depends neither on which users share a block
nor on how many threads share the tasks. All loops release the GIL.

No loop may reorder or fuse its floating-point operations (numba's `fastmath` stays off): a squared
distance is the plain sum over features, first to last, wherever it is computed.
"""

from peerclust.kernels.arrays import by_user, hashes, times, weighted_sum, within
from peerclust.kernels.centers import (
    FAIR,
    GIVEN,
    HUBER,
    KMEANS,
    LOGISTIC,
    SEGMENT,
    TILE,
    assign,
    gamma,
    nearest,
    own_r2,
    pull,
)
from peerclust.kernels.drifts import add_drifts
from peerclust.kernels.steps import descend

__all__ = [
    "FAIR",
    "GIVEN",
    "HUBER",
    "KMEANS",
    "LOGISTIC",
    "SEGMENT",
    "TILE",
    "add_drifts",
    "assign",
    "by_user",
    "descend",
    "gamma",
    "hashes",
    "nearest",
    "own_r2",
    "pull",
    "times",
    "weighted_sum",
    "within",
]
