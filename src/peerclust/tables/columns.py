"""What the columns of files must contain, and the errors if they do not.

The processes of a group compare the errors that each of them finds. All raise the first one, by
file, column and row, so that the sentence is the same however the files are distributed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl

from peerclust.arrays import Array, Ints
from peerclust.errors import DataError, ParameterError
from peerclust.ranks.group import ProcessGroup
from peerclust.row_validation import LARGEST
from peerclust.tables.dialect import Dialect, title
from peerclust.text import guess, shorten, show

T = TypeVar("T")


class LocatedError(NamedTuple):
    """A sentence that says what is wrong, and where: the index of the file, the column, the row."""

    file: int
    column: int
    row: int
    sentence: str


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows of the file with an index, and the position of each of them in the file."""

    number: int
    path: Path
    frame: pl.DataFrame
    row: Ints
    dialect: Dialect | None

    @property
    def title(self) -> str:
        """The name of the file in errors."""
        return title(self.path, self.dialect)


def raise_first(group: ProcessGroup, errors: Collection[LocatedError]) -> None:
    """Raise the first error of all processes, in all of them, if there is one."""
    firsts = [each for each in group.allgather(min(errors, default=None)) if each is not None]
    if firsts:
        raise DataError(min(firsts).sentence)


def open_each(files: Iterable[int], open_: Callable[[int], T], group: ProcessGroup) -> dict[int, T]:
    """Open files by their indices. Collective: each process opens its own files."""
    opened: dict[int, T] = {}
    errors = []
    for i in files:
        try:
            opened[i] = open_(i)
        except DataError as error:
            errors.append(LocatedError(i, 0, 0, str(error)))
            break
    raise_first(group, errors)
    return opened


def choose_features(
    files: Sequence[str],
    columns_of_files: Sequence[Sequence[str]],
    columns: Sequence[str] | None,
    non_features: Collection[str],
) -> list[str]:
    """Return the features: `columns`, or all columns of the files except `non_features`.

    `files` are the files' names in errors.
    """
    for path, names in zip(files, columns_of_files, strict=True):
        for name in [*(columns or ()), *non_features]:
            if name not in names:
                raise DataError(f"There is no column {name!r} in {path}.{guess(name, names)}")
    if columns is not None:
        if twice := [name for name in columns if columns.count(name) > 1]:
            raise ParameterError(f"`--columns` must name each column once. Got {twice[0]!r} twice.")
        return list(columns)
    first = columns_of_files[0]
    features = [name for name in first if name not in non_features]
    for path, names in zip(files[1:], columns_of_files[1:], strict=True):
        lacks = [name for name in features if name not in names]
        more = [name for name in names if name not in first]
        if lacks or more:
            differs = [f"lacks {shorten([*map(repr, lacks)])}"] if lacks else []
            differs += [f"also has {shorten([*map(repr, more)])}"] if more else []
            raise DataError(
                f"All files must have the same columns. Compared with {files[0]}, {path}"
                f" {' and '.join(differs)}; choose common columns with --columns."
            )
    if not features:
        raise DataError(f"The file {files[0]} must have at least one column of numbers.")
    if "" in features:
        raise DataError(
            f"Column {first.index('')} of {files[0]} has no name; name it, or choose columns"
            " with --columns."
        )
    return features


def parse_numbers(
    piece: Piece,
    name: str,
    errors: list[LocatedError],
    *,
    at: int = 0,
    hint: str = "",
    largest: float = LARGEST,
) -> Array:
    """Return the numbers of a column, the one with index `at` among the features."""
    column = piece.frame[name]
    if column.dtype == pl.String:
        column = column.str.strip_chars()
        text = column
        if piece.dialect is not None and piece.dialect.decimal == ",":
            # A point becomes something that no number has: 1.234 is not 1.234 here.
            text = text.str.replace_all(".", "?", literal=True)
            text = text.str.replace_all(",", ".", literal=True)
        numbers = text.cast(pl.Float64, strict=False)
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        numbers = column.cast(pl.Float64)
    else:
        numbers = pl.repeat(None, piece.frame.height, dtype=pl.Float64, eager=True)
    values = numbers.to_numpy()
    usable = np.abs(values) <= largest
    if not usable.all():
        first = int(usable.argmin())
        row, got, number = int(piece.row[first]), column[first], numbers[first]
        if got is None or (isinstance(got, str) and not got):
            why = f"finite numbers. Got nothing in row {row}."
        elif number is not None:
            limit = f" below {largest:g}" if np.isfinite(number) else ""
            why = f"finite numbers{limit}. Got {number} in row {row}."
        else:
            advice = "" if piece.dialect is None else piece.dialect.advise(str(got))
            why = f"numbers. Got {show(str(got))} in row {row}{advice or hint}."
        sentence = f"Column {name!r} of {piece.title} must be {why}"
        errors.append(LocatedError(piece.number, at, row, sentence))
    return values


def parse_weights(piece: Piece, name: str, errors: list[LocatedError]) -> Array:
    """Return the weights in a column."""
    weights = parse_numbers(piece, name, errors, largest=float(np.finfo(np.float64).max))
    if (weights < 0).any():
        first = int((weights < 0).argmax())
        row = int(piece.row[first])
        sentence = (
            f"Column {name!r} of {piece.title} must be weights >= 0. Got {weights[first]} in row"
            f" {row}."
        )
        errors.append(LocatedError(piece.number, 1, row, sentence))
    return weights


def name_users(name: str) -> pl.Expr:
    """Return an expression for the names of users in a column: text, stripped of blanks."""
    return pl.col(name).cast(pl.String).str.strip_chars()


def parse_users(
    number: int, file: str, frame: pl.DataFrame, name: str, errors: list[LocatedError]
) -> pl.Series:
    """Return the name of each row's user in a whole file."""
    column = frame.select(name_users(name)).to_series()
    blank = column.is_null() | (column == "")
    if blank.any():
        row = int(blank.to_numpy().argmax())
        sentence = (
            f"Column {name!r} of {file} must name a user in each row. Got nothing in row {row}."
        )
        errors.append(LocatedError(number, 0, row, sentence))
    return column
