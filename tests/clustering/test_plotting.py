"""What the plots of a solution show, read back from the artists that were drawn."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import peerclust as pc
from peerclust import plots
from peerclust.errors import DataError, MissingExtraError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 5)) * [1.0, 2.0, 3.0, 1.0, 1.0] + 6 * RNG.integers(3, size=(90, 1))


def parts(d):
    return [X[:40, :d], X[40:, :d]]


def solve(d, **options):
    return pc.cluster(parts(d), n_clusters=3, random_state=0, **options)


def new_axes():
    return Figure().add_subplot()


def drawn(axes):
    """Return the points of each cluster, and of the joint centers last."""
    return [np.asarray(each.get_offsets()) for each in axes.collections]


@pytest.mark.parametrize(
    "given",
    [
        np.asarray,
        lambda x: [x[:40], x[40:]],
        lambda x: {"a": x},
        lambda x: [[], x],
        lambda x: {"a": x, "b": []},
    ],
)
def test_rows_in_the_plane_are_where_they_are_in_the_color_of_their_cluster(given):
    solution = solve(2)
    axes = solution.plot(given(X[:, :2]), ax=new_axes())
    *clusters, centers = drawn(axes)
    labels = solution.predict(X[:, :2])
    for k, points in enumerate(clusters):
        assert np.array_equal(points, X[labels == k, :2])
        color = axes.collections[k].get_facecolor()[0][:3]
        assert tuple(color) == to_rgb(plots.AREAS[k])
    assert np.array_equal(centers, solution.consensus)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("feature 0", "feature 1")
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["cluster 0", "cluster 1", "cluster 2", "joint centers"]


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_many_features_are_projected_without_stretching_distances_in_the_plane(scale):
    solution = solve(5, scale=scale)
    *clusters, centers = drawn(solution.plot(X, ax=new_axes()))
    rows = X if scale == "none" else (X - X.mean(axis=0)) / X.std(axis=0)
    points = np.concatenate(clusters)
    # The two largest variances are kept, whatever the order of the rows.
    largest = np.linalg.eigvalsh(np.cov(rows.T))[:-3:-1]
    np.testing.assert_allclose(points.var(axis=0, ddof=1), largest)
    for k, own in enumerate(clusters):
        np.testing.assert_allclose(own.mean(axis=0), centers[k], atol=0.05)


def test_without_rows_the_users_own_centers_are_shown():
    solution = solve(2, solver="dgc", rho=1, rounds=20, tol=0)
    *clusters, _ = drawn(solution.plot(ax=new_axes()))
    for k, points in enumerate(clusters):
        assert np.array_equal(points, solution.centers[:, k])
    many = solve(5).plot(ax=new_axes())
    assert len(drawn(many)) == 4


def test_one_feature_is_a_histogram_of_all_rows():
    solution = solve(1)
    axes = solution.plot(X[:, :1], ax=new_axes())
    heights = sum(bar.get_height() for bar in axes.patches)
    assert heights == len(X)
    assert drawn(axes)[-1][:, 0].tolist() == solution.consensus[:, 0].tolist()
    assert len(drawn(solution.plot(ax=new_axes()))) == 4


def test_rows_beyond_the_limit_are_thinned_at_equal_intervals():
    solution = solve(2)
    rows = np.tile(X[:, :2], (120, 1))
    points = np.concatenate(drawn(solution.plot(rows, ax=new_axes()))[:-1])
    assert len(points) == len(rows[::3]) <= plots.MAX_ROWS
    assert sorted(map(tuple, points)) == sorted(map(tuple, rows[::3]))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_no_rows_leave_the_joint_centers_alone(d):
    axes = solve(d).plot(np.empty((0, d)), ax=new_axes())
    axes.figure.draw_without_rendering()
    assert [len(points) for points in drawn(axes)][-1] == 3
    assert sum(len(points) for points in drawn(axes)) == 3


def test_axes_carry_feature_names_if_these_are_known():
    frame = pl.DataFrame(X[:, :2], schema=["mass", "size"])
    solution = pc.PeerClustering(3, random_state=0).fit(frame).solution_
    axes = solution.plot(frame, ax=new_axes())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("mass", "size")


def test_rows_that_do_not_fit_are_refused_before_a_figure_is_made():
    plt.close("all")
    with pytest.raises(DataError, match=r"^The rows of plot must have 2 features\. Got 3\.$"):
        solve(2).plot(X[:, :3])
    assert plt.get_fignums() == []


def test_a_trace_is_plotted_by_round():
    solution = solve(2, solver="accelerated", rho=5, trace=True, search="none")
    axes = solution.plot_trace(ax=new_axes())
    right = axes.figure.axes[1]
    rounds = np.arange(1, len(solution.trace) + 1)
    (cost,), (residual, disagreement) = axes.lines, right.lines
    spread = solution.certificate.spread
    for line, values in (
        (cost, solution.trace.cost),
        (residual, solution.trace.residual),
        (disagreement, solution.trace.disagreement / spread),
    ):
        assert np.array_equal(line.get_xdata(), rounds)
        np.testing.assert_array_equal(line.get_ydata(), np.where(values == 0, np.nan, values))
    assert right.get_yscale() == "log"


def test_a_trace_shows_where_the_search_began_and_no_line_for_zero():
    # Two centers begin in the first group, and one between the other two, far away.
    groups = np.array([[0.0, 0.0], [100.0, 0.0], [100.0, 20.0]])
    rows = np.repeat(groups, 20, axis=0) + RNG.normal(size=(60, 2))
    solution = pc.cluster(
        [rows], n_clusters=3, init=rows[[0, 1, 20]], search="swaps", trace=True, random_state=0
    )
    assert solution.certificate.search_rounds > 0
    axes = solution.plot_trace(ax=new_axes())
    _, begin = axes.lines
    assert begin.get_xdata()[0] == solution.certificate.rounds + 0.5
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["cost", "residual", "start of the search"]


def test_a_solution_without_a_trace_says_how_to_get_one():
    rows = np.arange(10.0).reshape(5, 2)
    model = pc.PeerClustering(n_clusters=2, random_state=0).fit(rows)
    for solution in (solve(2), model.solution_):
        with pytest.raises(ParameterError, match=r"`cluster\(trace=True\)` .* estimators .* not"):
            solution.plot_trace()


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    solution = solve(2, trace=True)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    for module in ("peerclust.plots", "peerclust.clustering.plotting"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.delattr(pc, "plots", raising=False)
    monkeypatch.delattr(pc.clustering, "plotting", raising=False)
    for method in (solution.plot, solution.plot_trace):
        with pytest.raises(MissingExtraError, match="extra `plots`"):
            method()
