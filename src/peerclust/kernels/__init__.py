"""The compiled loops: arrays in, arrays out. No classes, no checks, no threads of their own.

Every loop that reads rows works on *tasks*: task t is the stretch of rows start[t] to stop[t] of
user owner[t], never longer than `SEGMENT` rows and always counted from the user's own first row.
A task sums into a place of its own, so what comes out depends neither on which users share a block
nor on how many threads share the tasks. All loops release the GIL.

No loop that decides may reorder or fuse its floating-point operations (numba's `fastmath` stays
off): a squared distance is the plain sum over features, first to last, wherever it is computed.
Bounds, which carry a margin for rounding, may be summed in any order.
"""

from peerclust.kernels.arrays import (
    all_in_box,
    by_user,
    hashes,
    matvec,
    scatter,
    take,
    weighted_sum,
)
from peerclust.kernels.bounds import assign_bounded
from peerclust.kernels.box_sorting import sort_into_boxes, split_median, transpose_boxes
from peerclust.kernels.boxes import assign_boxes
from peerclust.kernels.centers import assign, gamma, gradient, measure_all, nearest, own_distance2
from peerclust.kernels.distances import FAIR, GIVEN, HUBER, KMEANS, LOGISTIC, SEGMENT, TILE
from peerclust.kernels.drifts import add_drifts
from peerclust.kernels.exact_sums import by_user_exactly
from peerclust.kernels.gradient_steps import (
    gradient_step,
    nesterov_extrapolate,
    sum_energies,
    sum_halo,
    sum_neighbors,
)
from peerclust.kernels.small_users import assign_small, small_gradient_step, sum_small

__all__ = [
    "FAIR",
    "GIVEN",
    "HUBER",
    "KMEANS",
    "LOGISTIC",
    "SEGMENT",
    "TILE",
    "add_drifts",
    "all_in_box",
    "assign",
    "assign_bounded",
    "assign_boxes",
    "assign_small",
    "by_user",
    "by_user_exactly",
    "gamma",
    "gradient",
    "gradient_step",
    "hashes",
    "matvec",
    "measure_all",
    "nearest",
    "nesterov_extrapolate",
    "own_distance2",
    "scatter",
    "small_gradient_step",
    "sort_into_boxes",
    "split_median",
    "sum_energies",
    "sum_halo",
    "sum_neighbors",
    "sum_small",
    "take",
    "transpose_boxes",
    "weighted_sum",
]
