from __future__ import annotations

import numpy as np
import pytest
from samples import LONG

from peerclust.report import panels


def numbers(low, high, *, log, side="y"):
    """Return the tick labels of an axis that shows these values."""
    axes = panels.make_panels(["a"], 1).axes[0]
    axis = {"x": axes.xaxis, "y": axes.yaxis}[side]
    axes.plot([low, high], [low, high])
    panels.set_scale(axis, np.array([low, high]), log=log)
    axes.figure.draw_without_rendering()
    low, high = axis.get_view_interval()
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    shown = [tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high]
    return [text for text in shown if text]


@pytest.mark.parametrize(
    ("count", "columns", "grid"), [(3, 2, (2, 2)), (4, 3, (2, 3)), (1, 4, (1, 1)), (7, 6, (2, 6))]
)
def test_panels_are_in_the_given_number_of_columns(count, columns, grid):
    figure = panels.make_panels(["a"] * count, columns)
    assert len(figure.axes) == count
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == grid


def test_counts_have_commas_between_the_thousands():
    assert numbers(0, 4000, log=False, side="x") == ["0", "1,000", "2,000", "3,000", "4,000"]
    assert numbers(0, 3e6, log=False)[-1] == "3,000,000"
    assert numbers(-2e6, 0, log=False)[0] == "\N{MINUS SIGN}2,000,000"


def test_small_numbers_have_as_many_digits_as_they_need_and_no_offset():
    assert numbers(0.5, 0.9, log=False) == ["0.5", "0.6", "0.7", "0.8", "0.9"]
    assert numbers(0.00010, 0.00012, log=False)[0] == "0.000100"
    assert numbers(100000.1, 100000.3, log=False)[0] == "100,000.10"


@pytest.mark.parametrize("side", ["x", "y"])
@pytest.mark.parametrize(
    ("low", "high"),
    [(1, 4000), (150, 900), (2, 90), (0.0021, 0.1), (3e-9, 2e-8), (2e7, 9e8), (5, 5), (0, 3)],
)
def test_a_log_axis_has_at_least_two_numbers(low, high, side):
    assert len(numbers(low, high, log=True, side=side)) >= 2


def test_a_log_axis_without_a_positive_value_is_drawn():
    axes = panels.make_panels(["a"], 1).axes[0]
    panels.set_scale(axes.yaxis, np.array([0.0, -1.0, np.nan]), log=True)
    assert axes.get_ylim()[0] > 0


def test_the_lower_end_is_mean_minus_std_and_positive_on_a_log_axis():
    mean, std = np.array([4.0, 4.0, 4.0]), np.array([0.0, 3.0, 9.0])
    assert panels.lower_end(mean, std, log=False).tolist() == [4.0, 1.0, -5.0]
    assert panels.lower_end(mean, std, log=True).tolist() == [4.0, 1.0, 0.4]


def test_a_legend_has_as_few_rows_as_fit_and_the_figure_grows_by_it():
    heights = []
    for count in (3, 30):
        figure = panels.make_panels(["a"], 1)
        for i in range(count):
            figure.axes[0].plot([0, 1], label=f"curve {i}")
        panels.legend_below(figure)
        (legend,) = figure.legends
        assert legend.get_window_extent().width <= figure.bbox.width
        assert [text.get_text() for text in legend.get_texts()] == [
            f"curve {i}" for i in range(count)
        ]
        heights.append(figure.get_figheight())
    assert heights[1] > heights[0] + 0.8


def test_text_is_broken_at_words_and_keeps_them():
    broken = panels.wrap(LONG, 2.0)
    assert max(map(len, broken.split("\n"))) <= 26
    assert broken.replace("\n", " ") == LONG


def test_a_long_title_makes_the_figure_taller():
    heights = []
    for title in ("a", LONG):
        figure = panels.make_panels([title], 1)
        panels.wrap_texts(figure)
        heights.append(figure.get_figheight())
    assert heights[1] > heights[0]
