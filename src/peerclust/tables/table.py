"""The rows of some files as one table, and their users."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints
from peerclust.errors import DataError
from peerclust.tables.dialect import Dialect, title
from peerclust.text import shorten


@dataclass(frozen=True, eq=False)
class ByUser:
    """The rows of a table by user.

    `ids` are the users whose rows are in it; the j-th has rows order[offsets[j]:offsets[j + 1]].
    """

    ids: tuple[int, ...]
    order: Ints
    offsets: Ints

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the rows' values in the order of users; not copied if already in this order."""
        return values if (np.diff(self.order) == 1).all() else values[self.order]

    def split(self, values: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Return each user's part of the rows' values, keyed by the user's id."""
        parts = np.split(self.take(values), self.offsets[1:-1])
        return dict(zip(self.ids, parts, strict=True))


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of some files, one file after the other.

    rows
        (N, d) numbers, one column for each of `features`.
    file, row
        (N,) ints: the index in `files` of each row's file, and its position there.
    names, user
        The users' names, and (N,) ints: the index among them of each row's user.
    weights
        (N,) numbers, or None.
    own, sizes
        If the table has only some users' rows: their indices among the names, in ascending order,
        and the number of rows of every user; else None.
    dialects
        How each of `files` was read; None for a Parquet file.
    """

    features: tuple[str, ...]
    rows: Array
    files: tuple[str, ...]
    file: Ints
    row: Ints
    names: tuple[str, ...]
    user: Ints
    weights: Array | None = None
    own: tuple[int, ...] | None = None
    sizes: Ints | None = None
    dialects: tuple[Dialect | None, ...] = ()

    def users(self) -> ByUser:
        """Return the rows by user, each user's in the order of the files."""
        check_names(self.names, self.files)
        own = tuple(range(len(self.names))) if self.own is None else self.own
        here = np.bincount(self.user, minlength=len(self.names))[list(own)]
        offsets = np.concatenate([[0], np.cumsum(here)]).astype(np.int64)
        return ByUser(own, np.argsort(self.user, kind="stable"), offsets)

    def count_rows(self) -> dict[str, int]:
        """Return the number of rows of every user, by name."""
        sizes = self.sizes
        if sizes is None:
            sizes = np.bincount(self.user, minlength=len(self.names))
        return dict(zip(self.names, sizes.tolist(), strict=True))

    @property
    def titles(self) -> list[str]:
        """The names of the files in sentences, with their dialects."""
        return [*map(title, self.files, self.dialects)]

    def record_dialects(self) -> dict[str, dict[str, str]]:
        """Return the delimiter and the decimal sign of each CSV file, by name."""
        return {
            file: {"delimiter": dialect.delimiter, "decimal": dialect.decimal}
            for file, dialect in zip(self.files, self.dialects, strict=True)
            if dialect is not None
        }

    def describe_dialects(self) -> list[str]:
        """Return a sentence for each dialect other than that of comma-separated values."""
        files: dict[str, list[str]] = {}
        for file, dialect in zip(self.files, self.dialects, strict=True):
            if dialect is not None and not dialect.plain:
                files.setdefault(str(dialect), []).append(file)
        return [f"Read with {dialect}: {shorten(some)}." for dialect, some in files.items()]

    def origins(self) -> dict[str, Any]:
        """Return the columns for where each row came from: file and row."""
        return {"file": self.name_files(self.file), "row": self.row}

    def name_files(self, file: Ints) -> Any:
        """Return the column of file names for these indices."""
        return pl.Series(self.files).gather(file)

    def name_users(self, user: Ints) -> Any:
        """Return the column of users' names for these indices."""
        return pl.Series(self.names).gather(user)


def name_files(files: Sequence[str | Path]) -> tuple[str, ...]:
    """Return the users' names, one file each: without folder and suffix.

    >>> name_files(["data/oslo.csv", "rome.tsv.gz"])
    ('oslo', 'rome')
    """
    return tuple(Path(re.sub(r"\.gz$", "", str(f), flags=re.IGNORECASE)).stem for f in files)


def check_names(names: Sequence[str], files: Sequence[str | Path]) -> None:
    """Raise if two users, named by their files, have the same name."""
    if len(set(names)) == len(names):
        return
    name = next(name for name in names if names.count(name) > 1)
    same = [file for file, own in zip(files, name_files(files), strict=True) if own == name]
    raise DataError(
        f"Each file must be a different user, named by the file. Got {same[0]} and {same[1]};"
        " rename one, or name the users in a column, with --users-column."
    )
