"""The decorator of all loops."""

from __future__ import annotations

from typing import Any

import numba

from peerclust.kernels.cache_directory import cache_directory

# Set around each decoration: numba has no other way to set the cache directory of one loop only.
_CONFIG: Any = numba.config
_njit: Any = numba.njit


def compiled(**options):
    """Compile a loop at its first call and cache it on disk, if a directory can be written to.

    Division by zero follows IEEE 754: a loop that could raise there would not be vectorized. Loops
    allocate nothing, and so need not count references, which takes much of the time to compile.
    """
    wanted = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True, "_nrt": False}
    options = wanted | options

    def decorate(loop):
        directory = cache_directory()
        if directory is None:
            return _njit(**options)(loop)
        # numba reads this when it decorates; loops that are not ours keep the user's setting.
        given, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, str(directory)
        try:
            return _njit(cache=True, **options)(loop)
        except RuntimeError:  # the directory can no longer be written to
            return _njit(**options)(loop)
        finally:
            _CONFIG.CACHE_DIR = given

    return decorate


def inner(**options):
    """Compile a function that only loops call, not Python."""
    return compiled(no_cpython_wrapper=True, **options)


def inlined(function):
    """Have a function inlined where it is called, before anything is compiled."""
    return numba.njit(inline="always")(function)
