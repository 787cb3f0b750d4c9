"""How the cost of a round grows with the rows N, the clusters K and the features d."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from peerclust.bench import Measure
from peerclust.bench.timing import USERS, time_rounds
from peerclust.files import new_file
from peerclust.types import Array

_ROUNDS = 200
_REPEATS = 3

# What is varied, its values, and N, K and d where they are not.
_SWEEPS = (
    ("N", (10_000, 100_000, 1_000_000, 10_000_000), {"K": 4, "d": 2}),
    ("K", (2, 4, 8, 16, 32, 64, 128, 256), {"N": 200_000, "d": 2}),
    ("d", (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), {"N": 20_000, "K": 10}),
)


@dataclass(frozen=True, eq=False)
class Curve:
    """Milliseconds of a round by the values of one of N, K and d."""

    name: str
    values: Sequence[int]
    fixed: str
    ms: Array

    @property
    def exponent(self) -> float:
        """The slope of log cost by log value, by least squares."""
        return float(np.polyfit(np.log(self.values), np.log(self.ms), 1)[0])

    @property
    def measure(self) -> Measure:
        """The exponent, and the costs it was fitted to."""
        told = ", ".join(
            f"{value:,}: {ms:.3g}" for value, ms in zip(self.values, self.ms, strict=True)
        )
        return Measure(
            f"exponent_of_{self.name}",
            self.exponent,
            f"ms a round by {self.name}: {told}; {self.fixed}",
        )


def measure_growth(say: Callable[[str], None]) -> Iterator[Curve]:
    """Give a curve for each of N, K and d."""
    for name, values, others in _SWEEPS:
        fixed = ", ".join(f"{other} = {value:,}" for other, value in others.items())
        ms = []
        for value in values:
            say(f"a round with {name} = {value:,} ({fixed})")
            ms.append(1e3 * _cost(**{**others, name: value}))
        told = f"{fixed}, {USERS} users, {_ROUNDS} rounds after the set-up"
        yield Curve(name, values, told, np.array(ms))


def _cost(*, N: int, K: int, d: int) -> float:
    """Give the seconds of a round with N rows of K Gaussians in d dimensions."""
    rng = np.random.default_rng(0)
    means = 2.0 * rng.normal(size=(K, d))
    rows = means[rng.integers(K, size=N)] + rng.normal(size=(N, d))
    time_rounds(rows[: max(len(rows) // 50, 10 * K)], K=K, rho=100.0, rounds=4)  # compiles
    found = [time_rounds(rows, K=K, rho=100.0, rounds=_ROUNDS + 2).each for _ in range(_REPEATS)]
    return median(found)


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draw the costs, with the fitted lines."""
    from peerclust.report import figures
    from peerclust.report.pictures import CurvePanel, Curves, Series

    panels = []
    for curve in curves:
        x = np.array(curve.values, dtype=float)
        slope, level = np.polyfit(np.log(x), np.log(curve.ms), 1)
        fit = np.exp(level) * x**slope
        series = [
            Series(label, x, mean, np.zeros_like(mean))
            for label, mean in (("a round", curve.ms), (f"{curve.name}^{slope:.2f}", fit))
        ]
        panels.append(
            CurvePanel(
                curve.fixed, series, x_label=curve.name, y_label="ms", x_log=True, y_log=True
            )
        )
    with new_file(path) as file:
        figures.draw(Curves(panels, columns=3), file)
