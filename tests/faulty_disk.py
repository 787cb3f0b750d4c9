"""Calls of the operating system that fail: the n-th one of a function, in this process."""

import io
import os
from contextlib import contextmanager
from pathlib import Path

FUNCTIONS = [
    (os, "open"), (os, "write"), (os, "fsync"), (os, "replace"), (os, "mkdir"), (os, "unlink"),
    (os, "ftruncate"), (io, "open"),
]  # fmt: skip


@contextmanager
def failing(monkeypatch, owner, name, n, code, under):
    """Let the n-th call of a function, and all later ones, fail below a directory.

    Yield a list, which is empty as long as none has failed.
    """
    real, failed, calls = getattr(owner, name), [], [0]

    def call(*args, **kwargs):
        opened = isinstance(args[0], int)
        path = Path(f"/proc/self/fd/{args[0]}").readlink() if opened else args[0]
        # os.fdopen, which is io.open, does not touch the disk.
        if str(under) in os.fspath(path) and not (opened and name == "open"):
            calls[0] += 1
            if calls[0] > n:
                failed.append(args)
                # As in real ones, a descriptor has no name.
                raise OSError(code, os.strerror(code), *([] if opened else [path]))
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, call)
        yield failed
