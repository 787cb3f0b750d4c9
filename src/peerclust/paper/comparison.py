"""Our numbers beside the paper's: means, differences, and the Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from peerclust.paper.experiment import Line, Row, Stat
from peerclust.report.pictures import Dot, DotPanel, Dots

# A mean agrees with the paper's within DEVIATIONS of the paper's deviations, or within NEAR.
DEVIATIONS = 2.0
NEAR = {"percent": 2.0, "score": 0.02}
# A scale agrees if its ratio to the paper's is in this range.
RATIOS = (0.6, 1.5)


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def stat(rows: Sequence[Row], column: str, form: str = "score") -> Stat:
    """Return the mean and the standard deviation (of the runs, not of the mean) of a column.

    In the form "percent" both are 100 times those of the column. The deviation of a single run is
    None.

    >>> stat([{"a": 0.5}, {"a": 1.0}], "a", "percent")
    Stat(mean=75.0, std=25.0, text='')
    """
    values = np.array([row[column] for row in rows], dtype=np.float64)
    values = 100.0 * values if form == "percent" else values
    return Stat(float(values.mean()), float(values.std()) if len(values) > 1 else None)


def agrees(line: Line) -> bool | None:
    """Return whether our mean agrees with the paper's; None if they are not compared.

    >>> agrees(Line({}, Stat(90.0), Stat(88.5, 0.1)))
    True
    """
    if line.paper is None or line.form in ("seconds", "count"):
        return None
    if line.form == "scale":
        return RATIOS[0] <= line.ours.mean / line.paper.mean <= RATIOS[1]
    allowed = max(DEVIATIONS * (line.paper.std or 0.0), NEAR[line.form])
    return abs(line.ours.mean - line.paper.mean) <= allowed


def difference(line: Line) -> str:
    """Return the difference from the paper's number as text, with the paper's deviations (σ).

    >>> difference(Line({}, Stat(90.0), Stat(89.0, 0.5)))
    '+1.0 (+2.0 σ)'
    """
    if line.paper is None:
        return "-"
    off = line.ours.mean - line.paper.mean
    if line.form in ("scale", "seconds", "count"):
        return f"x {line.ours.mean / line.paper.mean:.2f}"
    points = f"{off:+.3f}" if line.form == "score" else f"{off:+.1f}"
    return f"{points} ({off / line.paper.std:+.1f} σ)" if line.paper.std else points


def show(stat: Stat | None, form: str) -> str:
    """Return a number with its deviation as text.

    >>> show(Stat(90.64, 0.5), "percent"), show(Stat(0.047), "scale")
    ('90.6 ± 0.5 %', '0.047')
    """
    if stat is None:
        return "-"
    unit = {"percent": " %", "seconds": " s"}.get(form, "")
    if stat.text:
        return stat.text + unit
    digits = {"percent": ".1f", "score": ".3f", "count": ",.0f"}.get(form, ".3g")
    text = f"{stat.mean:{digits}}"
    if stat.std is not None:
        # A deviation below the rounding error of the mean is shown as 0.
        std = stat.std if stat.std > 1e-12 * abs(stat.mean) else 0.0
        text += f" ± {std:{digits}}"
    return text + unit


def markdown(lines: Sequence[Line], *, verdicts: bool = True) -> str:
    """Return the Markdown table: where | paper | ours | difference | agrees.

    If the paper has none of the numbers, the table has ours alone, with one column per measure.
    Without `verdicts` it leaves out the last two columns: a smaller problem than the paper's is not
    compared.
    """
    names = list(lines[0].where)
    if all(line.paper is None for line in lines):
        return _table(*_by_measure(lines, names))
    cells = []
    for line in lines:
        verdict = {True: "yes", False: "**no**", None: ""}[agrees(line)]
        numbers = [show(line.paper, line.form), show(line.ours, line.form), difference(line)]
        cells.append([*(line.where[name] for name in names), *numbers, verdict])
    head = [*names, "paper", "ours", "difference", "agrees"]
    shown = len(head) if verdicts else len(head) - 2
    return _table(head[:shown], [row[:shown] for row in cells])


def _by_measure(lines: Sequence[Line], names: list[str]) -> tuple[list[str], list[list[str]]]:
    keys = [name for name in names if name != "measure"]
    measures = list(dict.fromkeys(line.where.get("measure", "ours") for line in lines))
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for line in lines:
        place = found.setdefault(tuple(line.where[key] for key in keys), {})
        place[line.where.get("measure", "ours")] = show(line.ours, line.form)
    cells = [[*key, *(row.get(each, "") for each in measures)] for key, row in found.items()]
    return [*keys, *measures], cells


def _table(head: list[str], cells: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def dots(
    lines: Sequence[Line],
    *,
    panel: str,
    label: str,
    x_label: str,
    x_log: bool = False,
    columns: int = 2,
) -> Dots:
    """Return the lines as a picture: one panel per value of one column, one dot per line."""
    # A number by itself does not say what it is the value of.
    before = "" if label in ("method", "measure", "classes") else f"{label} = "
    panels: dict[str, list[Dot]] = {}
    for line in lines:
        paper = None if line.paper is None else (line.paper.mean, line.paper.std or 0.0)
        dot = Dot(before + line.where[label], (line.ours.mean, line.ours.std or 0.0), paper)
        panels.setdefault(line.where[panel], []).append(dot)
    return Dots([DotPanel(title, each, x_label, x_log) for title, each in panels.items()], columns)
