"""Which arrays of a solution are plotted; `peerclust.plots` draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from peerclust import plots
from peerclust.clustering.solution import Solution, find_nearest
from peerclust.errors import ParameterError
from peerclust.row_validation import check_parts, check_rows

if TYPE_CHECKING:
    from peerclust.plots import Axes


def plot(solution: Solution, rows: object, ax: object) -> Axes:
    """Plot rows, or the users' own centers if None, by cluster, with the joint centers."""
    m, K, d = solution.centers.shape
    points, labels = solution.centers.reshape(m * K, d), np.tile(np.arange(K, dtype=np.int32), m)
    if rows is not None:
        points = _as_rows(rows)
        if d > 1:
            points = points[:: max(-(-len(points) // plots.MAX_ROWS), 1)]
        labels = find_nearest(solution, points, solution.consensus, "plot")[0]
    axes = plots.get_axes(ax, "Solution.plot")
    centers = solution.consensus
    names = solution.feature_names or tuple(f"feature {j}" for j in range(d))
    if d > 2:
        if solution.scale is not None:
            points, centers = solution.scale.forward(points), solution.scale.forward(centers)
        mean, plane = plots.principal_plane(points if len(points) else centers)
        points, centers = (points - mean) @ plane, (centers - mean) @ plane
        names = ("first principal component", "second principal component")
    plots.draw_clusters(axes, points, labels, centers, names, are_rows=rows is not None)
    return axes


def plot_trace(solution: Solution, ax: object) -> Axes:
    """Plot the trace of a solution, residual and disagreement as fractions of the spread."""
    trace, certificate = solution.trace, solution.certificate
    if trace is None:
        raise ParameterError(
            "`plot_trace` must have a solution with a trace, which `cluster(trace=True)` and `fit"
            " --trace` record, and estimators and peers do not. Got one without."
        )
    axes = plots.get_axes(ax, "Solution.plot_trace")
    fractions = {
        "residual": trace.residual,
        "disagreement": trace.disagreement / certificate.spread,
    }
    plots.draw_trace(axes, trace.cost, fractions, search_from=certificate.rounds)
    return axes


def _as_rows(rows: object) -> NDArray[np.float64]:
    """Return the rows of an array, or of all users of a list or dict."""
    parts = list(rows.values()) if isinstance(rows, dict) else rows
    # A user without rows may be [], so the first part need not be 2-D.
    if isinstance(parts, list) and any(np.ndim(part) == 2 for part in parts):
        return check_rows(check_parts(parts)[0], "plot")
    return check_rows(rows, "plot")
