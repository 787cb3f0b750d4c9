"""The pictures of `bench.solvers`: solvers by rounds and cases, and messages' forms by bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from peerclust.bench.solver_exchange import Curve
from peerclust.report import figures
from peerclust.report.figures import DASHES, DPI, GRAY, LINES, MARKERS
from peerclust.report.panels import SMALL, legend_below, make_panels, set_scale, wrap_texts
from peerclust.report.pictures import CurvePanel, Curves, Series
from peerclust.types import Array

# Where the axis of courses ends, far below all levels, and where a cost's digits do.
_LOWEST = 1e-9
_ROUNDING = 1e-13


def draw_solvers(
    courses: Mapping[str, Array],
    rounds: Mapping[str, Sequence[float]],
    cases: Sequence[str],
    titles: tuple[str, str],
    path: Path,
) -> None:
    """Draw each solver's course, and beside it its rounds in every case.

    `courses` are how far it was after each round, `rounds` infinity where it did not arrive.
    """
    figure = make_panels(titles, 2, [0.9 + 0.24 * len(cases)])
    figure.set_figwidth(10.0)
    left, right = figure.axes
    _show_courses(left, courses)
    _show_rounds(right, rounds, cases)
    legend_below(figure)
    wrap_texts(figure)
    figure.savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def draw_exchange(curves: Sequence[Curve], path: Path) -> None:
    """Draw cost and disagreement against the bits sent; the first curve is not rounded."""
    end = curves[0].cost[-1]
    excess = [_series(each, np.abs(each.cost / end - 1.0)) for each in curves]
    apart = [_series(each, each.apart) for each in curves]
    axes: Any = {"x_label": "bits a link has carried, each way", "x_log": True, "y_log": True}
    panels = [
        CurvePanel("J_rho above its end in float64", excess, y_label="relative", **axes),
        CurvePanel("Disagreement", apart, y_label="share of the spread", **axes),
    ]
    figures.draw(Curves(panels), path)


def _series(curve: Curve, values: Array) -> Series:
    shown = values > _ROUNDING
    return Series(curve.form, curve.bits[shown], values[shown], np.zeros(int(shown.sum())))


def _show_courses(axes: Axes, courses: Mapping[str, Array]) -> None:
    for number, (solver, far) in enumerate(courses.items()):
        axes.plot(
            np.arange(1, len(far) + 1),
            far,
            # Evenly along the line, each solver's a little further on.
            markevery=(0.02 * number, 0.15),
            label=solver,
            linestyle=DASHES[number % len(DASHES)],
            linewidth=1.4,
            **_style(number),
        )
    every = np.concatenate(list(courses.values())).clip(min=_LOWEST)
    set_scale(axes.xaxis, np.array([1.0, max(map(len, courses.values()))]), log=True)
    set_scale(axes.yaxis, every, log=True)
    axes.set_xlabel("rounds")
    axes.set_ylabel("pooled residual or disagreement, the larger")


def _show_rounds(axes: Axes, rounds: Mapping[str, Sequence[float]], cases: Sequence[str]) -> None:
    found = np.array(list(rounds.values()), dtype=np.float64)
    finite = found[np.isfinite(found)]
    largest = finite.max() if finite.size else 1.0
    # Solvers that do not arrive stand beside each other.
    never = 2.0 * largest * 1.25 ** np.arange(len(rounds))
    for number, solver in enumerate(rounds):
        # One below the other, for many take as many rounds as another.
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
