"""Our numbers beside the paper's: means, differences, and the Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from peerclust.experiments.plan import Line, Row, Stat
from peerclust.report.pictures import Dot, DotPanel, Dots
from peerclust.types import Array

# A mean agrees with the paper's if it is within so many of the paper's deviations, or so near.
DEVIATIONS = 2.0
NEAR = {"percent": 2.0, "score": 0.02}
# A scale agrees if its ratio to the paper's is in this range.
RATIOS = (0.6, 1.5)


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Give the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def stat(rows: Sequence[Row], column: str, factor: float = 1.0) -> Stat:
    """Give the mean and the standard deviation (of the runs, not of the mean) of a column.

    One run has no deviation.

    >>> stat([{"a": 0.5}, {"a": 1.0}], "a", 100)
    Stat(mean=75.0, std=25.0, text='')
    """
    values = factor * np.array([row[column] for row in rows], dtype=np.float64)
    return Stat(float(values.mean()), float(values.std()) if len(values) > 1 else None)


def agrees(line: Line) -> bool | None:
    """Tell whether our mean agrees with the paper's; None where the paper has none.

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
    """Say how far ours is from the paper's, in its deviations where it has them.

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
    """Write a number with its deviation.

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
        # What is below the rounding of the mean is none.
        std = stat.std if stat.std > 1e-12 * abs(stat.mean) else 0.0
        text += f" ± {std:{digits}}"
    return text + unit


def markdown(lines: Sequence[Line], *, verdicts: bool = True) -> str:
    """Give the Markdown table: where | paper | ours | difference | agrees.

    If the paper has none of the numbers, ours alone, with a column for each measure. Without
    verdicts nothing is said of differences, as of a smaller problem than the paper's.
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
    """Give the lines as a picture: a panel for each value of one column, a dot for each other's."""
    # A number alone does not say what it is the value of.
    before = "" if label in ("method", "measure") else f"{label} = "
    titles = list(dict.fromkeys(line.where[panel] for line in lines))
    return Dots(
        [
            DotPanel(
                title,
                [
                    _dot(line, before + line.where[label])
                    for line in lines
                    if line.where[panel] == title
                ],
                x_label,
                x_log,
            )
            for title in titles
        ],
        columns,
    )


def _dot(line: Line, label: str) -> Dot:
    paper = None if line.paper is None else (line.paper.mean, line.paper.std or 0.0)
    return Dot(label, (line.ours.mean, line.ours.std or 0.0), paper)


def curve(rows: Sequence[Row], column: str) -> tuple[Array, Array, Array]:
    """Give the rounds, and the mean and deviation of a column over the runs at each of them."""
    by_round: dict[int, list[float]] = {}
    for row in rows:
        by_round.setdefault(int(row["round"]), []).append(float(row[column]))
    rounds = np.array(sorted(by_round))
    mean = np.array([np.mean(by_round[t]) for t in rounds])
    std = np.array([np.std(by_round[t]) for t in rounds])
    return rounds.astype(np.float64), mean, std


def kept_rounds(rounds: int, most: int = 100) -> list[int]:
    """Give the rounds whose values are kept for a curve: dense at first, then sparser.

    >>> kept_rounds(10)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    """
    even = np.linspace(1, rounds, min(rounds, most))
    dense = np.geomspace(1, rounds, min(rounds, most))
    return sorted({round(float(t)) for t in np.concatenate([even, dense, [rounds // 2 or 1]])})
