"""What all figures share: panels in a grid, scales and ticks, the legend, and texts that fit.

Only `report.figures` imports this module, after it has checked that matplotlib is installed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil, inf
from textwrap import fill

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axis import Axis
from matplotlib.collections import PathCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerErrorbar
from matplotlib.ticker import (
    LogFormatterSciNotation,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    ScalarFormatter,
)

from peerclust.arrays import Array

# Width in inches by the number of columns: the text is legible when the picture fills a page.
WIDTHS = {1: 4.8, 2: 7.2, 3: 9.0}
SMALL, NORMAL = 8.0, 9.0
# Approximate width of a character and height of a line at normal size, in inches.
CHARACTER_WIDTH = 0.075
LINE_HEIGHT = 0.16
# Ticks are multiples of these times a power of ten; 2.5 would need another digit.
STEPS = (1, 2, 5, 10)


def make_panels(titles: Sequence[str], columns: int, heights: Sequence[float] = ()) -> Figure:
    """Return a figure with a panel for each title; heights are in inches, one for each row."""
    columns = min(columns, len(titles))
    heights = heights or [2.6] * ceil(len(titles) / columns)
    size = (WIDTHS.get(columns, 3.0 * columns), sum(heights))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for number, title in enumerate(titles):
        axes = figure.add_subplot(grid[divmod(number, columns)])
        axes.set_title(title)
        axes.grid(color="#E4E4E4", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=SMALL)
    return figure


class _Plain(ScalarFormatter):
    """Plain numbers with commas between the thousands."""

    def __init__(self) -> None:
        super().__init__(useOffset=False)
        self.set_scientific(False)

    def __call__(self, x: float, pos: int | None = None) -> str:
        whole, *rest = super().__call__(x, pos).split(".")
        return ".".join([re.sub(r"(?<=\d)(?=(\d{3})+$)", ",", whole), *rest])


def set_scale(axis: Axis, values: Array, *, log: bool = False) -> None:
    """Set the scale and the ticks of an axis; a log axis does not show values at or below 0."""
    name = "x" if axis is axis.axes.xaxis else "y"
    # Numbers need more room side by side than one above the other.
    even = MaxNLocator({"x": 5, "y": 7}[name], steps=STEPS, min_n_ticks=3)
    axis.set_major_locator(even)
    axis.set_major_formatter(_Plain())
    if not log:
        return
    positive = values[np.isfinite(values) & (values > 0)]
    low, high = (positive.min(), positive.max()) if positive.size else (1.0, 10.0)
    pad = max((high / low) ** 0.04, 1.05)
    # A new scale sets its own ticks: powers of ten, which are too few on a short axis.
    axis.axes.set(**{f"{name}scale": "log", f"{name}lim": (low / pad, high * pad)})
    axis.set_minor_formatter(NullFormatter())
    if high < 100 * low:
        axis.set_major_locator(even if high < 10 * low else LogLocator(subs=(1, 2, 5)))
        powers = LogFormatterSciNotation(minor_thresholds=(inf, inf))
        axis.set_major_formatter(_Plain() if low > 1e-4 and high < 1e6 else powers)


def lower_end(mean: Array, std: Array, *, log: bool) -> Array:
    """Return mean - std; on a log axis, where it may not be positive, at least mean / 10."""
    return np.maximum(mean - std, np.minimum(mean, mean / 10)) if log else mean - std


def legend_below(figure: Figure) -> None:
    """Put one legend of all panels below them, in as few rows as fit, and make room for it."""
    handles: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(wrap(label, 3.0), handle)
    for rows in range(1, len(handles) + 1):
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=ceil(len(handles) / rows),
            frameon=False,
            fontsize=SMALL,
            handlelength=2.8,
            handler_map={ErrorbarContainer: HandlerErrorbar(xerr_size=1.0)},
        )
        box = legend.get_window_extent()
        if box.width < figure.bbox.width or rows == len(handles):
            figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)
            return
        legend.remove()


def legend_right(figure: Figure) -> None:
    """Put the legend of the only panel to its right, and make room for it."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    legend = figure.legend(
        handles,
        [wrap(label, 2.0) for label in labels],
        loc="outside right upper",
        frameon=False,
        fontsize=SMALL,
        labelspacing=0.9,
    )
    for handle in legend.legend_handles:
        if isinstance(handle, PathCollection):
            handle.set_sizes(np.clip(handle.get_sizes(), 16, 250))
    box = legend.get_window_extent()
    figure.set_figwidth(figure.get_figwidth() + box.width / figure.dpi)
    figure.set_figheight(max(figure.get_figheight(), box.height / figure.dpi + 0.2))


def wrap(text: str, inches: float) -> str:
    """Break a text into lines of about this length."""
    return fill(text, max(int(inches / CHARACTER_WIDTH), 8))


def wrap_texts(figure: Figure) -> None:
    """Break the titles and labels that are longer than their panel, whose size is now known."""
    for axes in figure.axes:
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
            text.set_fontsize(NORMAL)
    figure.draw_without_rendering()
    for axes in figure.axes:
        box = axes.get_window_extent()
        for text, length in (
            (axes.title, box.width),
            (axes.xaxis.label, box.width),
            (axes.yaxis.label, box.height),
        ):
            text.set_text(wrap(text.get_text(), length / figure.dpi))
    more = max(f"{axes.get_title()}{axes.get_xlabel()}".count("\n") for axes in figure.axes)
    rows = len({round(axes.get_position().y0, 3) for axes in figure.axes})
    figure.set_figheight(figure.get_figheight() + rows * more * LINE_HEIGHT)
