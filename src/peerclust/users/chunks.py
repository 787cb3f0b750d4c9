"""How users' rows are dealt to tasks (see `kernels`), and what tasks give put together by user."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.types import Array

Tasks = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

# Rows whose values are held at a time when they are added up.
CHUNK = 1 << 18


def plan_tasks(
    offsets: NDArray[np.int64], members: NDArray[np.int64] | None = None, length: int | None = None
) -> Tasks:
    """Give the owner, start and stop of each task, of all users or of the `members` only.

    No task is longer than `length`, which is `kernels.SEGMENT` unless given.

    >>> [each.tolist() for each in plan_tasks(np.array([0, 8193, 8193, 8200]))]
    [[0, 0, 2], [0, 8192, 8193], [8192, 8193, 8200]]
    """
    length = kernels.SEGMENT if length is None else length
    if members is None:
        members = np.arange(len(offsets) - 1)
    pieces = -(-np.diff(offsets)[members] // length)
    owner = np.repeat(members, pieces)
    piece = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = offsets[owner] + piece * length
    return owner, start, np.minimum(start + length, offsets[owner + 1])


def sum_by_label(
    offsets: NDArray[np.int64], labels: NDArray[np.int32], values: Array, K: int
) -> Array:
    """Add up each user's values by label, (m, K).

    >>> sum_by_label(np.array([0, 2, 3]), np.array([1, 1, 0]), np.ones(3), 2).tolist()
    [[0.0, 2.0], [1.0, 0.0]]
    """
    m = len(offsets) - 1
    cell = np.repeat(np.arange(m), np.diff(offsets)) * K + labels
    # bincount adds in the order of the rows, so that a user's sums are its own.
    flat = np.bincount(cell, weights=values, minlength=m * K)
    return flat.reshape(m, K).astype(np.float64)


def sum_values(
    values: Callable[[int, int], Array], weights: Array, unit: float, tasks: Tasks, m: int
) -> Array:
    """Add up each user's weighted values, (m,); `values` gives those of tasks first to last."""
    owner, start, stop = tasks
    out = np.zeros(m)
    first = 0
    while first < len(owner):
        last = max(first + 1, int(np.searchsorted(stop, start[first] + CHUNK, side="right")))
        kernels.weighted_sum(values(first, last), weights, unit, *tasks, first, last, out)
        first = last
    return out
