"""Files that have the same columns, read into one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from peerclust.arrays import Ints
from peerclust.errors import DataError
from peerclust.ranks.group import ProcessGroup, SingleProcess
from peerclust.tables.columns import (
    LocatedError,
    Piece,
    choose_features,
    name_users,
    open_each,
    parse_numbers,
    parse_users,
    parse_weights,
    raise_first,
)
from peerclust.tables.dialect import DETECT_ALL, CsvOptions
from peerclust.tables.frames import read_frame
from peerclust.tables.table import Table, name_files
from peerclust.text import shorten, sort_names


@dataclass(frozen=True)
class ReadRequest:
    """Which files to read, and what their columns are; see `read`."""

    files: Sequence[Path]
    columns: Sequence[str] | None
    users_column: str | None
    weights_column: str | None
    csv: CsvOptions

    @property
    def non_features(self) -> list[str]:
        """The columns that are not features."""
        return [name for name in (self.users_column, self.weights_column) if name is not None]


def read(
    files: Sequence[Path],
    *,
    columns: Sequence[str] | None = None,
    users_column: str | None = None,
    weights_column: str | None = None,
    csv: CsvOptions = DETECT_ALL,
    may_be_empty: bool = False,
) -> Table:
    """Read files that have the same columns, in any order, into one table.

    The features are `columns`, or else all columns except the users' and the weights'. Without a
    `users_column` each file is a user, named by the file without its folder and suffix. A user
    whose file has only a header has no rows. `csv` is what is known of CSV files in advance.
    """
    request = ReadRequest(files, columns, users_column, weights_column, csv)
    group = SingleProcess()
    pieces = read_pieces(request, range(len(files)), group)
    features = choose_features(
        [each.title for each in pieces],
        [each.frame.columns for each in pieces],
        columns,
        request.non_features,
    )
    fields = combine(request, pieces, features, group, may_be_empty=may_be_empty)
    fields["dialects"] = tuple(each.dialect for each in pieces)
    if users_column is None:
        return Table(names=name_files(files), user=fields["file"], **fields)
    errors: list[LocatedError] = []
    column = pl.concat(
        [parse_users(p.number, p.title, p.frame, users_column, errors) for p in pieces]
    )
    raise_first(group, errors)
    names = sort_names(column.unique().to_list())
    return Table(names=tuple(names), user=_index(column, names), **fields)


def read_pieces(request: ReadRequest, files: Iterable[int], group: ProcessGroup) -> list[Piece]:
    """Read whole files. Collective: each process reads its own files."""

    def read_whole(i: int) -> Piece:
        frame, dialect = read_frame(request.files[i], request.users_column, request.csv)
        return Piece(i, request.files[i], frame, np.arange(frame.height), dialect)

    return list(open_each(files, read_whole, group).values())


def combine(
    request: ReadRequest,
    pieces: Sequence[Piece],
    features: Sequence[str],
    group: ProcessGroup,
    *,
    may_be_empty: bool = False,
) -> dict[str, Any]:
    """Return the fields of a table that do not depend on the users. Collective."""
    errors: list[LocatedError] = []
    hint = "; choose other columns with --columns" if request.columns is None else ""
    blocks = [
        np.column_stack(
            [parse_numbers(p, name, errors, at=j, hint=hint) for j, name in enumerate(features)]
        )
        for p in pieces
    ]
    raise_first(group, errors)
    sizes = [len(block) for block in blocks]
    if not any(group.allgather(any(sizes))) and not may_be_empty:
        raise no_rows(request.files)
    weights = None
    if request.weights_column is not None:
        weights = np.concatenate(
            [parse_weights(each, request.weights_column, errors) for each in pieces]
        )
        raise_first(group, errors)
    return {
        "features": tuple(features),
        "rows": np.concatenate(blocks),
        "files": tuple(str(path) for path in request.files),
        "file": np.repeat([each.number for each in pieces], sizes),
        "row": np.concatenate([each.row for each in pieces]),
        "weights": weights,
    }


def index_users(pieces: Sequence[Piece], column: str, names: Sequence[str]) -> Ints:
    """Return the index among the names of each row's user."""
    columns = [each.frame.select(name_users(column)).to_series() for each in pieces]
    return _index(pl.concat(columns), names)


def _index(column: pl.Series, names: Sequence[str]) -> Ints:
    return column.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)


def no_rows(files: Sequence[Path]) -> DataError:
    """Return the error for files none of which has rows."""
    return DataError(f"There must be rows in some file. Got none in {shorten(files)}.")
