"""The compiled loops: arrays in, arrays out. No classes, no checks, no threads of their own.

Every loop that reads rows works on *tasks*: task t is the stretch of rows start[t] to stop[t] of
user owner[t], never longer than `SEGMENT` rows and always counted from the user's own first row.
A task sums into a place of its own, so what comes out depends neither on which users share a block
nor on how many threads share the tasks. All loops release the GIL.

No loop that decides may reorder or fuse its floating-point operations (numba's `fastmath` stays
off): a squared distance is the plain sum over features, first to last, wherever it is computed.
Bounds, which carry a margin for rounding, may be summed in any order.
"""

from peerclust.kernels.arrays import by_user, hashes, put, take, times, weighted_sum, within
from peerclust.kernels.bounds import assign_remembered
from peerclust.kernels.box_sorting import halve, lay_out, sort_into_boxes
from peerclust.kernels.boxes import assign_boxes
from peerclust.kernels.centers import assign, gamma, measure_all, nearest, own_r2, pull
from peerclust.kernels.distances import FAIR, GIVEN, HUBER, KMEANS, LOGISTIC, SEGMENT, TILE
from peerclust.kernels.drifts import add_drifts
from peerclust.kernels.exact_sums import by_user_exactly
from peerclust.kernels.gradient_steps import (
    descend,
    go_on,
    sum_energies,
    sum_letters,
    sum_neighbors,
)
from peerclust.kernels.small_users import assign_few, descend_few, sum_few

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
    "assign_boxes",
    "assign_few",
    "assign_remembered",
    "by_user",
    "by_user_exactly",
    "descend",
    "descend_few",
    "gamma",
    "go_on",
    "halve",
    "hashes",
    "lay_out",
    "measure_all",
    "nearest",
    "own_r2",
    "pull",
    "put",
    "sort_into_boxes",
    "sum_energies",
    "sum_few",
    "sum_letters",
    "sum_neighbors",
    "take",
    "times",
    "weighted_sum",
    "within",
]
