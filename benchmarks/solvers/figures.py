"""The figures of the benchmark: solvers by rounds and cases, and message formats by bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from benchmarks.solvers.message_formats import Curve
from peerclust.arrays import Array
from peerclust.plots import DASHES, LINES, MARKERS
from peerclust.report import figures
from peerclust.report.figures import DPI, GRAY
from peerclust.report.panels import SMALL, legend_below, make_panels, set_scale, wrap_texts
from peerclust.report.pictures import CurvePanel, Curves, Series

# The lower end of the axis of gaps, far below all levels, and the rounding error of a cost.
_LOWEST = 1e-9
_ROUNDING = 1e-13


def draw_solvers(
    gaps: Mapping[str, Array],
    rounds: Mapping[str, Sequence[float]],
    cases: Sequence[str],
    titles: tuple[str, str],
    path: Path,
) -> None:
    """Draw the gap of each solver round by round, and next to it its rounds in every case.

    `gaps` has the gaps after each round; `rounds` is infinity where a level was not reached.
    """
    figure = make_panels(titles, 2, [0.9 + 0.24 * len(cases)])
    figure.set_figwidth(10.0)
    left, right = figure.axes
    _plot_gaps(left, gaps)
    _plot_rounds(right, rounds, cases)
    legend_below(figure)
    wrap_texts(figure)
    figure.savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def draw_formats(curves: Sequence[Curve], path: Path) -> None:
    """Draw cost and disagreement against the bits sent; the first curve is that of float64."""
    end = curves[0].cost[-1]
    excess = [_series(each, np.abs(each.cost / end - 1.0)) for each in curves]
    disagreement = [_series(each, each.disagreement) for each in curves]
    axes: Any = {"x_label": "bits per link and direction", "x_log": True, "y_log": True}
    panels = [
        CurvePanel(
            "J_rho relative to its final value in float64, minus 1",
            excess,
            y_label="difference",
            **axes,
        ),
        CurvePanel("Disagreement", disagreement, y_label="fraction of the spread", **axes),
    ]
    figures.draw(Curves(panels), path)


def _series(curve: Curve, values: Array) -> Series:
    shown = values > _ROUNDING
    return Series(curve.form, curve.bits[shown], values[shown], np.zeros(int(shown.sum())))


def _plot_gaps(axes: Axes, gaps: Mapping[str, Array]) -> None:
    for number, (solver, gap) in enumerate(gaps.items()):
        axes.plot(
            np.arange(1, len(gap) + 1),
            gap,
            # Evenly along the line, shifted a little for each solver.
            markevery=(0.02 * number, 0.15),
            label=solver,
            linestyle=DASHES[number % len(DASHES)],
            linewidth=1.4,
            **_style(number),
        )
    every = np.concatenate(list(gaps.values())).clip(min=_LOWEST)
    set_scale(axes.xaxis, np.array([1.0, max(map(len, gaps.values()))]), log=True)
    set_scale(axes.yaxis, every, log=True)
    axes.set_xlabel("rounds")
    axes.set_ylabel("larger of pooled residual and disagreement")


def _plot_rounds(axes: Axes, rounds: Mapping[str, Sequence[float]], cases: Sequence[str]) -> None:
    found = np.array(list(rounds.values()), dtype=np.float64)
    finite = found[np.isfinite(found)]
    largest = finite.max() if finite.size else 1.0
    # Solvers that do not reach the level are drawn next to each other.
    never = 2.0 * largest * 1.25 ** np.arange(len(rounds))
    for number, solver in enumerate(rounds):
        # One below the other, as several may take the same number of rounds.
        places = np.arange(len(cases)) + 0.21 * (number - 0.5 * (len(rounds) - 1))
        shown = np.where(np.isfinite(found[number]), found[number], never[number])
        style = _style(number) | {"markersize": 3.4}
        axes.plot(shown, places, linestyle="none", label=solver, **style)
    if not np.isfinite(found).all():
        axes.axvline(1.5 * largest, color=GRAY, linewidth=0.8)
        axes.text(never[0], -0.9, "not reached", ha="left", va="bottom", fontsize=SMALL)
    set_scale(axes.xaxis, np.append(finite, never), log=True)
    axes.set_yticks(range(len(cases)), cases)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("rounds")


def _style(number: int) -> dict[str, Any]:
    return {
        "color": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 4.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.5,
    }
