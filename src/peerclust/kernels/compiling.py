"""How a loop is compiled."""

from __future__ import annotations

import numba


def compiled(*signatures, using=numba.njit, **options):
    """Compile a loop, and keep it on disk where a place for that can be found.

    A division by zero gives what IEEE says: a loop that would have to stop there is not compiled
    to wide instructions.
    """
    if using is numba.njit:
        options.setdefault("error_model", "numpy")

    def compile_loop(loop):
        try:
            return using(*signatures, cache=True, **options)(loop)
        except RuntimeError:  # no folder that may be written to
            return using(*signatures, **options)(loop)

    return compile_loop
