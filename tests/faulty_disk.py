"""Calls of the operating system that fail, below a directory, in this process."""

import io
import os
from contextlib import contextmanager
from pathlib import Path

FUNCTIONS = [
    (os, "open"), (os, "write"), (os, "fsync"), (os, "replace"), (os, "mkdir"), (os, "unlink"),
    (os, "ftruncate"), (io, "open"),
]  # fmt: skip


def make_faulty(owner, name, under, find_error):
    """Return a function that is called instead of another one, and fails below a directory.

    `find_error` is called with its arguments, and returns the number of the error, or 0.
    """
    real = getattr(owner, name)

    def call(*args, **kwargs):
        opened = isinstance(args[0], int)
        path = Path(f"/proc/self/fd/{args[0]}").readlink() if opened else args[0]
        # os.fdopen, which is io.open, does not touch the disk.
        if str(under) in os.fspath(path) and not (opened and name == "open"):
            code = find_error(*args)
            if code:
                # As in real ones, a descriptor has no name.
                raise OSError(code, os.strerror(code), *([] if opened else [path]))
        return real(*args, **kwargs)

    return call


@contextmanager
def failing(monkeypatch, owner, name, n, code, under):
    """Let the n-th call of a function, and all later ones, fail below a directory.

    Yield a list, which is empty as long as none has failed.
    """
    failed, calls = [], [0]

    def find_error(*args):
        calls[0] += 1
        if calls[0] <= n:
            return 0
        failed.append(args)
        return code

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, make_faulty(owner, name, under, find_error))
        yield failed
