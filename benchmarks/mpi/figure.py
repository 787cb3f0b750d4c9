"""The picture of `bench.mpi`: rounds by ranks as they were measured and as the model has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from peerclust.report import figures
from peerclust.report.pictures import CurvePanel, Curves, Series


def draw(
    measured: Mapping[str, Sequence[tuple[int, float, float]]],
    paper: Mapping[str, Sequence[tuple[int, float]]],
    cores: int,
    path: Path,
) -> None:
    """Draw seconds of a round by ranks.

    `measured` holds ranks, seconds and those of the model for "strong" and "weak"; `paper` ranks
    and seconds of the model for each case of a thousand million rows.
    """
    titles = {"strong": "Strong: the same rows", "weak": "Weak: as many rows a rank"}
    panels = []
    for kind, title in titles.items():
        ranks, seconds, model = np.array(measured[kind], dtype=np.float64).T
        panels.append(
            CurvePanel(
                f"{title}, {cores} cores",
                [_series("measured", ranks, 1e3 * seconds), _series("model", ranks, 1e3 * model)],
                x_label="ranks",
                y_label="ms a round",
            )
        )
    series = [_series(label, *np.array(points).T) for label, points in paper.items()]
    panels.append(
        CurvePanel(
            "On paper: 10⁹ rows, a core a rank",
            series,
            x_label="ranks",
            y_label="seconds a round",
            x_log=True,
            y_log=True,
        )
    )
    figures.draw(Curves(panels, columns=3), path)


def _series(label: str, x: figures.Array, y: figures.Array) -> Series:
    return Series(label, x, y, np.zeros_like(y))
