"""The decorator of all loops."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numba
from numba.core.caching import FunctionCache

from peerclust.kernels.cache_directory import cache_directory

# Set around each decoration: numba has no other way to set the cache directory of one loop only.
_CONFIG: Any = numba.config
_njit: Any = numba.njit


class LoopCache(FunctionCache):
    """numba's cache of one loop, which never stops a run: without it the loop is compiled.

    `saved` is false once a loop could not be saved, such as on a full disk.
    """

    saved = True

    def load_overload(self, sig, target_context):
        """Return the loop for a signature, or None, also if its file is damaged."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # what unpickling damaged bytes raises can be anything
            return None

    def save_overload(self, sig, data):
        """Save the loop for a signature, if that is possible; damaged files are overwritten."""
        try:
            try:
                super().save_overload(sig, data)
            except OSError:
                raise
            except Exception:  # the index is damaged
                self.flush()
                super().save_overload(sig, data)
        except OSError:
            self.saved = False


def compiled(**options):
    """Compile a loop at its first call and cache it on disk, if a directory can be written to.

    Division by zero follows IEEE 754: a loop that could raise there would not be vectorized. Loops
    allocate nothing, and so need not count references, which takes much of the time to compile.
    """
    wanted = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True, "_nrt": False}
    options = wanted | options

    def decorate(loop):
        dispatcher, directory = _njit(**options)(loop), cache_directory()
        if directory is None:
            return dispatcher
        # numba reads this when it decorates; loops that are not ours keep the user's setting.
        given, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, str(directory)
        with suppress(RuntimeError):  # the directory can no longer be written to
            dispatcher._cache = LoopCache(loop)
        _CONFIG.CACHE_DIR = given
        return dispatcher

    return decorate


def inner(**options):
    """Compile a function that only loops call, not Python."""
    return compiled(no_cpython_wrapper=True, **options)


def inlined(function):
    """Have a function inlined where it is called, before anything is compiled."""
    return numba.njit(inline="always")(function)
