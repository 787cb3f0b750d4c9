"""Memory of large arrays that come and go with every round, used again.

New memory is slow at first: the system must find it and set it to zero, which for the centers of a
million users takes as long as to compute them. An array from here is like any other; once nobody
holds it, or a view of it, its memory is kept for the next one of its size.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections import deque

import numpy as np

from peerclust.types import Array

# Numbers from which on it pays and up to which memory is kept, and how many blocks are.
MIN_POOLED_SIZE = 1 << 20
_LARGEST = 1 << 25
_KEPT = 3

_free: deque[Array] = deque(maxlen=_KEPT)


def empty(shape: tuple[int, ...]) -> Array:
    """Give an array of any numbers.

    >>> empty((2, 3)).shape
    (2, 3)
    """
    size = math.prod(shape)
    if not MIN_POOLED_SIZE <= size <= _LARGEST:
        return np.empty(shape)
    memory = _take(size)
    # The array rests on `lease`, whose end is the end of the last view.
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
