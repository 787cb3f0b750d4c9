"""How users' rows are dealt to tasks (see `kernels`), and what tasks give put together by user."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels

Array = NDArray[np.float64]
Tasks = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

# Rows whose values are held at a time when they are added up.
CHUNK = 1 << 18


def plan_tasks(offsets: NDArray[np.int64]) -> Tasks:
    """Give the owner, start and stop of each task.

    >>> [each.tolist() for each in plan_tasks(np.array([0, 8193, 8193, 8200]))]
    [[0, 0, 2], [0, 8192, 8193], [8192, 8193, 8200]]
    """
    pieces = -(-np.diff(offsets) // kernels.SEGMENT)
    owner = np.repeat(np.arange(len(pieces)), pieces)
    piece = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = offsets[owner] + piece * kernels.SEGMENT
    return owner, start, np.minimum(start + kernels.SEGMENT, offsets[owner + 1])


def sum_by_user(owner: NDArray[np.int64], m: int, parts: Array) -> Array:
    """Add up the tasks' sums (tasks, ...) by user, (m, ...); if each has one task, they are it."""
    if len(owner) == m and (m == 1 or np.all(owner == np.arange(m))):
        return parts
    total = np.zeros((m, *parts.shape[1:]))
    kernels.by_user(owner, parts, total)
    return total


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
