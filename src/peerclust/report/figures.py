"""Draws the pictures of `report.pictures` into PNG files.

That module has the contents, this one the look, in the colors and markers of `plots`. Nothing here
changes pyplot or its settings.
"""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from peerclust.arrays import Array
from peerclust.plots import AREAS, DASHES, HATCHES, LINES, MARKERS, Axes
from peerclust.report.pictures import (
    CurvePanel,
    Curves,
    DotPanel,
    Dots,
    Embedding,
    Network,
    Picture,
    Series,
    Stacks,
)

# isort: split
# Below what says that matplotlib is missing.
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from peerclust.report.panels import (
    WIDTHS,
    legend_below,
    legend_right,
    lower_end,
    make_panels,
    set_scale,
    wrap,
    wrap_texts,
)

OUTLIERS = "outliers"
GRAY = "#8C8C8C"
# Shape, area and face of each method's centers. Three at the same place are visible inside each
# other.
CENTERS = (
    ("*", 560, "#F0E442"),
    ("X", 120, "white"),
    ("D", 26, "black"),
    ("P", 90, "#56B4E9"),
    ("^", 60, "#D55E00"),
    ("h", 40, "white"),
)

DPI = 200


def draw(picture: Picture, path: Path) -> None:
    """Draw a picture into a PNG file, with the same bytes each time."""
    # By default the file would contain the version of matplotlib.
    figure_of(picture).savefig(path, format="png", dpi=DPI, metadata={"Software": None})


def figure_of(picture: Picture) -> Figure:
    """Return the figure of a picture."""
    match picture:
        case Curves():
            figure = _curves(picture)
        case Dots():
            figure = _dots(picture)
        case Stacks():
            figure = _stacks(picture)
        case Network():
            figure = _network(picture)
        case Embedding():
            figure = _embedding(picture)
    wrap_texts(figure)
    return figure


def _curves(picture: Curves) -> Figure:
    """Draw mean lines with shaded deviations; a label looks the same in every panel."""
    labels = list(dict.fromkeys(each.label for panel in picture.panels for each in panel.series))
    figure = make_panels([panel.title for panel in picture.panels], picture.columns)
    for number, (axes, panel) in enumerate(zip(figure.axes, picture.panels, strict=True)):
        for each in panel.series:
            _curve(axes, panel, each, labels.index(each.label), len(labels))
        x, mean, std = np.hstack([(each.x, each.mean, each.std) for each in panel.series])
        ends = np.concatenate([lower_end(mean, std, log=panel.y_log), mean + std])
        set_scale(axes.xaxis, x, log=panel.x_log)
        set_scale(axes.yaxis, ends, log=panel.y_log)
        axes.set_xlabel(panel.x_label)
        # A label that the panel to the left has is not repeated.
        if number % picture.columns == 0 or panel.y_label != picture.panels[number - 1].y_label:
            axes.set_ylabel(panel.y_label)
    legend_below(figure)
    return figure


def _curve(axes: Axes, panel: CurvePanel, series: Series, style: int, styles: int) -> None:
    """Draw one line and its band; a log axis omits values at or below 0."""
    shown = (series.x > (0 if panel.x_log else -inf)) & (series.mean > (0 if panel.y_log else -inf))
    x, mean, std = series.x[shown], series.mean[shown], series.std[shown]
    low, high = lower_end(mean, std, log=panel.y_log), mean + std
    color = LINES[style % len(LINES)]
    axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)
    axes.plot(
        x,
        mean,
        color=color,
        linestyle=DASHES[style % len(DASHES)],
        linewidth=1.4,
        marker=MARKERS[style % len(MARKERS)],
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.5,
        markevery=_spread(np.log(x) if panel.x_log else x, style / styles),
        label=series.label,
    )


def _spread(places: Array, shift: float, count: int = 7) -> list[int]:
    """Choose the points that get a marker: evenly along the axis, each curve's shifted a little."""
    if len(places) <= 2 * count:
        return list(range(len(places)))
    wanted = places[0] + (places[-1] - places[0]) * (np.arange(count) + shift) / count
    return sorted({int(np.abs(places - place).argmin()) for place in wanted})


def _dots(picture: Dots) -> Figure:
    """Draw ours filled and the paper's hollow, one category per row, the first on top."""
    panels = picture.panels
    names = [[wrap(dot.label, 2.0) for dot in panel.dots] for panel in panels]
    # Heights in inches: the lines of the longest name, times the longest list in a row of panels.
    lines = max(name.count("\n") + 1 for each in names for name in each)
    rows = [names[i : i + picture.columns] for i in range(0, len(names), picture.columns)]
    heights = [0.8 + (0.12 + 0.15 * lines) * max(map(len, row)) for row in rows]
    figure = make_panels([panel.title for panel in panels], picture.columns, heights)
    for number, (axes, panel) in enumerate(zip(figure.axes, panels, strict=True)):
        _dot_panel(axes, panel)
        axes.set_yticks(range(len(panel.dots)), names[number])
        axes.set_ylim(len(panel.dots) - 0.5, -0.5)
        # Names that the panel to the left has are not repeated.
        shown = number % picture.columns == 0 or names[number] != names[number - 1]
        axes.tick_params(axis="y", length=0, labelleft=shown)
    legend_below(figure)
    return figure


