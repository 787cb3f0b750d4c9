"""The scratch arrays of compiled loops, from their other arguments; each thread has its own.

Arrays of the last shapes are kept. Loops leave `stale` False and `lanes` zero.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

import numpy as np

from peerclust.kernels.constants import LANES, PAD, SAMPLE, TILE

_Arrays = tuple[Any, ...]


class _Memory(threading.local):
    """The arrays of one thread."""

    def __init__(self) -> None:
        keep = lru_cache(maxsize=16)
        self.tiles, self.moves = keep(_tiles), keep(_moves)
        self.boxes, self.bounds, self.drift = keep(_boxes), keep(_bounds), keep(_drift)
        self.sorting, self.step, self.small_step = keep(_sorting), keep(_step), keep(_small_step)


def of_assign(first, last, data, chunks, x, *_):
    """Return the scratch arrays of `assign`."""
    return _memory.tiles(4, x.shape[2])


def of_nearest(first, last, rows, x, *_):
    """Return the scratch arrays of `nearest`."""
    return _memory.tiles(4, x.shape[1])


def of_distances2(first, last, rows, x, *_):
    """Return the scratch arrays of `distances2`."""
    return _memory.tiles(max(4, len(x)), x.shape[1])


def of_nearest_other(first, last, rows, chunks, x, *_):
    """Return the scratch arrays of `nearest_other`."""
    return _memory.tiles(max(4, x.shape[1]), x.shape[2])


def of_gradient(*_):
    """Return the scratch arrays of `gradient`."""
    tiles = _memory.tiles(4, 1)
    return tiles[2], tiles[5]


def of_own_distance2(*_):
    """Return the scratch arrays of `own_distance2`."""
    return (_memory.tiles(4, 1)[5],)


def of_assign_bounded(first, last, data, chunks, tracked, cache, *_):
    """Return the scratch arrays of `assign_bounded`."""
    longest = int((chunks[2] - chunks[1])[first:last].max(initial=0))
    return _memory.bounds(*tracked[0].shape[1:], longest, cache[3] is not None)


def of_assign_boxes(first, last, data, boxes, chunks, tracked, *_):
    """Return the scratch arrays of `assign_boxes`."""
    return _memory.boxes(*tracked[0].shape[1:], data[4] is not None)


def of_add_drift(x, *_):
    """Return the scratch arrays of `add_drift`."""
    return _memory.drift(*x.shape[1:])


def of_sort_into_boxes(first, last, rows, *_):
    """Return the scratch arrays of `sort_into_boxes`."""
    return _memory.sorting(rows.shape[1], rows.dtype)


def of_split_median(rows, *_):
    """Return the scratch arrays of `split_median`."""
    return _memory.sorting(rows.shape[1], rows.dtype)


def of_gradient_step(first, last, x, s0, *_):
    """Return the scratch arrays of `gradient_step`."""
    return _memory.step(s0.shape[1], x.shape[1])


def of_small_gradient_step(first, last, users, x, *_):
    """Return the scratch arrays of `small_gradient_step`."""
    return _memory.small_step(*x.shape[1:])


def _tiles(lines: int, d: int) -> _Arrays:
    """Return a tile of rows, scores, the two lowest of them, labels, and 0 to TILE - 1."""
    tile, score, (best, second) = np.empty((d, TILE + PAD)), np.empty((lines, TILE)), _pair(TILE)
    return tile, score, best, second, np.empty(TILE, np.int32), np.arange(TILE)


def _moves() -> _Arrays:
    # A row may leave one cluster and enter another.
    return np.empty(2 * TILE, np.int64), np.empty(2 * TILE, np.int64), np.empty(2 * TILE)


def _bounds(K: int, d: int, longest: int, bounded: bool) -> _Arrays:
    tiles = _memory.tiles(max(4, K) if bounded else 4, d)
    stale, chosen = np.zeros(K, np.bool_), np.empty(max(longest, 1), np.int64)
    return tiles, _memory.moves(), stale, chosen, np.empty(K)


def _boxes(K: int, d: int, varying: bool) -> _Arrays:
    stale, chosen = np.zeros(K, np.bool_), np.empty(TILE, np.int64)
    lanes = tuple(np.zeros((2, K, d + 1, LANES))) if varying else None
    rest = np.empty(K), np.empty(LANES), lanes
    return _memory.tiles(4, d), _memory.moves(), stale, chosen, *rest


def _drift(K: int, d: int) -> _Arrays:
    return np.empty(K), np.empty(d)


def _sorting(d: int, dtype: np.dtype[Any]) -> _Arrays:
    return *_pair(d), np.empty(SAMPLE, dtype), np.empty(256, np.int64)


def _step(K: int, n: int) -> _Arrays:
    return np.empty(n), np.repeat(np.arange(K), n // K)


def _small_step(K: int, d: int) -> _Arrays:
    return np.empty(K), np.empty((K, d)), np.empty(d)


def _pair(n: int) -> _Arrays:
    return np.empty(n), np.empty(n)


_memory = _Memory()
