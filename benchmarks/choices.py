"""The effect of rho, B and the loss on rounds, disagreement and robustness to outliers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.measures import Measure, Progress, check_picture, or_not_reached
from peerclust import graphs, partition
from peerclust.arrays import Array
from peerclust.clustering.cluster import cluster
from peerclust.datasets import iris
from peerclust.files import new_file
from peerclust.losses import Fair, Huber, KMeans, Logistic

_SEEDS = 5
_USERS = 10
_TOL = 1e-6
_MAX_ROUNDS = 100_000

_RHOS = (1, 10, 100, 1000, 10_000)
_UPDATES = (1, 2, 4, 8, 16)
_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
_LOSSES = {
    "K-means": KMeans(),
    "Huber, delta = 1": Huber(1.0),
    "logistic": Logistic(),
    "fair, eta = 1": Fair(1.0),
}


@dataclass(frozen=True, eq=False)
class Line:
    """One line of the figure: medians over seeds at each value of what is varied."""

    panel: str
    label: str
    x_label: str
    x: tuple[float, ...]
    y_label: str
    y: Array

    def measures(self) -> Iterator[Measure]:
        """Yield one measure per point."""
        for x, y in zip(self.x, self.y, strict=True):
            name = f"{self.label}, {self.x_label} = {x:g}: {self.y_label}"
            yield Measure(name, or_not_reached(y), f"{self.panel}; median of {_SEEDS} seeds")


def measure(
    progress: Progress, *, out: str | PathLike[str] = "peerclust-choices.png"
) -> Iterator[Measure]:
    """Yield the measures; the figure is saved to `out`."""
    check_picture(out)
    lines: list[Line] = []
    for what, vary in (("rho", _vary_rho), ("B", _vary_updates), ("outliers", _vary_outliers)):
        progress(f"varying {what}")
        for line in vary():
            lines.append(line)
            yield from line.measures()
    _draw(lines, Path(out))


def _parts(seed: int) -> list[Any]:
    rows, classes = iris()
    return [rows[i] for i in partition.homogeneous(classes, _USERS, random_state=seed)]


def _vary_rho() -> Iterator[Line]:
    panel = "Iris, ring(10), K-means"
    for solver in ("dgc", "accelerated"):
        found = np.array([[_solve_at(solver, rho, s) for rho in _RHOS] for s in range(_SEEDS)])
        rounds, apart = np.median(found, axis=0).T
        yield Line(f"{panel}: rounds to 1e-6", solver, "rho", _RHOS, "rounds", rounds)
    yield Line(
        f"{panel}: disagreement", "dgc and accelerated", "rho", _RHOS, "share of the spread", apart
    )


def _solve_at(solver: str, rho: float, seed: int) -> tuple[float, float]:
    end = cluster(
        _parts(seed), n_clusters=3, graph="ring", solver=solver, rho=rho, rounds=_MAX_ROUNDS,
        tol=_TOL, search="none", random_state=seed,
    ).certificate  # fmt: skip
    return end.rounds if end.residual <= 10 * _TOL else np.inf, end.disagreement / end.spread


def _vary_updates() -> Iterator[Line]:
    panel = "Iris, ring(10), accelerated, rho = 100"
    given: dict[str, Any] = {"n_clusters": 3, "rho": 100, "rounds": _MAX_ROUNDS, "tol": _TOL}
    given |= {"graph": "ring", "solver": "accelerated", "search": "none"}
    rounds = np.array(
        [
            [cluster(_parts(s), B=B, random_state=s, **given).certificate.rounds for B in _UPDATES]
            for s in range(_SEEDS)
        ]
    )
    middle = np.median(rounds, axis=0)
    for label, times in (("exchanges", np.array(_UPDATES)), ("passes over the rows", 1)):
        yield Line(panel, label, "B", _UPDATES, "number, to 1e-6", middle * times)


def _vary_outliers() -> Iterator[Line]:
    panel = "5 clusters of deviation 1, scattered outliers"
    for name, loss in _LOSSES.items():
        off = [[_center_error(loss, share, s) for share in _SHARES] for s in range(_SEEDS)]
        middle = np.median(np.array(off), axis=0)
        yield Line(panel, name, "share of outliers", _SHARES, "mean error", middle)


def _center_error(loss: Any, share: float, seed: int) -> float:
    """Return the mean distance between the true means and the centers matched to them."""
    rng = np.random.default_rng(seed)
    means = 10.0 * np.stack([np.cos(angles := np.arange(5) * 0.4 * np.pi), np.sin(angles)], axis=1)
    good = np.repeat(means, 180, axis=0) + rng.standard_normal((900, 2))
    n = round(900 * share / (1.0 - share))
    rows = rng.permutation(np.concatenate([good, rng.uniform(-50, 50, size=(n, 2))]))
    # Start at the true means: the question is where the loss has its minimum, not the start.
    end = cluster(
        np.array_split(rows, _USERS), n_clusters=5, loss=loss, graph=graphs.ring(_USERS),
        solver="admm", init=means, rounds=3000, tol=1e-4, random_state=seed,
    )  # fmt: skip
    apart = np.linalg.norm(end.consensus[:, None] - means[None], axis=2)
    return float(apart[linear_sum_assignment(apart)].mean())


def _draw(lines: list[Line], path: Path) -> None:
    from peerclust.report import figures
    from peerclust.report.pictures import CurvePanel, Curves, Series

    panels = []
    for panel in dict.fromkeys(line.panel for line in lines):
        mine = [line for line in lines if line.panel == panel]
        series = []
        for line in mine:
            reached = np.isfinite(line.y)
            x, y = np.array(line.x)[reached], line.y[reached]
            series.append(Series(line.label, x, y, np.zeros_like(y)))
        labels: Any = {"x_label": mine[0].x_label, "y_label": mine[0].y_label}
        panels.append(CurvePanel(panel, series, x_log=min(mine[0].x) > 0, y_log=True, **labels))
    with new_file(path) as file:
        figures.draw(Curves(panels, columns=2), file)
