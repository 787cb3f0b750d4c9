"""The demo's figure (rows, true means and joint centers, K-means beside Huber) and its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from peerclust.arrays import Array
from peerclust.errors import MissingExtraError
from peerclust.paper.demo import SHARE, USERS, Demo, K, Outcome

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtraError(
        "Pictures need matplotlib, which is not installed; it comes with the extra `plots`."
    ) from None


# The color-blind safe colors of Okabe and Ito; the markers differ without color, too.
GOOD, OUTLIERS = "#56B4E9", "#777777"


def draw(demo: Demo, path: Path) -> None:
    """Draw K-means beside Huber into a PNG file."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, outcome in zip(panels, demo.outcomes, strict=False):
        _mark_all(axes, demo, outcome)
        axes.set_title(f"{outcome.title} found {outcome.verdict}")
        axes.set_aspect("equal")
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{K} clusters and {SHARE:.0%} outliers, held by {USERS} users on a ring")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(path, format="png", dpi=110)


def _mark_all(axes: Axes, demo: Demo, outcome: Outcome) -> None:
    data, solution = demo.data, outcome.solution
    _mark(axes, data.rows[~data.outlier], s=7, color=GOOD, linewidths=0, label="clusters")
    _mark(axes, data.rows[data.outlier], s=14, color=OUTLIERS, marker="x", label="outliers")
    _mark(axes, data.means, s=90, color="black", marker="+", label="true means")
    style = {"s": 110, "color": "#D55E00", "edgecolors": "white", "linewidths": 0.7, "marker": "*"}
    _mark(axes, solution.consensus, **style, label="joint centers")


def _mark(axes: Axes, points: Array, **style: Any) -> None:
    axes.scatter(points[:, 0], points[:, 1], **style)


def demo_table(outcomes: list[Outcome]) -> Table:
    """Return the table of what each run of the demo found."""
    table = Table("run", "found", box=SIMPLE, collapse_padding=True, pad_edge=False)
    for name in ("furthest", "AUC", "users differ by", "rounds"):
        table.add_column(name, justify="right")
    table.add_column("status")
    for outcome in outcomes:
        table.add_row(
            outcome.title,
            f"{outcome.found} of {K}",
            f"{outcome.distances.max():.2f}",
            f"{outcome.auc:.3f}",
            f"{outcome.disagreement:.1%}",
            f"{outcome.rounds:,}",
            outcome.solution.status.name,
        )
    return table
