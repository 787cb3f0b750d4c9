"""The demo's figure (rows, users' and joint centers, one panel per loss) and its table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from peerclust.arrays import Array
from peerclust.errors import MissingExtraError
from peerclust.paper.demo import NAMES, Demo, Outcome

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtraError(
        "Pictures need matplotlib, which is not installed; it comes with the extra `plots`."
    ) from None


# The colors of Okabe and Ito can be told apart by all; the markers do without color.
CLASSES = (("#E69F00", "o"), ("#56B4E9", "s"), ("#009E73", "^"))
OUTLIERS = "#777777"


def draw(demo: Demo, path: Path) -> None:
    """Draw K-means beside Huber into a PNG file, each with a closer look at the good rows."""
    good = demo.data.rows[~demo.data.outlier]
    mean = good.mean(axis=0)
    plane = np.linalg.svd(good - mean, full_matrices=False)[2][:2]
    # The sign of a component is arbitrary: let the outliers lie to the upper right.
    plane *= np.sign(plane.sum(axis=1))[:, None]

    def project(points: Array) -> Array:
        return np.asarray((points - mean) @ plane.T)

    figure = Figure(figsize=(10, 5), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    low, high = project(good).min(axis=0) - 0.5, project(good).max(axis=0) + 0.5
    for axes, outcome in zip(panels, demo.outcomes, strict=False):
        near = axes.inset_axes((0.4, 0.03, 0.58, 0.42))
        near.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
        axes.indicate_inset_zoom(near, edgecolor="black")
        _mark_all(axes, demo, outcome, project)
        _mark_all(near, demo, outcome, project)
        rounds = outcome.solution.certificate.rounds
        axes.set_title(f"{outcome.title} found {outcome.verdict} in {rounds} rounds")
        axes.set_xlabel("first principal component of the good rows (cm)")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("second principal component (cm)")
    figure.suptitle("Iris with 20 % outliers, held by five users on a ring")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, format="png", dpi=110)


def _mark_all(axes: Axes, demo: Demo, outcome: Outcome, project: Callable[[Array], Array]) -> None:
    data, solution = demo.data, outcome.solution
    for k, (color, marker) in enumerate(CLASSES):
        good = project(data.rows[data.classes == k])
        _mark(axes, good, s=18, color=color, marker=marker, linewidths=0, label=NAMES[k])
    outliers = project(data.rows[data.outlier])
    _mark(axes, outliers, s=18, color=OUTLIERS, marker="x", label="outliers")
    joint = project(solution.consensus)
    _mark(axes, joint, s=230, color="black", edgecolors="white", marker="*", label="joint centers")
    own = project(np.concatenate(list(solution.centers)))
    _mark(
        axes, own, s=12, color="white", edgecolors="black", linewidths=0.8, label="users' centers"
    )


def _mark(axes: Axes, points: Array, **style: Any) -> None:
    axes.scatter(points[:, 0], points[:, 1], **style)


def demo_table(outcomes: list[Outcome]) -> Table:
    """Return the table of what each run of the demo found."""
    table = Table("run", "found", "missed", box=SIMPLE, collapse_padding=True, pad_edge=False)
    for name in ("furthest", "AUC", "rounds"):
        table.add_column(name, justify="right")
    table.add_column("status")
    for outcome in outcomes:
        table.add_row(
            outcome.title,
            f"{len(outcome.found)} of {len(outcome.found) + len(outcome.missed)}",
            ", ".join(outcome.missed) or "none",
            f"{outcome.distances.max():.2f}",
            f"{outcome.auc:.3f}",
            f"{outcome.solution.certificate.rounds:,}",
            outcome.solution.status.name,
        )
    return table
