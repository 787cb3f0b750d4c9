"""Files that have the same columns, read into one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from peerclust.errors import DataError
from peerclust.ranks.group import ProcessGroup, SingleProcess
from peerclust.tables.columns import (
    Complaint,
    Piece,
    choose_features,
    find_numbers,
    find_users,
    find_weights,
    name_users,
    open_each,
    settle,
)
from peerclust.tables.frames import read_frame
from peerclust.tables.table import Table
from peerclust.text import shorten, sort_names
from peerclust.types import Ints


@dataclass(frozen=True)
class Asked:
    """Which files are to be read, and what their columns are; see `read`."""

    files: Sequence[Path]
    columns: Sequence[str] | None
    users_column: str | None
    weights_column: str | None

    @property
    def beside(self) -> list[str]:
        """The columns that are no features."""
        return [name for name in (self.users_column, self.weights_column) if name is not None]


def read(
    files: Sequence[Path],
    *,
    columns: Sequence[str] | None = None,
    users_column: str | None = None,
    weights_column: str | None = None,
    may_be_empty: bool = False,
) -> Table:
    """Read files that have the same columns, in any order, into one table.

    The features are `columns`, or else all columns but the users' and the weights'. Without a
    `users_column` each file is a user, named by the file without its folder and suffix; one whose
    file has a header only has no rows.
    """
    asked, group = Asked(files, columns, users_column, weights_column), SingleProcess()
    pieces = read_pieces(asked, range(len(files)), group)
    features = choose_features(
        files, [each.frame.columns for each in pieces], columns, asked.beside
    )
    held = put_together(asked, pieces, features, group, may_be_empty=may_be_empty)
    if users_column is None:
        return Table(names=tuple(path.stem for path in files), user=held["file"], **held)
    complaints: list[Complaint] = []
    column = pl.concat(
        [find_users(p.number, p.path, p.frame, users_column, complaints) for p in pieces]
    )
    settle(group, complaints)
    names = sort_names(column.unique().to_list())
    return Table(names=tuple(names), user=_number(column, names), **held)


def read_pieces(asked: Asked, numbers: Iterable[int], group: ProcessGroup) -> list[Piece]:
    """Read whole files; called by all processes of a crew at once, each with its own."""

    def read_whole(i: int) -> Piece:
        frame = read_frame(asked.files[i], asked.users_column)
        return Piece(i, asked.files[i], frame, np.arange(frame.height))

    return list(open_each(numbers, read_whole, group).values())


def put_together(
    asked: Asked,
    pieces: Sequence[Piece],
    features: Sequence[str],
    group: ProcessGroup,
    *,
    may_be_empty: bool = False,
) -> dict[str, Any]:
    """Give the fields of a table that do not depend on the users; called by all processes."""
    complaints: list[Complaint] = []
    hint = "; choose other columns with --columns" if asked.columns is None else ""
    blocks = [
        np.column_stack(
            [find_numbers(p, name, complaints, at=j, hint=hint) for j, name in enumerate(features)]
        )
        for p in pieces
    ]
    settle(group, complaints)
    sizes = [len(block) for block in blocks]
    if not any(group.allgather(any(sizes))) and not may_be_empty:
        raise no_rows(asked.files)
    weights = None
    if asked.weights_column is not None:
        weights = np.concatenate(
            [find_weights(each, asked.weights_column, complaints) for each in pieces]
        )
        settle(group, complaints)
    return {
        "features": tuple(features),
        "rows": np.concatenate(blocks),
        "files": tuple(str(path) for path in asked.files),
        "file": np.repeat([each.number for each in pieces], sizes),
        "row": np.concatenate([each.row for each in pieces]),
        "weights": weights,
    }


def place_users(pieces: Sequence[Piece], column: str, names: Sequence[str]) -> Ints:
    """Give the place among the names of each row's user."""
    columns = [each.frame.select(name_users(column)).to_series() for each in pieces]
    return _number(pl.concat(columns), names)


def _number(column: pl.Series, names: Sequence[str]) -> Ints:
    return column.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)


def no_rows(files: Sequence[Path]) -> DataError:
    """Give the error of files none of which has rows."""
    return DataError(f"There must be rows in some file. Got none in {shorten(files)}.")
