"""Functions of plain arrays, without centers: sums, products, hashes, gather and scatter."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints, Rows

# The most numbers of a temporary array, so that it stays in the processor's cache.
_BATCH = 1 << 15

_scratch = threading.local()
_FIRST_HASH = np.uint64(0x9E3779B97F4A7C15)


def batches(n, size):
    """Yield slices that cover n items of `size` numbers each, a batch at a time."""
    step = max(1, _BATCH // max(size, 1))
    for begin in range(0, n, step):
        yield slice(begin, min(begin + step, n))


def scratch(name: str, shape: tuple[int, ...]) -> Array:
    """Return an array of this thread's for temporary numbers; the next one of this name is it too.

    Fresh memory of this size would have to be mapped, and set to zero, each time.
    """
    size = math.prod(shape)
    buffer: Array | None = getattr(_scratch, name, None)
    if buffer is None or buffer.size < size:
        buffer = np.empty(max(size, _BATCH))
        setattr(_scratch, name, buffer)
    return buffer[:size].reshape(shape)


def weighted_sum(
    first: int, last: int, values: Any, weights: Any, unit: Any, chunks: Any, out: Any
) -> None:
    """Add the weighted values of chunks first to last to out[user]; values start at their first."""
    owner, start, stop = (each[first:last] for each in chunks)
    if len(owner) == 0:
        return
    sizes = stop - start
    inside: slice[Any, Any, Any] | Ints = slice(0, stop[-1] - start[0])
    if (start[1:] != stop[:-1]).any():
        inside = np.repeat(start - start[0], sizes) + offsets_within(sizes)
    w = weights[start[0] :][inside] if weights.size else unit
    chunk = np.repeat(np.arange(len(owner)), sizes)
    parts: Array = np.bincount(chunk, weights=w * values[inside], minlength=len(owner)).astype(
        np.float64
    )
    by_user(owner, parts[:, None], out[:, None])


def by_user(owner: Ints, parts: Array, out: Array) -> None:
    """Add the sums of chunks (chunks, K, ...) to out (users, K, ...), in ascending order.

    `owner` is ascending.
    """
    size = math.prod(out.shape[1:])
    flat, total = parts.reshape(len(parts), size), out.reshape(len(out), size)
    n = flat.shape[1]
    if n == 0:
        return
    columns = np.arange(n)
    for here in batches(len(owner), n):
        low, high = owner[here][0], owner[here][-1] + 1
        # What is there already comes first.
        cells = np.concatenate([np.arange(high - low), owner[here] - low])
        values = np.concatenate([total[low:high], flat[here]])
        index = cells[:, None] * n + columns
        sums = np.bincount(index.ravel(), weights=values.ravel(), minlength=(high - low) * n)
        total[low:high] = sums.reshape(-1, n)


def all_in_box(x: Array, low: Array, high: Array) -> bool:
    """Return whether all rows of x (n, d) are in the box from low to high; NaN is outside."""
    return bool(((low <= x) & (x <= high)).all())


def matvec(v, matrix, out):
    """Multiply each row vector of v (n, d) by matrix[i % len(matrix)] (d, d), in a fixed order."""
    n, d = v.shape
    for here in batches(n, d):
        total = np.zeros((here.stop - here.start, d))
        which = np.arange(here.start, here.stop) % len(matrix)
        for e in range(d):
            line = matrix[0, e] if len(matrix) == 1 else matrix[which, e]
            total += v[here, e, None] * line
        out[here] = total


def hashes(rows: Rows, out: NDArray[np.uint64]) -> None:
    """Write a 64-bit hash of each row's values to `out`: equal rows have equal hashes.

    A hash does not depend on where the row is. Each value's bits (with -0.0 taken as 0.0) are
    mixed in by a splitmix64 step.
    """
    for here in batches(len(rows), 4):
        h = np.full(here.stop - here.start, _FIRST_HASH)
        for j in range(rows.shape[1]):
            h ^= (rows[here, j].astype(np.float64) + 0.0).view(np.uint64)
            _mix(h)
        out[here] = h


def sparse_hashes(values: Array, rows: Ints, begin: Ints, out: NDArray[np.uint64]) -> None:
    """Write what `hashes` does, for a CSC array: column j has values begin[j] to begin[j + 1]."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)
    out[:] = _FIRST_HASH
    for j in range(len(begin) - 1):
        here = slice(begin[j], begin[j + 1])
        out[rows[here]] ^= bits[here]
        _mix(out)


def _mix(h):
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(31)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(29)


def offsets_within(sizes):
    """Return 0 to n - 1 for each of the sizes n, one after the other."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
