"""Our numbers beside the paper's: what agrees, how differences are shown, and the table."""

import numpy as np
import pytest

from peerclust.paper.comparison import agrees, difference, dots, markdown, select, show, stat
from peerclust.paper.experiment import Line, Stat


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (Line({}, Stat(92.0), Stat(90.0, 0.1)), True),  # two points are always near enough
        (Line({}, Stat(92.1), Stat(90.0, 0.1)), False),
        (Line({}, Stat(92.1), Stat(90.0, 1.1)), True),  # within two deviations
        (Line({}, Stat(0.47), Stat(0.45, 0.0), "score"), True),
        (Line({}, Stat(0.48), Stat(0.45, 0.0005), "score"), False),
        (Line({}, Stat(0.51), Stat(0.45, 0.03), "score"), True),
        (Line({}, Stat(0.6), Stat(1.0), "scale"), True),
        (Line({}, Stat(1.51), Stat(1.0), "scale"), False),
        (Line({}, Stat(9.0), Stat(1.0), "seconds"), None),
        (Line({}, Stat(9.0)), None),
    ],
)
def test_a_mean_agrees_within_two_deviations_or_two_points_or_by_its_ratio(line, verdict):
    assert agrees(line) is verdict


def test_differences_are_in_the_papers_deviations_where_it_has_them():
    assert difference(Line({}, Stat(88.0), Stat(89.0, 0.5))) == "-1.0 (-2.0 σ)"
    assert difference(Line({}, Stat(88.0), Stat(89.0, 0.0))) == "-1.0"
    assert difference(Line({}, Stat(0.5), Stat(0.25), "score")) == "+0.250"
    assert difference(Line({}, Stat(0.5), Stat(0.25), "scale")) == "x 2.00"
    assert difference(Line({}, Stat(0.5))) == "-"


def test_numbers_are_shown_as_tables_write_them():
    assert show(Stat(90.64, 0.46), "percent") == "90.6 ± 0.5 %"
    assert show(Stat(0.4712, 0.02), "score") == "0.471 ± 0.020"
    assert show(Stat(1234.4), "count") == "1,234"
    assert show(Stat(0.0934), "seconds") == "0.0934 s"
    assert show(None, "percent") == "-"
    assert show(Stat(1.0, 3e-16), "scale") == "1 ± 0"
    assert show(Stat(91.53, 2.17, "91.53 ± 2.17"), "percent") == "91.53 ± 2.17 %"


def test_one_run_has_no_deviation():
    assert stat([{"v": 1.0}], "v") == Stat(1.0, None)


def test_the_table_has_one_line_per_number_and_marks_what_does_not_agree():
    lines = [
        Line({"data": "Iris", "method": "A"}, Stat(95.0, 1.0), Stat(90.0, 0.5)),
        Line({"data": "Iris", "method": "B"}, Stat(90.0, 1.0)),
    ]
    assert markdown(lines).splitlines() == [
        "| data | method | paper | ours | difference | agrees |",
        "| --- | --- | --- | --- | --- | --- |",
        "| Iris | A | 90.0 ± 0.5 % | 95.0 ± 1.0 % | +5.0 (+10.0 σ) | **no** |",
        "| Iris | B | - | 90.0 ± 1.0 % | - |  |",
    ]


def test_a_table_without_the_papers_numbers_shows_ours_alone():
    lines = [Line({"m": "10"}, Stat(0.716), None, "score")]
    assert markdown(lines).splitlines() == ["| m | ours |", "| --- | --- |", "| 10 | 0.716 |"]


def test_measures_without_the_papers_numbers_are_columns():
    lines = [
        Line({"m": m, "measure": measure}, Stat(1.0), None, "count")
        for m in ("10", "15")
        for measure in ("rounds", "links")
    ]
    assert markdown(lines).splitlines() == [
        "| m | rounds | links |",
        "| --- | --- | --- |",
        "| 10 | 1 | 1 |",
        "| 15 | 1 | 1 |",
    ]


def test_the_picture_has_one_panel_per_value_and_one_dot_per_line():
    lines = [
        Line({"data": data, "method": method}, Stat(1.0, 0.1), Stat(2.0) if method == "A" else None)
        for data in ("x", "y")
        for method in ("A", "B")
    ]
    picture = dots(lines, panel="data", label="method", x_label="n")
    assert [panel.title for panel in picture.panels] == ["x", "y"]
    first, second = picture.panels[0].dots
    assert (first.label, first.ours, first.paper) == ("A", (1.0, 0.1), (2.0, 0.0))
    assert second.paper is None


def test_statistics_are_those_of_the_selected_rows():
    rows = [{"m": 1, "v": 1.0}, {"m": 1, "v": 3.0}, {"m": 2, "v": 9.0}]
    assert stat(select(rows, m=1), "v") == Stat(2.0, 1.0)
    assert stat(rows, "v", "percent").mean == pytest.approx(100 * np.mean([1, 3, 9]))
