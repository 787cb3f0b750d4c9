"""Compilation of loops, and the directory in which the compiled code is cached.

numba recompiles a loop when its own file changes, but not when a file changes from which it has
inlined functions or constants. So the cache directory's name contains a hash of all files of this
package: after any change the cache is empty.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba

_HERE = Path(__file__).resolve().parent
# Set around each decoration: numba has no other way to set the cache directory of one loop only.
_CONFIG: Any = numba.config


def compiled(*signatures, using=numba.njit, **options):
    """Compile a loop and cache it on disk, if a writable directory can be found.

    Division by zero follows IEEE 754: a loop that could raise there would not be vectorized.
    """
    if using is numba.njit:
        options.setdefault("error_model", "numpy")

    def compile_loop(loop):
        if _CACHE is None:
            return using(*signatures, **options)(loop)
        # numba reads this when it decorates; loops that are not ours keep the user's setting.
        given, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, str(_CACHE)
        try:
            return using(*signatures, cache=True, **options)(loop)
        except RuntimeError:  # the directory can no longer be written to
            return using(*signatures, **options)(loop)
        finally:
            _CONFIG.CACHE_DIR = given

    return compile_loop


def find_cache() -> Path | None:
    """Return the cache directory for the current version of the files, or None.

    It is the first that can be written to: in NUMBA_CACHE_DIR if that is set, in `__pycache__`
    beside the files, in the user's own cache. When it is created, the directories of earlier
    versions beside it are removed.
    """
    digest = hashlib.sha256()
    for path in sorted(_HERE.glob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.name} {len(source)} ".encode() + source)
    for parent in _parents():
        directory = parent / f"numba-{digest.hexdigest()[:16]}"
        try:
            new = _make(directory)
            tempfile.TemporaryFile(dir=directory).close()
        except OSError:
            continue
        # Only the process that created the directory removes others, if several start at once.
        for stale in parent.glob("numba-*") if new else ():
            if stale != directory:
                shutil.rmtree(stale, ignore_errors=True)
        return directory
    return None


def _parents() -> list[Path]:
    # Several installations may share a directory: each has its own subdirectory.
    own = f"peerclust-{hashlib.sha256(os.fsencode(_HERE)).hexdigest()[:16]}"
    parents = [_HERE / "__pycache__"]
    if _CONFIG.CACHE_DIR:
        parents.insert(0, Path(_CONFIG.CACHE_DIR).absolute() / own)
    with suppress(RuntimeError):  # there is no home directory
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        parents.append(Path(cache).absolute() / "peerclust" / own)
    return parents


def _make(directory: Path) -> bool:
    """Create a directory; return whether it is new."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        directory.mkdir()
    except FileExistsError:
        return False
    return True


_CACHE = find_cache()
