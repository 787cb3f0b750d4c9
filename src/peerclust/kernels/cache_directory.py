"""The directory in which compiled loops are cached.

numba recompiles a loop when its own file changes, but not when a file changes from which it has
inlined functions or constants. So the name of the directory contains a hash of all files of this
package, and one of the processor and of the versions of Python, numba, llvmlite and numpy: after
any change the cache is empty.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import tempfile
import threading
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_FOLDERS = ("", "loops", "plain")


@lru_cache(maxsize=1)
def cache_directory() -> Path | None:
    """Return the cache directory of this process, or None; see `find_cache`."""
    return find_cache()


@lru_cache(maxsize=1)
def existing_cache() -> Path | None:
    """Return the first directory that has compiled loops for this process, if there is one."""
    name = f"numba-{_digest_machine()}-{_digest_files()}"
    # Not `Path.is_dir`, which raises for a directory in one that may not be looked into.
    return next(filter(os.path.isdir, (parent / name for parent in _parents())), None)


def find_cache() -> Path | None:
    """Return the cache directory for the current files, processor and versions, or None.

    It is the first that can be written to: in NUMBA_CACHE_DIR if that is set, in `__pycache__`
    beside the files, in the user's own cache. When it is created, it begins with what is in one of
    the others, such as that of a read-only image. The directories of earlier files beside it are
    removed; those of other processors and versions stay, as others may use them.
    """
    prefix = f"numba-{_digest_machine()}-"
    name = prefix + _digest_files()
    parents = _parents()
    for parent in parents:
        directory = parent / name
        try:
            new = _make(directory, [other / name for other in parents])
            tempfile.TemporaryFile(dir=directory).close()
        except OSError:
            continue
        # Only the process that created the directory removes others, if several start at once.
        for stale in parent.glob(f"{prefix}*") if new else ():
            if stale != directory:
                shutil.rmtree(stale, ignore_errors=True)
        return directory
    return None


def _digest_machine() -> str:
    packages = [f"{name} {version(name)}" for name in ("numba", "llvmlite", "numpy")]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return hashlib.sha256(" ".join([python, *packages, *_processor()]).encode()).hexdigest()[:8]


def _processor() -> list[str]:
    """Return what compiled code depends on: the processor's name and features."""
    chosen = [os.environ.get(f"NUMBA_CPU_{what}", "") for what in ("NAME", "FEATURES")]
    found = [platform.machine(), *chosen]
    with suppress(OSError), Path("/proc/cpuinfo").open() as lines:
        for line in lines:
            if not line.strip():  # the next processor
                break
            if line.startswith(("vendor_id", "cpu family", "model", "flags", "Features")):
                found.append(line.strip())
    return found


def _digest_files() -> str:
    digest = hashlib.sha256()
    # Not `**`, which would walk into the cache, where other processes remove directories.
    for path in sorted(path for name in _FOLDERS for path in (_HERE / name).glob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.relative_to(_HERE)} {len(source)} ".encode() + source)
    return digest.hexdigest()[:16]


def _parents() -> list[Path]:
    # Several installations may share a directory: each has its own subdirectory.
    own = f"peerclust-{hashlib.sha256(os.fsencode(_HERE)).hexdigest()[:16]}"
    parents = [_HERE / "__pycache__"]
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        parents.insert(0, Path(given).absolute() / own)
    with suppress(RuntimeError):  # there is no home directory
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        parents.append(Path(cache).absolute() / "peerclust" / own)
    return parents


def _make(directory: Path, others: list[Path]) -> bool:
    """Create a directory with the content of the first of `others`; return whether it is new."""
    if directory.is_dir():
        return False
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Other processes see the directory only once it is complete.
    draft = directory.with_name(f"new-{directory.name}-{os.getpid()}-{threading.get_ident()}")
    try:
        for other in filter(os.path.isdir, others):
            shutil.copytree(other, draft)
            break
        draft.mkdir(exist_ok=True)
        draft.rename(directory)
    except OSError:
        if not directory.is_dir():
            raise
        return False
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return True
