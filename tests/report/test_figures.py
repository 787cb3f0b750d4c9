from __future__ import annotations

import importlib
import sys
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import same_color, to_rgb
from matplotlib.image import imread
from matplotlib.text import Text
from samples import PICTURES, X, curves, dots, embedding, falling, network, stacks

from peerclust.errors import MissingExtraError
from peerclust.report import figures
from peerclust.report.pictures import CurvePanel, Curves, Dot, DotPanel, Dots, Network, Series

ONE_OF_EACH_KIND = ["one curve", "dots", "stacks", "network", "embedding"]
OTHERS = [name for name in PICTURES if name not in ONE_OF_EACH_KIND]


@pytest.fixture(scope="module", params=PICTURES)
def drawn(request):
    """A picture and its figure as it is saved, for tests that change nothing."""
    figure = figures.figure_of(PICTURES[request.param])
    figure.set_dpi(200)
    figure.draw_without_rendering()
    return PICTURES[request.param], figure


def legend_texts(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def tick_texts(axis):
    axis.axes.figure.draw_without_rendering()
    return [text.get_text() for text in axis.get_ticklabels()]


def check_png(path):
    pixels = imread(path)
    height, width = pixels.shape[:2]
    assert width >= 4.8 * 200
    assert height >= 200
    assert 0.0 < (pixels[..., :3] < 0.9).any(axis=2).mean() < 0.7


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_a_picture_becomes_a_png_of_the_same_bytes_each_time(name, tmp_path):
    for place in ("a.png", "b.png"):
        figures.draw(PICTURES[name], tmp_path / place)
    check_png(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_picture_becomes_a_png_that_can_be_read(name, tmp_path):
    figures.draw(PICTURES[name], tmp_path / "a.png")
    check_png(tmp_path / "a.png")


def test_every_text_is_inside_the_picture(drawn):
    _, figure = drawn
    hidden = hidden_numbers(figure)
    for text in figure.findobj(Text):
        box = text.get_window_extent()
        if text.get_text() and text.get_visible() and text not in hidden:
            assert box.x0 >= 0, text
            assert box.y0 >= 0, text
            assert box.x1 <= figure.bbox.x1, text
            assert box.y1 <= figure.bbox.y1, text


def hidden_numbers(figure):
    """Return the tick labels beyond an end of their axis, or of an axis that is off."""
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not (axes.axison and low <= tick.get_loc() <= high):
                    hidden |= {tick.label1, tick.label2}
    return hidden


def test_no_legend_covers_a_panel(drawn):
    _, figure = drawn
    for legend in figure.legends:
        for axes in figure.axes:
            assert not legend.get_window_extent().overlaps(axes.get_tightbbox())


def test_nothing_drawn_is_nan_or_infinite(drawn):
    for axes in drawn[1].axes:
        for line in axes.lines:
            assert np.isfinite(np.asarray(line.get_xydata())).all()
        for collection in axes.collections:
            for path in collection.get_paths():
                assert np.isfinite(path.vertices).all()


def test_titles_and_axes_are_named(drawn):
    picture, figure = drawn
    titles = [p.title for p in getattr(picture, "panels", [picture])]
    assert [axes.get_title().replace("\n", " ") for axes in figure.axes] == titles
    if not isinstance(picture, Network):
        assert all(axes.get_xlabel() for axes in figure.axes)


@pytest.mark.parametrize("log", [False, True])
def test_axes_have_the_requested_scale(log):
    scale = "log" if log else "linear"
    for axes in figures.figure_of(curves(log=log)).axes:
        assert (axes.get_xscale(), axes.get_yscale()) == (scale, scale)
    for axes in figures.figure_of(dots(log=log)).axes:
        assert (axes.get_xscale(), axes.get_yscale()) == (scale, "linear")


def test_the_line_is_the_mean_and_the_band_the_deviation():
    axes = figures.figure_of(curves(count=1, series=1, std=0.5)).axes[0]
    mean = 100 * X**-1.5
    np.testing.assert_allclose(axes.lines[0].get_xydata(), np.stack([X, mean], axis=1))
    corners = axes.collections[0].get_paths()[0].vertices
    for x, y in zip(X, mean, strict=True):
        at = corners[np.isclose(corners[:, 0], x), 1]
        np.testing.assert_allclose([at.min(), at.max()], [y / 2, 1.5 * y])


def test_a_band_below_zero_ends_near_the_mean_on_a_log_axis():
    axes = figures.figure_of(curves(log=True, count=1, series=1, std=3)).axes[0]
    mean = 100 * X**-1.5
    corners = axes.collections[0].get_paths()[0].vertices
    for x, y in zip(X, mean, strict=True):
        at = corners[np.isclose(corners[:, 0], x), 1]
        np.testing.assert_allclose([at.min(), at.max()], [y / 10, 4 * y])
    assert axes.get_ylim()[0] > mean.min() / 30


def test_a_log_axis_omits_points_at_or_below_zero():
    mean = np.array([3.0, 1.0, 0.0, -1e-9])
    series = [Series("a", np.arange(4.0), mean, np.ones(4)), Series("b", X, 0 * X, 0 * X)]
    figure = figures.figure_of(Curves([CurvePanel("", series, "x", "y", True, True)]))
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[1.0, 1.0]]
    assert len(figure.axes[0].lines[1].get_xydata()) == 0
    assert legend_texts(figure) == ["a", "b"]


def test_a_label_looks_the_same_in_every_panel_and_is_in_the_legend_once():
    first, second, third = (falling(name, 0.1) for name in "abc")
    shown = [CurvePanel("", each, "x", "y") for each in ([first, second], [third, first])]
    figure = figures.figure_of(Curves(shown))
    (a, _), (_, other) = (axes.lines for axes in figure.axes)
    assert a.get_color() == other.get_color()
    assert a.get_marker() == other.get_marker()
    assert legend_texts(figure) == ["a", "b", "c"]


def test_a_label_that_the_left_panel_has_is_not_repeated():
    figure = figures.figure_of(curves(count=3))
    assert [axes.get_ylabel() for axes in figure.axes] == ["cost", "", "cost"]
    for axes, shown in zip(figures.figure_of(dots()).axes, [True, False, True], strict=True):
        assert tick_texts(axes.yaxis) == (["DGC-KM", "LGC-KM"] if shown else [])


def test_dots_are_listed_ours_filled_and_the_papers_hollow():
    figure = figures.figure_of(dots())
    axes = figure.axes[0]
    assert tick_texts(axes.yaxis) == ["DGC-KM", "LGC-KM"]
    assert axes.yaxis_inverted()
    ours, paper = (container.lines[0] for container in axes.containers)
    assert ours.get_xdata().tolist() == [1.0, 0.02]
    assert paper.get_xdata().tolist() == [1.1]
    assert ours.get_ydata()[0] < 0 < paper.get_ydata()[0]
    assert same_color(ours.get_markerfacecolor(), ours.get_color())
    assert same_color(paper.get_markerfacecolor(), "white")
    assert legend_texts(figure) == ["ours (mean ± std)", "paper"]


def test_the_legend_omits_the_paper_if_it_has_no_number():
    alone = Dots([DotPanel("", [Dot("a", (1.0, 0.1), None)], "x")])
    assert legend_texts(figures.figure_of(alone)) == ["ours (mean ± std)"]


def test_error_bars_reach_from_mean_minus_std_to_mean_plus_std():
    for log, low in ((False, -0.28), (True, 0.002)):
        axes = figures.figure_of(dots(log=log)).axes[0]
        bars = axes.containers[0].lines[2][0].get_segments()
        ends = [[end[0] for end in bar] for bar in bars]
        np.testing.assert_allclose(ends, [[0.7, 1.3], [low, 0.32]])


def test_bars_of_a_user_add_up_to_its_rows_and_classes_are_named_once():
    picture = stacks()
    figure = figures.figure_of(picture)
    for axes, panel in zip(figure.axes, picture.panels, strict=True):
        heights = [[bar.get_height() for bar in part] for part in axes.containers]
        assert np.array_equal(np.transpose(heights), panel.counts)
        tops = [bar.get_y() + bar.get_height() for bar in axes.containers[-1]]
        assert tops == panel.counts.sum(axis=1).tolist()
        assert tick_texts(axes.xaxis) == [str(i) for i in range(1, 11)]
    assert legend_texts(figure) == [f"class {c}" for c in range(10)]
    assert figure.axes[0].get_ylabel() == "number of rows"


def test_nodes_are_numbered_from_one_and_drawn_over_their_links():
    picture = network()
    axes = figures.figure_of(picture).axes[0]
    links, nodes = axes.collections
    assert links.get_zorder() < nodes.get_zorder()
    np.testing.assert_array_equal(nodes.get_offsets(), picture.places)
    np.testing.assert_array_equal(links.get_segments(), picture.places[picture.links])
    assert [text.get_text() for text in axes.texts] == [str(i) for i in range(1, 11)]
    assert axes.get_aspect() == 1


def test_rows_are_small_outliers_gray_and_centers_large_and_over_the_rows():
    figure = figures.figure_of(embedding())
    marks = figure.axes[0].collections
    rows, centers = marks[:3], marks[3:]
    assert len(centers) == 3
    red, green, blue = rows[2].get_facecolor()[0, :3]
    assert red == green == blue
    assert min(c.get_sizes()[0] for c in centers) > max(r.get_sizes()[0] for r in rows)
    assert min(c.get_zorder() for c in centers) > max(r.get_zorder() for r in rows)
    assert legend_texts(figure)[2:4] == ["outliers", "centers of DGC-KM"]


def luminance(color):
    return np.dot(to_rgb(color), [0.299, 0.587, 0.114])


def test_any_two_of_ten_can_be_distinguished_without_color():
    for i, j in combinations(range(10), 2):
        for colors, shapes in (
            (figures.AREAS, figures.HATCHES),
            (figures.AREAS, figures.MARKERS),
            (figures.LINES, figures.DASHES),
        ):
            light = [luminance(colors[k % len(colors)]) for k in (i, j)]
            same = shapes[i % len(shapes)] == shapes[j % len(shapes)]
            assert not same or abs(light[0] - light[1]) > 0.03


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    for module in ("plots", "report.figures"):
        monkeypatch.delitem(sys.modules, f"peerclust.{module}")
    with pytest.raises(MissingExtraError, match="extra `plots`"):
        importlib.import_module("peerclust.report.figures")
