"""Benchmarks, one a file: what is claimed of speed, memory and quality, measured within one run.

A benchmark's `measure(say, **options)` yields measures; a target is a ratio or a count, so that a
slow or busy machine changes both sides alike. `peerclust bench NAME` prints them. The options that
a benchmark takes are the keyword parameters of its `measure`, each with a default.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from peerclust.errors import ParameterError
from peerclust.report.machine import Machine, this_machine
from peerclust.validation import check_name

NAMES = ("core", "rounds", "outliers", "solvers", "choices", "fuzz", "peers", "chaos", "mpi")


@dataclass(frozen=True)
class Measure:
    """One number beside its target.

    `at_most` or `at_least` is the target; without either the number is only told. Words in place of
    a number, such as "not reached", meet no target.
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
        """Give the measure as JSON can say it."""
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
        """Give the report as one JSON object."""
        return {
            "name": self.name,
            "machine": asdict(self.machine),
            "measures": [measure.as_dict() for measure in self.measures],
        }


def run(name: str, say: Callable[[str], None] = lambda _: None, **options: Any) -> Report:
    """Run a benchmark; `say` is told what is being measured."""
    check_name(name, NAMES, "name", "bench")
    if name in ("fuzz", "peers", "chaos"):
        importlib.import_module("peerclust.runtimes.network")  # says which extra is missing
    measure = importlib.import_module(f"peerclust.bench.{name}").measure
    known = [option for option in inspect.signature(measure).parameters if option != "say"]
    for option, value in options.items():
        if option not in known:
            takes = f"takes only {', '.join(known)}" if known else "takes no options"
            raise ParameterError(
                f"`{option}` of bench must be left out with {name}, which {takes}. Got {value!r}."
            )
    return Report(name, this_machine(), list(measure(say, **options)))


def check_picture(out: str | PathLike[str]) -> None:
    """Raise unless a picture can be written there, which is known only after minutes."""
    if Path(out).suffix.lower() != ".png":
        raise ParameterError(f"`out` of bench must end in .png. Got {out}.")
    if not Path(out).absolute().parent.is_dir():
        raise ParameterError(f"`out` of bench must be in a folder that exists. Got {out}.")
    importlib.import_module("peerclust.report.figures")  # says which extra is missing


def ratio(
    ours: Callable[[], object], theirs: Callable[[], float], *, repeats: int = 5
) -> tuple[float, float, float]:
    """Give (ratio, our seconds, their seconds), medians of measurements taken in turns.

    `theirs` returns its own seconds, as it may time only a part of what it does.
    """
    ours()
    mine, other = [], []
    for _ in range(repeats):
        begin = perf_counter()
        ours()
        mine.append(perf_counter() - begin)
        other.append(theirs())
    return median(mine) / median(other), median(mine), median(other)
