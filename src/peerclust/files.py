"""Writes that are complete or do not happen, and files that belong to this user alone."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from peerclust.errors import ParameterError


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path for a file, which is moved to `path` when the block ends.

    Both are synced: after a crash all of the new file is on the disk, or none of it. A link at
    `path` is replaced, not followed. An OSError names `path`.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with new_file(Path(folder, "a.txt")) as place:
    ...         _ = place.write_text("whole")
    ...     Path(folder, "a.txt").read_text()
    'whole'
    """
    path = path.parent.resolve() / path.name
    try:
        with _beside(path) as folder:
            yield folder / path.name
            _sync(folder / path.name)
            (folder / path.name).replace(path)
        _sync(path.parent)
    except OSError as error:
        # Some libraries raise it without a number.
        reason = error.strerror or str(error)
        raise OSError(error.errno, reason, str(path)) from error


def write_durably(path: Path, data: bytes) -> None:
    """Write a file as `new_file` does."""
    with new_file(path) as place:
        place.write_bytes(data)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    if os.name == "posix":
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def make_private_directory(path: Path) -> None:
    """Create a directory with mode 700; one that exists must be writable by this user only."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise ParameterError(f"{path} cannot be a directory: {error.strerror}.") from None
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        raise ParameterError(f"{path} must be a directory. Got a link; name the directory itself.")
    if found.st_uid != os.geteuid():
        raise ParameterError(
            f"The directory {path} must belong to the user of this process. Got that of user"
            f" {found.st_uid}; name another directory."
        )
    if mode & 0o022:
        raise ParameterError(
            f"The directory {path} must be writable by its owner only. Got mode {mode:03o}; name a"
            " new directory, or look at its files and run `chmod 700` on it."
        )


def open_private(path: Path, flags: int) -> int:
    """Open a file of this user, which no link leads to; nobody else may read it from then on."""
    try:
        # A FIFO must not block.
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _not_private(path) from None
        raise
    try:
        found = os.fstat(file)
        own = found.st_uid == os.geteuid() and found.st_nlink <= 1
        if not own or not stat.S_ISREG(found.st_mode):
            raise _not_private(path)
        if found.st_mode & 0o077:
            os.fchmod(file, 0o600)
    except OSError:
        os.close(file)
        raise
    return file


def _not_private(path: Path) -> OSError:
    reason = "it must be a regular file of this user, and no link; move it away"
    return OSError(errno.EINVAL, reason, str(path))


def read_private(path: Path) -> bytes:
    """Return the content of a file of this user, which no link leads to."""
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        return file.read()


def append_durably(path: Path, data: bytes) -> None:
    """Append to a private file and sync it; if that fails, the file is as long as before."""
    file = open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        size = os.fstat(file).st_size
        try:
            write_all(file, data)
            os.fsync(file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(file, size)
            raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(file)


def write_all(file: int, data: bytes) -> None:
    """Write all bytes to an open file; on a disk that is nearly full, a write may be partial."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


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


def explain(error: Exception) -> str:
    """Return the sentence of an error; an OSError is about a file that cannot be used.

    >>> explain(OSError(28, "No space left on device", "labels.csv"))
    'labels.csv cannot be used: No space left on device.'
    """
    if not isinstance(error, OSError):
        return str(error)
    return f"{error.filename or 'A file'} cannot be used: {error.strerror or error}."
