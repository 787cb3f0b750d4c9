"""Plots of a clustering on one pair of axes, and the colors and markers of all figures.

Colors that all readers can distinguish; line styles, markers and hatches that work without color.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.errors import MissingExtraError, ParameterError
from peerclust.text import parameter, show

try:
    from matplotlib.axes import Axes as Axes
except ImportError:
    raise MissingExtraError(
        "Pictures need matplotlib, which is not installed; it comes with the extra `plots`."
    ) from None

# The colors of Okabe and Ito. Yellow is too faint for a line, black too heavy for an area. The
# numbers of colors, dashes, hatches and markers are coprime, so that pairs seldom repeat.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
LINES = (*COLORS, "#000000")
AREAS = (*COLORS, "#F0E442")
DASHES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1.2)), (0, (8, 1.5, 1, 1.5, 1, 1.5)))
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx")
MARKERS = ("o", "s", "^", "D", "v", "P", "<", ">")

# More rows than these would hide each other, and more clusters would need too long a legend.
MAX_ROWS, MAX_NAMED = 5000, 12
BINS = 50


def get_axes(ax: object, of: str) -> Axes:
    """Return the axes that were given, or those of a new figure of pyplot if None."""
    if ax is None:
        # Only here: figures that are written to files need no pyplot.
        from matplotlib import pyplot

        axes: Axes = pyplot.subplots(layout="constrained")[1]
        axes.spines[["top", "right"]].set_visible(False)
        return axes
    if not isinstance(ax, Axes):
        raise ParameterError(parameter("ax", of) + f" must be axes of matplotlib. Got {show(ax)}.")
    return ax


def principal_plane(points: Array) -> tuple[Array, Array]:
    """Return the mean of points (n, d), d >= 2, and their first two principal components, (d, 2).

    >>> mean, plane = principal_plane(np.array([[0.0, 0.0, 3.0], [0.0, 8.0, 3.0]]))
    >>> mean.tolist(), np.abs(plane[:, 0]).round(6).tolist()
    ([0.0, 4.0, 3.0], [0.0, 1.0, 0.0])
    """
    mean = points.mean(axis=0)
    # With two rows of zeros there are two components, however few points there are.
    padded = np.concatenate([points - mean, np.zeros((2, points.shape[1]))])
    return mean, np.linalg.svd(padded, full_matrices=False)[2][:2].T


def draw_clusters(
    axes: Axes,
    points: Array,
    labels: NDArray[np.int32],
    centers: Array,
    names: Sequence[str],
    *,
    are_rows: bool,
) -> None:
    """Draw points (n, 1) or (n, 2) by cluster, and the joint centers (K, 1) or (K, 2) over them.

    The points are rows or, if there are none, the users' own centers.
    """
    K, d = centers.shape
    groups = [points[labels == k] for k in range(K)]
    # The legend leaves out names with an underscore.
    titles = [f"{'' if K <= MAX_NAMED else '_'}cluster {k}" for k in range(K)]
    colors = [AREAS[k % len(AREAS)] for k in range(K)]
    heights = np.zeros(K)
    if d == 1 and are_rows:
        flat = [group[:, 0] for group in groups]
        axes.hist(flat, bins=BINS, stacked=True, color=colors, label=titles)
        axes.set_ylabel("number of rows")
    else:
        for k, group in enumerate(groups):
            axes.scatter(
                group[:, 0],
                group[:, 1] if d == 2 else np.zeros(len(group)),
                s=float(np.clip(3000 / max(len(points), 1), 6, 30)),
                color=colors[k],
                marker=MARKERS[k % len(MARKERS)],
                linewidths=0,
                label=titles[k],
            )
    if d == 2:
        heights = centers[:, 1]
        axes.set_ylabel(names[1])
    elif not are_rows:
        axes.set_yticks([])
    axes.scatter(
        centers[:, 0],
        heights,
        s=180,
        marker="*",
        color="#F0E442",
        edgecolors="black",
        zorder=3,
        # A star on the axis of a histogram is whole.
        clip_on=d == 2,
        label="joint centers",
    )
    axes.set_xlabel(names[0])
    axes.legend(frameon=False, title=None if are_rows else "users' centers")


def draw_trace(axes: Axes, cost: Array, fractions: dict[str, Array], *, search_from: int) -> None:
    """Draw the cost of each round, and fractions of the spread on a logarithmic axis to the right.

    Zeros are left out, and so are fractions that are never above zero. If a search followed, a line
    after round `search_from` shows where it began.
    """
    rounds = np.arange(1, len(cost) + 1)
    right = axes.twinx()
    right.set_yscale("log")
    right.set_ylabel("fraction of the data's spread")
    lines = axes.plot(rounds, cost, color=LINES[0], label="cost")
    for number, (name, values) in enumerate(fractions.items(), 1):
        shown = np.where(values > 0, values, np.nan)
        if not np.isnan(shown).all():
            style, color = DASHES[number], LINES[number]
            lines += right.plot(rounds, shown, color=color, linestyle=style, label=name)
    if search_from < len(cost):
        start = search_from + 0.5
        lines.append(axes.axvline(start, color="gray", linewidth=0.8, label="start of the search"))
    axes.set_xlabel("round")
    axes.set_ylabel("cost")
    # Above the axes: inside, it would not see the lines of the other axis.
    axes.legend(handles=lines, frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
