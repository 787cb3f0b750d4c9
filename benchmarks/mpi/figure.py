"""The figure of the benchmark: seconds per round by ranks, measured and by the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from peerclust.arrays import Array
from peerclust.report import figures
from peerclust.report.pictures import CurvePanel, Curves, Series


def draw(
    measured: Mapping[str, Sequence[tuple[int, float, float]]],
    predicted: Mapping[str, Sequence[tuple[int, float]]],
    cores: int,
    path: Path,
) -> None:
    """Draw the seconds of a round by the number of ranks.

    `measured` has ranks, measured seconds and seconds by the model, for "strong" and "weak".
    `predicted` has ranks and seconds by the model, for each case with 10⁹ rows.
    """
    titles = {"strong": "Strong scaling", "weak": "Weak scaling"}
    panels = []
    for kind, title in titles.items():
        ranks, seconds, model = np.array(measured[kind], dtype=np.float64).T
        panels.append(
            CurvePanel(
                f"{title}, {cores} cores",
                [_series("measured", ranks, 1e3 * seconds), _series("model", ranks, 1e3 * model)],
                x_label="ranks",
                y_label="ms per round",
            )
        )
    series = [_series(label, *np.array(points).T) for label, points in predicted.items()]
    panels.append(
        CurvePanel(
            "Prediction: 10⁹ rows, one core per rank",
            series,
            x_label="ranks",
            y_label="seconds per round",
            x_log=True,
            y_log=True,
        )
    )
    figures.draw(Curves(panels, columns=3), path)


def _series(label: str, x: Array, y: Array) -> Series:
    return Series(label, x, y, np.zeros_like(y))
