"""What benchmarks share: a measure with its target, a report of them, and how to take one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from os import PathLike
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from peerclust.errors import ParameterError
from peerclust.report.machine import Machine

# Called with a line about what is being measured.
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Measure:
    """One number beside its target.

    `at_most` or `at_least` is the target; without either the number is only reported. A text in
    place of a number, such as "not reached", meets no target.
    """

    name: str
    value: float | str
    detail: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def target(self) -> float | None:
        """The number to meet, if there is one."""
        return self.at_most if self.at_most is not None else self.at_least

    @property
    def holds(self) -> bool:
        """Whether the number meets its target."""
        if isinstance(self.value, str):
            return self.target is None
        if self.at_most is not None:
            return self.value <= self.at_most
        return self.at_least is None or self.value >= self.at_least

    def as_dict(self) -> dict[str, Any]:
        """Return the measure as a JSON object."""
        detail = self.detail
        if self.target is not None:
            sense = "at most" if self.at_most is not None else "at least"
            detail = f"{sense} {self.target:g}: {detail}"
        return {
            "name": self.name,
            "value": self.value,
            "target": self.target,
            "holds": self.holds,
            "detail": detail,
        }


@dataclass(frozen=True)
class Report:
    """A benchmark's measures and the machine they were taken on."""

    name: str
    machine: Machine
    measures: Sequence[Measure]

    @property
    def holds(self) -> bool:
        """Whether every measure meets its target."""
        return all(measure.holds for measure in self.measures)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as one JSON object."""
        return {
            "name": self.name,
            "machine": asdict(self.machine),
            "measures": [measure.as_dict() for measure in self.measures],
        }


def check_picture(out: str | PathLike[str]) -> None:
    """Raise ParameterError unless a PNG file can be written to `out`.

    Benchmarks check this first, as they draw only after minutes of measuring.
    """
    if Path(out).suffix.lower() != ".png":
        raise ParameterError(f"`out` of benchmarks must end in .png. Got {out}.")
    if not Path(out).absolute().parent.is_dir():
        raise ParameterError(f"`out` of benchmarks must be in a folder that exists. Got {out}.")
    importlib.import_module("peerclust.report.figures")  # names the extra if it is missing


def ratio(
    ours: Callable[[], object], theirs: Callable[[], float], *, repeats: int = 5
) -> tuple[float, float, float]:
    """Return (ratio, our seconds, their seconds), medians of alternating measurements.

    `theirs` returns its own seconds, as it may time only a part of what it does.
    """
    ours()
    our_seconds, their_seconds = [], []
    for _ in range(repeats):
        begin = perf_counter()
        ours()
        our_seconds.append(perf_counter() - begin)
        their_seconds.append(theirs())
    ours_median, theirs_median = median(our_seconds), median(their_seconds)
    return ours_median / theirs_median, ours_median, theirs_median


def or_not_reached(value: float) -> float | str:
    """Return a number of rounds, or a ratio of such numbers, as the value of a measure.

    >>> or_not_reached(12.0), or_not_reached(float("inf"))
    (12.0, 'not reached')
    """
    return value if isfinite(value) else "not reached"
