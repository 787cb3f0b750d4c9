"""Whatever an operator meets: the last line names the cause, the code is right, and all hear it."""

import re

import pytest

from operator_situations import SITUATIONS, Expected, Row


@pytest.mark.peers
@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(each, marks=[pytest.mark.slow] * each.slow, id=re.sub(r"\W+", "-", each.name))
        for each in SITUATIONS
    ],
)
def test_the_last_line_of_every_site_is_true_and_says_what_to_do(tmp_path, situation):
    rows = situation.run(tmp_path)
    assert all(row.is_good for row in rows), "\n".join(map(str, rows))


def test_the_table_marks_what_is_not_as_expected():
    row = Row("late", "p2", "converged: a | b", 0, 1.25, Expected(0, "^converged"))
    assert str(row) == "| late | p2 | converged: a \\| b | 0 | 1.2 |"
    for expected in (Expected(1, ""), Expected(0, "stopped"), Expected(0, "", 1.0)):
        assert "not as expected" in str(Row("late", "p2", "converged", 0, 1.25, expected))
