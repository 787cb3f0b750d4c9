"""The machine of a peer's process: its disk fails, and its clock is off, when files say so.

| file       |                                                                     |
|------------|---------------------------------------------------------------------|
| `p3.full`  | while it exists, nothing more can be written to p3's directory      |
| `p3.sync`  | while it exists, fsync fails there                                  |
| `p3.clock` | has the seconds by which p3's clock is off                          |
| `p3.failed`| has a line for each call that failed                                |
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import time
from pathlib import Path
from typing import Any

from peerclust.testing import preload


def run_peer(arguments: list[str], directory: Path, name: str, lie: str = "") -> None:
    """Run a peer on its machine; `name` is that of its files, `lie` a function of a liar."""
    _break_disk(directory, name)
    _shift_clock(directory / f"{name[:2]}.clock")
    if lie:
        _find_liar(lie)(arguments, directory)
    else:
        preload.run_peer(arguments, directory, name)


def _helpers(module: str) -> Any:
    """Import a module of the helpers that tests share; they are not on the path of a command."""
    folder = str(Path(__file__).parents[1])
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(module)


def _find_liar(lie: str) -> Any:
    modules = _helpers("lying_peers"), _helpers("misbehaving_peers")
    return next(getattr(each, lie) for each in modules if hasattr(each, lie))


def _break_disk(directory: Path, name: str) -> None:
    full, sync, failed = (directory / f"{name}.{what}" for what in ("full", "sync", "failed"))
    disk = _helpers("faulty_disk")

    def note(call: str, path: object) -> None:
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        with failed.open("a") as file:
            file.write(f"{call} {path}\n")

    def on_write(*args: Any) -> int:
        reads = isinstance(args[1], str) and "r" in args[1]
        if reads or not full.exists():
            return 0
        note("write", args[0])
        return errno.ENOSPC

    def on_sync(*args: Any) -> int:
        if not sync.exists():
            return 0
        note("fsync", args[0])
        return errno.EIO

    calls = [(os, "write", on_write), (os, "mkdir", on_write), (io, "open", on_write)]
    for owner, call, find_error in [*calls, (os, "fsync", on_sync)]:
        setattr(owner, call, disk.make_faulty(owner, call, f"out-{name}", find_error))


def _shift_clock(file: Path) -> None:
    real = time.time_ns

    def shifted() -> int:
        return real() + (int(1e9 * float(file.read_text())) if file.exists() else 0)

    time.time_ns = shifted
    time.time = lambda: shifted() / 1e9
