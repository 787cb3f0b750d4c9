"""The path of a call through the package: what a reader of `cluster` has to follow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType

import peerclust as pc
from benchmarks.measures import Measure, Progress

_ROOT = str(Path(pc.__file__).parent)


def measure(progress: Progress) -> Iterator[Measure]:
    """Yield how many files one call enters, and how often it passes from one to another."""
    progress("one round of accelerated DGC on Iris, 10 users on a ring")
    rows, classes = pc.datasets.iris()
    parts = [rows[part] for part in pc.partition.homogeneous(classes, 10, random_state=0)]

    def call() -> None:
        pc.cluster(parts, n_clusters=3, solver="accelerated", rho=10, rounds=1, random_state=0)

    call()  # compiled, and all modules imported
    path = _trace(call)
    files, passes = len(set(path)), sum(a != b for a, b in pairwise(path))
    yield Measure("files", files, "files of the package that the call enters", at_most=42)
    yield Measure("passes", passes, "times that control passes to another file", at_most=365)


def _trace(call: Callable[[], None]) -> list[str]:
    """Return the file of each function of the package that a call calls, in order."""
    path: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_ROOT):
            path.append(frame.f_code.co_filename)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return path
