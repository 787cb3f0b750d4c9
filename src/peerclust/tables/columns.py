"""What the columns of files must hold, and what is said if they do not.

What is wrong is said by whoever sees it and settled among all processes of a crew: all raise what
comes first, by file, column and row, so that the sentence is the same however files are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl

from peerclust.errors import DataError, ParameterError
from peerclust.ranks.group import ProcessGroup
from peerclust.text import guess, shorten
from peerclust.types import Array, Ints

T = TypeVar("T")


class Complaint(NamedTuple):
    """A sentence on what is wrong, and where: first of all the number of the file."""

    file: int
    column: int
    row: int
    sentence: str


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of the file of a number, and where in the file each of them is."""

    number: int
    path: Path
    frame: pl.DataFrame
    row: Ints


def settle(group: ProcessGroup, complaints: Collection[Complaint]) -> None:
    """Raise, in all processes, the complaint that comes first, if somebody has one."""
    said = [each for each in group.allgather(min(complaints, default=None)) if each is not None]
    if said:
        raise DataError(min(said).sentence)


def open_each(
    numbers: Iterable[int], open_: Callable[[int], T], group: ProcessGroup
) -> dict[int, T]:
    """Open files by their numbers; called by all processes at once, each with its own."""
    opened: dict[int, T] = {}
    complaints = []
    for i in numbers:
        try:
            opened[i] = open_(i)
        except DataError as error:
            complaints.append(Complaint(i, 0, 0, str(error)))
            break
    settle(group, complaints)
    return opened


def choose_features(
    files: Sequence[Path],
    held: Sequence[Sequence[str]],
    columns: Sequence[str] | None,
    beside: Collection[str],
) -> list[str]:
    """Give the features: `columns`, or all that files hold but those `beside`."""
    for path, names in zip(files, held, strict=True):
        for name in [*(columns or ()), *beside]:
            if name not in names:
                raise DataError(f"There is no column {name!r} in {path}.{guess(name, names)}")
    if columns is not None:
        if twice := [name for name in columns if columns.count(name) > 1]:
            raise ParameterError(f"`--columns` must name each column once. Got {twice[0]!r} twice.")
        return list(columns)
    features = [name for name in held[0] if name not in beside]
    for path, names in zip(files[1:], held[1:], strict=True):
        lacks = [name for name in features if name not in names]
        more = [name for name in names if name not in held[0]]
        if lacks or more:
            said = [f"lacks {shorten([*map(repr, lacks)])}"] if lacks else []
            said += [f"has {shorten([*map(repr, more)])} besides"] if more else []
            raise DataError(
                f"All files must have the same columns. {path} {' and '.join(said)}, compared with"
                f" {files[0]}; choose common ones with --columns."
            )
    if not features:
        raise DataError(f"The file {files[0]} must have at least one column of numbers.")
    if "" in features:
        raise DataError(
            f"Column {held[0].index('')} of {files[0]} has no name; name it, or choose columns"
            " with --columns."
        )
    return features


def find_numbers(
    piece: Piece, name: str, complaints: list[Complaint], *, at: int = 0, hint: str = ""
) -> Array:
    """Give the numbers of a column, the one that is `at` its place among others."""
    column = piece.frame[name]
    if column.dtype == pl.String:
        column = column.str.strip_chars()
        numbers = column.cast(pl.Float64, strict=False)
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        numbers = column.cast(pl.Float64)
    else:
        numbers = pl.repeat(None, piece.frame.height, dtype=pl.Float64, eager=True)
    values = numbers.to_numpy()
    finite = np.isfinite(values)
    if not finite.all():
        first = int(finite.argmin())
        row, got, number = int(piece.row[first]), column[first], numbers[first]
        if got is None or (isinstance(got, str) and not got):
            why = f"finite numbers. Got nothing in row {row}."
        elif number is not None:
            why = f"finite numbers. Got {number} in row {row}."
        else:
            why = f"numbers. Got {str(got)!r} in row {row}{hint}."
        sentence = f"Column {name!r} of {piece.path} must be {why}"
        complaints.append(Complaint(piece.number, at, row, sentence))
    return values


def find_weights(piece: Piece, name: str, complaints: list[Complaint]) -> Array:
    """Give the weights in a column."""
    weights = find_numbers(piece, name, complaints)
    if (weights < 0).any():
        first = int((weights < 0).argmax())
        row = int(piece.row[first])
        sentence = (
            f"Column {name!r} of {piece.path} must be weights >= 0. Got {weights[first]} in row"
            f" {row}."
        )
        complaints.append(Complaint(piece.number, 1, row, sentence))
    return weights


def name_users(name: str) -> pl.Expr:
    """Give the names of users in a column: text, without blanks around it."""
    return pl.col(name).cast(pl.String).str.strip_chars()


def find_users(
    number: int, path: Path, frame: pl.DataFrame, name: str, complaints: list[Complaint]
) -> pl.Series:
    """Give the name of each row's user of a whole file."""
    column = frame.select(name_users(name)).to_series()
    blank = column.is_null() | (column == "")
    if blank.any():
        row = int(blank.to_numpy().argmax())
        sentence = (
            f"Column {name!r} of {path} must name a user in each row. Got nothing in row {row}."
        )
        complaints.append(Complaint(number, 0, row, sentence))
    return column