def _dot_panel(axes: Axes, panel: DotPanel) -> None:
    # Ours is above the line only if the paper's is below it.
    ours = [(i - (0.15 if dot.paper else 0.0), dot.ours) for i, dot in enumerate(panel.dots)]
    paper = [(i + 0.15, dot.paper) for i, dot in enumerate(panel.dots) if dot.paper]
    ends: list[float] = []
    for points, label, marker, color, face in (
        (ours, "ours (mean ± std)", "o", "#0072B2", "#0072B2"),
        (paper, "paper", "s", "#D55E00", "white"),
    ):
        places = [place for place, _ in points]
        mean, std = np.array([pair for _, pair in points]).reshape(-1, 2).T
        low = lower_end(mean, std, log=panel.x_log)
        axes.errorbar(
            mean,
            places,
            xerr=[mean - low, std],
            fmt=marker,
            color=color,
            markerfacecolor=face,
            markersize=5,
            linewidth=1.2,
            label=label if points else None,
        )
        ends += [*low, *(mean + std)]
    set_scale(axes.xaxis, np.array(ends), log=panel.x_log)
    axes.set_xlabel(panel.x_label)


def _stacks(picture: Stacks) -> Figure:
    """Draw one bar per user, with a segment for each class."""
    figure = make_panels([panel.title for panel in picture.panels], 3)
    for axes, panel in zip(figure.axes, picture.panels, strict=True):
        tops = panel.counts.cumsum(axis=1)
        for c, counts in enumerate(panel.counts.T):
            axes.bar(
                np.arange(1, len(counts) + 1),
                counts,
                bottom=tops[:, c] - counts,
                width=0.86,
                color=AREAS[c % len(AREAS)],
                hatch=HATCHES[c % len(HATCHES)],
                edgecolor="white",
                # Many bars are too thin for edges.
                linewidth=0.6 if len(counts) <= 40 else 0,
                # Numbered as in the data: class 0 of MNIST is the digit 0.
                label=f"class {c}",
            )
        axes.grid(visible=False, axis="x")
        set_scale(axes.xaxis, tops)
        set_scale(axes.yaxis, tops)
        axes.set_ylim(0, 1.04 * tops.max())
        axes.set_xlim(0.4, len(tops) + 0.6)
        if len(tops) <= 12:
            axes.set_xticks(range(1, len(tops) + 1))
        axes.set_xlabel("user")
    figure.axes[0].set_ylabel("number of rows")
    legend_below(figure)
    return figure


def _network(picture: Network) -> Figure:
    """Draw numbered nodes over their links, as large as their distances allow."""
    figure = make_panels([picture.title], 1, [WIDTHS[1]])
    axes, places = figure.axes[0], picture.places
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.margins(0.06)
    links = LineCollection(list(places[picture.links]), colors=GRAY, linewidths=0.9, zorder=1)
    axes.add_collection(links)
    gaps = np.linalg.norm(places[:, None] - places, axis=2)
    np.fill_diagonal(gaps, inf)
    # The span of a single node is 0. A few nodes may overlap, or all would be small.
    span = np.ptp(places, axis=0).max() or 1.0
    gap = np.quantile(gaps.min(axis=1), 0.25, method="lower") / span
    points = float(np.clip(0.5 * 72 * WIDTHS[1] * gap, 8, 20))
    axes.scatter(
        places[:, 0], places[:, 1], s=points**2, color="#0072B2", edgecolors="white", zorder=2
    )
    for number, (x, y) in enumerate(places, 1):
        axes.text(
            x,
            y,
            str(number),
            ha="center",
            va="center_baseline",
            color="white",
            fontsize=0.45 * points,
            zorder=3,
        )
    return figure


def _embedding(picture: Embedding) -> Figure:
    """Draw rows as small markers, and each method's centers as large ones over them."""
    figure = make_panels([picture.title], 1, [4.0])
    axes = figure.axes[0]
    area = float(np.clip(3000 / len(picture.rows), 4, 14))
    for c, name in enumerate(picture.class_names):
        rows = picture.rows[picture.classes == c]
        style: dict[str, Any] = {"color": AREAS[c % len(AREAS)], "linewidths": 0}
        style["marker"] = MARKERS[c % len(MARKERS)]
        if name == OUTLIERS:
            style = {"color": GRAY, "linewidths": 0.8, "marker": "x"}
        axes.scatter(rows[:, 0], rows[:, 1], s=area, label=name, **style)
    for number, (name, centers) in enumerate(picture.centers):
        marker, large, face = CENTERS[number % len(CENTERS)]
        axes.scatter(
            centers[:, 0],
            centers[:, 1],
            s=large,
            marker=marker,
            color=face,
            edgecolors="black",
            # White around black stands out from the rows and from other methods' centers.
            path_effects=[withStroke(linewidth=2.4, foreground="white")],
            zorder=3 + number,
            label=f"centers of {name}",
        )
    set_scale(axes.xaxis, picture.rows[:, 0])
    set_scale(axes.yaxis, picture.rows[:, 1])
    axes.set_xlabel("first coordinate")
    axes.set_ylabel("second coordinate")
    legend_right(figure)
    return figure
