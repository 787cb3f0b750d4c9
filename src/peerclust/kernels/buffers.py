"""A pool of buffers for the large arrays that every round allocates and frees.

Fresh memory is slow at first use: the system must map it and set it to zero. For the centers of a
million users that takes as long as computing them. An array from here is like any other. Once there
is no reference to it or to a view of it, its buffer returns to the pool for the next array of its
size.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import deque

import numpy as np

from peerclust.arrays import Array

# The least and the largest size (in numbers) of a pooled buffer, and how many the pool holds.
MIN_POOLED_SIZE = 1 << 20
_LARGEST = 1 << 25
_MAX_FREE = 3

_free: deque[Array] = deque(maxlen=_MAX_FREE)


def empty(shape: tuple[int, ...]) -> Array:
    """Return an uninitialized array.

    >>> empty((2, 3)).shape
    (2, 3)
    """
    size = math.prod(shape)
    if not MIN_POOLED_SIZE <= size <= _LARGEST:
        return np.empty(shape)
    memory = _take(size)
    # The array's base is `lease`, which is finalized with the last view.
    lease = (ctypes.c_double * size).from_buffer(memory.data)
    weakref.finalize(lease, _free.append, memory).atexit = False
    return np.frombuffer(memoryview(lease), np.float64).reshape(shape)


def _take(size: int) -> Array:
    for _ in range(len(_free)):
        try:
            memory = _free.popleft()
        except IndexError:  # another thread was faster
            break
        if memory.size == size:
            return memory
    return np.empty(size)
