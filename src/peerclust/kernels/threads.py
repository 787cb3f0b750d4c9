"""A parallel for loop over compiled loops; results never depend on the number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

# Below this much work (row x center x feature) waking a thread costs more than it saves.
MIN_WORK_PER_THREAD = 1_000_000


def cores() -> int:
    """Return the number of threads: PEERCLUST_THREADS, or the cores that this process may use."""
    requested = os.environ.get("PEERCLUST_THREADS", "")
    if requested.isdecimal() and int(requested) > 0:
        return int(requested)
    return available_cores()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    # Only Linux reports which ones.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return this process's pool; a forked child has another id and so creates its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"peerclust-{process}")


def parallel_for(
    loop: Callable[..., T], ends: NDArray[np.int64] | int, work: float, *arguments: object
) -> list[T]:
    """Call loop(first, last, *arguments) on ranges that together cover all items (chunks, ...).

    Return what the calls return, in the order of the ranges.

    `ends` is the cumulative work of the items (often their rows), so that ranges have equal work,
    or the number of items if all are alike. `work` is the total, in rows x centers x features.
    """
    count = ends if isinstance(ends, int) else len(ends)
    if count <= 1 or work < MIN_WORK_PER_THREAD or cores() <= 1:
        return [loop(0, count, *arguments)]
    threads = min(int(work / MIN_WORK_PER_THREAD) + 1, count, cores())
    if isinstance(ends, int):
        ends = np.arange(1, count + 1)
    # Two ranges per thread, so that one busy core delays the others less.
    marks = np.searchsorted(ends, np.linspace(0, ends[-1], 2 * threads + 1)[1:-1], side="right")
    cuts = np.unique(np.concatenate(([0], marks, [len(ends)]))).tolist()
    pool = _pool(os.getpid(), cores())
    calls = [pool.submit(loop, a, b, *arguments) for a, b in pairwise(cuts)]
    return [done.result() for done in calls]
