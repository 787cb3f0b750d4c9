"""Spreads a compiled loop over the cores; what comes out never depends on how many there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

# Below this much work (row x center x feature) waking a thread costs more than it saves.
MIN_WORK_PER_THREAD = 200_000


def cores() -> int:
    """Return how many threads a loop is spread over: PEERCLUST_THREADS, or the cores we may use."""
    asked = os.environ.get("PEERCLUST_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    # Only Linux tells which cores this process may use.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Return this process's pool; a forked child has another id and so makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"peerclust-{process}")


def parallel_for(
    loop: Callable[[int, int], None], ends: NDArray[np.int64] | int, work: float
) -> None:
    """Call loop(first, last) on stretches that together cover all tasks.

    `ends` is the running total of the tasks' rows, so that the stretches are of equal work, or the
    number of tasks that are all alike; `work` is the whole, in rows x centers x features.
    """
    count = ends if isinstance(ends, int) else len(ends)
    if count <= 1 or work < MIN_WORK_PER_THREAD or cores() <= 1:
        loop(0, count)
        return
    threads = min(int(work / MIN_WORK_PER_THREAD) + 1, count, cores())
    if isinstance(ends, int):
        ends = np.arange(1, count + 1)
    # Two stretches a thread, so that a core that is busy elsewhere holds the others up less.
    marks = np.searchsorted(ends, np.linspace(0, ends[-1], 2 * threads + 1)[1:-1], side="right")
    cuts = np.unique(np.concatenate(([0], marks, [len(ends)]))).tolist()
    pool = _pool(os.getpid(), cores())
    for done in [pool.submit(loop, a, b) for a, b in pairwise(cuts)]:
        done.result()
