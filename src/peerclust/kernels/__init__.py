"""The inner loops: arrays in, arrays out. No checks, no threads of their own.

A `Kernel` has two versions with equal bits, one in numpy (`plain`) and one compiled by numba
(`loops`); `kernel` says which one runs. Where numpy does as well there is no compiled version, and
loops that pay for large problems only have none in numpy.

Every kernel that reads rows works on *chunks*. Chunk t is rows start[t] to stop[t] of user
owner[t]: at most `CHUNK_ROWS` rows, counted from the user's own first row. Each chunk has sums of
its own. So the result depends neither on which other users are in the block nor on the number of
threads. All loops release the GIL.

Kernels take the range of items first (see `threads.parallel_for`). Arguments that belong together
are fields of one NamedTuple. The kernels that a round calls are given the same fields as plain
tuples: numba finds the types of all arguments at each call, which takes half a microsecond longer
for a NamedTuple, much in a round of ten microseconds.
"""

from peerclust.kernels import scratch
from peerclust.kernels.arguments import (
    BoxCache,
    Boxes,
    Chunks,
    Drift,
    RowCache,
    RowData,
    SmallUsers,
)
from peerclust.kernels.constants import (
    CHUNK_ROWS,
    FAIR,
    GIVEN,
    HUBER,
    KMEANS,
    LOGISTIC,
    MIXED,
    TILE,
    VARYING,
)
from peerclust.kernels.exact_sums import CachedSums
from peerclust.kernels.kernel import Kernel, compile_mode, import_compiler, may_compile, use_mode
from peerclust.kernels.plain import arrays, assignment, centers, exact_sums as sums, small_users
from peerclust.kernels.plain.arrays import all_in_box, by_user, hashes, sparse_hashes, weighted_sum
from peerclust.kernels.plain.boxes import transpose_boxes
from peerclust.kernels.plain.distances import gamma, product_margin
from peerclust.kernels.plain.exact_sums import sum_entries

assign = Kernel("assignment.assign", assignment.assign, seconds=1.4, scratch=scratch.of_assign)
gradient = Kernel(
    "assignment.gradient", assignment.gradient, seconds=0.6, scratch=scratch.of_gradient
)
own_distance2 = Kernel(
    "assignment.own_distance2", assignment.own_distance2, seconds=0.4,
    scratch=scratch.of_own_distance2,
)  # fmt: skip
nearest = Kernel("assignment.nearest", assignment.nearest, seconds=0.6, scratch=scratch.of_nearest)
nearest_other = Kernel(
    "assignment.nearest_other", assignment.nearest_other, seconds=0.8,
    scratch=scratch.of_nearest_other,
)  # fmt: skip
distances2 = Kernel(
    "assignment.distances2", assignment.distances2, seconds=0.6, scratch=scratch.of_distances2
)
exact_by_user = Kernel("exact_sums.exact_by_user", sums.exact_by_user, seconds=0.3)
matvec = Kernel("gradient_steps.matvec", arrays.matvec, seconds=0.2)
sum_neighbors = Kernel("gradient_steps.sum_neighbors", centers.sum_neighbors, seconds=0.2)
sum_halo = Kernel("gradient_steps.sum_halo", centers.sum_halo, seconds=0.3)
sum_energies = Kernel("gradient_steps.sum_energies", centers.sum_energies, seconds=0.2)
gradient_step = Kernel(
    "gradient_steps.gradient_step", centers.gradient_step, seconds=0.6,
    scratch=scratch.of_gradient_step,
)  # fmt: skip
nesterov_extrapolate = Kernel(
    "gradient_steps.nesterov_extrapolate", centers.nesterov_extrapolate, seconds=0.4
)
assign_small = Kernel("small_users.assign_small", small_users.assign_small, seconds=0.3)
sum_small = Kernel("small_users.sum_small", small_users.sum_small, seconds=0.5)
small_gradient_step = Kernel(
    "small_users.small_gradient_step", small_users.small_gradient_step, seconds=1.0,
    scratch=scratch.of_small_gradient_step,
)  # fmt: skip
# What pays for large problems only has no version in numpy.
add_drift = Kernel("center_drift.add_drift", None, seconds=0.3, scratch=scratch.of_add_drift)
split_median = Kernel(
    "box_sorting.split_median", None, seconds=0.6, scratch=scratch.of_split_median
)
sort_into_boxes = Kernel(
    "box_sorting.sort_into_boxes", None, seconds=0.8, scratch=scratch.of_sort_into_boxes
)
assign_boxes = Kernel("boxes.assign_boxes", None, seconds=3.0, scratch=scratch.of_assign_boxes)
assign_bounded = Kernel(
    "bounds.assign_bounded", None, seconds=2.6, scratch=scratch.of_assign_bounded
)

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
    "Kernel",
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
    "compile_mode",
    "distances2",
    "exact_by_user",
    "gamma",
    "gradient",
    "gradient_step",
    "hashes",
    "import_compiler",
    "matvec",
    "may_compile",
    "nearest",
    "nearest_other",
    "nesterov_extrapolate",
    "own_distance2",
    "product_margin",
    "small_gradient_step",
    "sort_into_boxes",
    "sparse_hashes",
    "split_median",
    "sum_energies",
    "sum_entries",
    "sum_halo",
    "sum_neighbors",
    "sum_small",
    "transpose_boxes",
    "use_mode",
    "weighted_sum",
]
