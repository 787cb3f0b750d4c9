"""How the cost of a round grows with the number of rows N, of clusters K and of features d."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.measures import Measure, Progress
from benchmarks.round_timing import SETUP_ROUNDS, USERS, time_rounds
from peerclust.arrays import Array
from peerclust.files import new_file

_ROUNDS = 200
_REPEATS = 3

# The parameter that is varied, its values, and the fixed values of the others.
_SWEEPS = (
    ("N", (10_000, 100_000, 1_000_000, 10_000_000), {"K": 4, "d": 2}),
    ("K", (2, 4, 8, 16, 32, 64, 128, 256), {"N": 200_000, "d": 2}),
    ("d", (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), {"N": 20_000, "K": 10}),
)


@dataclass(frozen=True, eq=False)
class Curve:
    """Milliseconds of a round at several values of N, K or d."""

    name: str
    values: Sequence[int]
    fixed: str
    ms: Array

    @property
    def exponent(self) -> float:
        """The least-squares slope of log cost against log value."""
        return float(np.polyfit(np.log(self.values), np.log(self.ms), 1)[0])

    @property
    def measure(self) -> Measure:
        """The exponent, with the costs that it was fitted to."""
        costs = ", ".join(
            f"{value:,}: {ms:.3g}" for value, ms in zip(self.values, self.ms, strict=True)
        )
        return Measure(
            f"exponent_of_{self.name}",
            self.exponent,
            f"ms per round by {self.name}: {costs}; {self.fixed}",
        )


def measure_growth(progress: Progress) -> Iterator[Curve]:
    """Yield a curve for each of N, K and d."""
    for name, values, others in _SWEEPS:
        fixed = ", ".join(f"{other} = {value:,}" for other, value in others.items())
        ms = []
        for value in values:
            progress(f"one round with {name} = {value:,} ({fixed})")
            ms.append(1e3 * _cost(**{**others, name: value}))
        setting = f"{fixed}, {USERS} users, {_ROUNDS} rounds after the set-up"
        yield Curve(name, values, setting, np.array(ms))


def _cost(*, N: int, K: int, d: int) -> float:
    """Return the seconds of a round with N rows drawn from K Gaussians in d dimensions."""
    rng = np.random.default_rng(0)
    means = 2.0 * rng.normal(size=(K, d))
    rows = means[rng.integers(K, size=N)] + rng.normal(size=(N, d))
    time_rounds(rows[: max(len(rows) // 50, 10 * K)], K=K, rho=100.0, rounds=4)  # compiles
    rounds = _ROUNDS + SETUP_ROUNDS
    return median(time_rounds(rows, K=K, rho=100.0, rounds=rounds).later for _ in range(_REPEATS))


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draw the measured costs and the fitted lines."""
    from peerclust.report import figures
    from peerclust.report.pictures import CurvePanel, Curves, Series

    panels = []
    for curve in curves:
        x = np.array(curve.values, dtype=float)
        slope, level = np.polyfit(np.log(x), np.log(curve.ms), 1)
        fit = np.exp(level) * x**slope
        series = [
            Series(label, x, mean, np.zeros_like(mean))
            for label, mean in (("measured", curve.ms), (f"{curve.name}^{slope:.2f}", fit))
        ]
        panels.append(
            CurvePanel(
                curve.fixed, series, x_label=curve.name, y_label="ms", x_log=True, y_log=True
            )
        )
    with new_file(path) as file:
        figures.draw(Curves(panels, columns=3), file)
