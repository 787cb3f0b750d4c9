"""Curves of numbers round by round: which rounds are kept, their mean over runs, and the panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from peerclust.arrays import Array
from peerclust.paper.comparison import select
from peerclust.paper.experiment import Row
from peerclust.report.pictures import CurvePanel, Series

METHODS = ("DGC-KM", "DGC-HL", "DGC-LL", "DGC-FL")


def kept_rounds(rounds: int, most: int = 100) -> list[int]:
    """Return the rounds whose values are kept for a curve: dense at first, then sparser.

    >>> kept_rounds(10)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    """
    even = np.linspace(1, rounds, min(rounds, most))
    dense = np.geomspace(1, rounds, min(rounds, most))
    return sorted({round(float(t)) for t in np.concatenate([even, dense, [rounds // 2 or 1]])})


def curve(rows: Sequence[Row], column: str) -> tuple[Array, Array, Array]:
    """Return the rounds, and the mean and deviation of a column over the runs at each of them."""
    by_round: dict[int, list[float]] = {}
    for row in rows:
        by_round.setdefault(int(row["round"]), []).append(float(row[column]))
    rounds = np.array(sorted(by_round))
    mean = np.array([np.mean(by_round[t]) for t in rounds])
    std = np.array([np.std(by_round[t]) for t in rounds])
    return rounds.astype(np.float64), mean, std


def panels(
    rows: Sequence[Row],
    *,
    by: str,
    values: Sequence[Any],
    column: str,
    y_label: str,
    x_log: bool = False,
    y_log: bool = False,
    x_label: str = "round",
    stretch: Callable[[Any], float] = lambda _: 1.0,
) -> list[CurvePanel]:
    """Return one panel per method, with one curve per value of `by`.

    The rounds of a curve are multiplied by `stretch(value)`.
    """
    made = []
    for method in METHODS:
        series = []
        for value in values:
            x, mean, std = curve(select(rows, method=method, **{by: value}), column)
            # A log axis has no place for zero, or for what rounding errors leave below it.
            shown = mean > 0 if y_log else np.ones(len(x), bool)
            label = f"{by} = {value}"
            series.append(Series(label, x[shown] * stretch(value), mean[shown], std[shown]))
        made.append(CurvePanel(method, series, x_label, y_label, x_log, y_log))
    return made
