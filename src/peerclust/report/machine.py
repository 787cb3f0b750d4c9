"""The machine on which numbers were measured: the processor and the relevant versions."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """The machine on which numbers were measured."""

    processor: str
    cores: int
    python: str
    versions: dict[str, str]


def this_machine() -> Machine:
    """Return the processor, the number of cores and the relevant versions."""
    packages = ("peerclust", "numpy", "scipy", "scikit-learn", "numba")
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        versions={package: version(package) for package in packages},
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
