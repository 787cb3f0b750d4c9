"""The arguments that most loops over rows share: rows with weights and loss, and chunks."""

from __future__ import annotations

from typing import NamedTuple

from peerclust.arrays import Array, Ints, Rows
from peerclust.kernels.compiling import compiled

# The largest number of rows in a chunk.
CHUNK_ROWS = 8192


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


@compiled(inline="always")
def weight_of(weights, unit, row):
    """Return the weight of a row."""
    return weights[row] if weights.size > 0 else unit
