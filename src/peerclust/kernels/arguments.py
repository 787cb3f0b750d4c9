"""The arguments of kernels that belong together, as named tuples of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints, Rows


class RowData(NamedTuple):
    """Rows with their weights and their loss.

    rows is (N, d); for rows sorted into boxes it is the flat array of their tiles, (N d,). weights
    is (N,), or empty if every weight is `unit`. The loss is given by its code and its parameter.
    """

    rows: Rows
    weights: Array
    unit: float
    code: int
    parameter: float


class Chunks(NamedTuple):
    """Chunk t is rows (or boxes) start[t] to stop[t] of user owner[t]; all are (chunks,)."""

    owner: Ints
    start: Ints
    stop: Ints


class SmallUsers(NamedTuple):
    """The users `members`, (n,), with a handful of rows each, and what is fixed about them.

    User i has rows offsets[i] to offsets[i + 1] of the block. `row` is a tuple of d numbers, or an
    empty one: loops are compiled for each length of it, so that the number of features is a
    constant. The other fields are those of `RowData`.
    """

    members: Ints
    offsets: Ints
    row: tuple[float, ...]
    rows: Rows
    weights: Array
    unit: float
    code: int
    parameter: float


class Drift(NamedTuple):
    """The users' current centers, (m, K, d), and how far they have moved in total.

    path[i, k], (m, K), is the length of center k's own path. drift[i, k], (m, K), adds the movement
    of the fastest other center, and max_drift[i], (m,), sums those of the two fastest. All are
    rounded up; they are infinite if a center is not finite.
    """

    centers: Array
    path: Array
    drift: Array
    max_drift: Array


class RowCache(NamedTuple):
    """What is cached about the n rows of some chunks; those of chunk t start at place[t].

    place is (chunks,). A row's label is valid while the drift of its center is below valid_until,
    (n,). in_sums, (n,), is whether a row is in the constant sums; it is empty if that follows from
    the loss. bounds, (n, K) or None, has an upper bound on the distance to a row's own center and
    lower bounds on those to the others, relative to the centers' paths.
    """

    place: Ints
    valid_until: Array
    in_sums: NDArray[np.bool_]
    bounds: NDArray[np.float32] | None


class Boxes(NamedTuple):
    """The boxes of some sorted rows: begin, (boxes + 1,), is the first row of each.

    mid and half, (boxes, d), are the middle of each box and half its width.
    """

    begin: Ints
    mid: Array
    half: Array


class BoxCache(NamedTuple):
    """What is cached about the n sorted rows and their boxes.

    labels is (n,). A row's label is valid while the drift of its user is below valid_until, (n,),
    and those of a box below box_valid_until, (boxes,). in_sums, (n,), is whether a row is in the
    constant sums; it is empty if that follows from the loss. uniform_label, (boxes,), is the label
    of all rows of a box, or -1; n_varying, (boxes,), is how many of them are in no constant sum.
    """

    labels: NDArray[np.int32]
    valid_until: Array
    in_sums: NDArray[np.bool_]
    box_valid_until: Array
    uniform_label: NDArray[np.int32]
    n_varying: NDArray[np.int32]
