"""Atomic writes: files and directories that appear only once they are complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peerclust.errors import ParameterError


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a file, which is moved to `path` when the block ends.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_file(Path(folder, "a.txt")) as place:
    ...         _ = place.write_text("whole")
    ...     Path(folder, "a.txt").read_text()
    'whole'
    """
    path = path.resolve()
    with _beside(path) as folder:
        yield folder / path.name
        (folder / path.name).replace(path)


def write_durably(path: Path, data: bytes) -> None:
    """Write a file and sync it: after a crash all of the new file is on the disk, or none of it."""
    with new_file(path) as place, place.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory, which replaces `path` when the block ends."""
    path = path.resolve()
    with _beside(path) as folder:
        fresh, old = folder / "new", folder / "old"
        fresh.mkdir()
        yield fresh
        if path.exists():
            path.rename(old)
        try:
            fresh.rename(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Yield a temporary folder on the file system of `path`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise ParameterError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def explain(error: OSError) -> str:
    """Return an error sentence about a file that cannot be used.

    >>> explain(OSError(28, "No space left on device", "labels.csv"))
    'labels.csv cannot be used: No space left on device.'
    """
    return f"{error.filename or 'A file'} cannot be used: {error.strerror or error}."
