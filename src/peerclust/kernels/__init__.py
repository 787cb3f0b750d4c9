"""The compiled loops: arrays in, arrays out. No checks, no threads of their own.

Every loop that reads rows works on *chunks*. Chunk t is rows start[t] to stop[t] of user owner[t]:
at most `CHUNK_ROWS` rows, counted from the user's own first row. Each chunk has sums of its own.
So the result depends neither on which other users are in the block nor on the number of threads.
All loops release the GIL.

Loops take the range of items first (see `threads.parallel_for`). Arguments that belong together are
fields of one NamedTuple. The loops that a round calls are given the same fields as plain tuples:
numba finds the types of all arguments at each call, which takes half a microsecond longer for a
NamedTuple, much in a round of ten microseconds.

A loop whose result decides a label must not reorder or fuse floating-point operations (numba's
`fastmath` stays off): a squared distance is the plain sum over features, first to last, wherever
it is computed. Bounds carry a margin for rounding and may be summed in any order.
"""

from peerclust.kernels.array_ops import (
    all_in_box,
    by_user,
    hashes,
    matvec,
    scatter,
    take,
    weighted_sum,
)
from peerclust.kernels.assignment import (
    assign,
    distances2,
    gamma,
    gradient,
    nearest,
    nearest_other,
    own_distance2,
)
from peerclust.kernels.bounds import RowCache, assign_bounded
from peerclust.kernels.box_sorting import sort_into_boxes, split_median, transpose_boxes
from peerclust.kernels.boxes import BoxCache, Boxes, assign_boxes
from peerclust.kernels.center_drift import Drift, add_drift
from peerclust.kernels.distances import (
    FAIR,
    GIVEN,
    HUBER,
    KMEANS,
    LOGISTIC,
    MIXED,
    TILE,
    VARYING,
)
from peerclust.kernels.exact_sums import CachedSums, exact_by_user
from peerclust.kernels.gradient_steps import (
    gradient_step,
    nesterov_extrapolate,
    sum_energies,
    sum_halo,
    sum_neighbors,
)
from peerclust.kernels.row_data import CHUNK_ROWS, Chunks, RowData
from peerclust.kernels.small_users import SmallUsers, assign_small, small_gradient_step, sum_small

__all__ = [
    "CHUNK_ROWS",
    "FAIR",
    "GIVEN",
    "HUBER",
    "KMEANS",
    "LOGISTIC",
    "MIXED",
    "TILE",
    "VARYING",
    "BoxCache",
    "Boxes",
    "CachedSums",
    "Chunks",
    "Drift",
    "RowCache",
    "RowData",
    "SmallUsers",
    "add_drift",
    "all_in_box",
    "assign",
    "assign_bounded",
    "assign_boxes",
    "assign_small",
    "by_user",
    "distances2",
    "exact_by_user",
    "gamma",
    "gradient",
    "gradient_step",
    "hashes",
    "matvec",
    "nearest",
    "nearest_other",
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
