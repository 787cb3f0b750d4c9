"""The rows of some files as one table, and their users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints
from peerclust.errors import DataError


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

    def origins(self) -> dict[str, Any]:
        """Return the columns for where each row came from: file and row."""
        return {"file": self.name_files(self.file), "row": self.row}

    def name_files(self, file: Ints) -> Any:
        """Return the column of file names for these indices."""
        return pl.Series(self.files).gather(file)

    def name_users(self, user: Ints) -> Any:
        """Return the column of users' names for these indices."""
        return pl.Series(self.names).gather(user)


def check_names(names: Sequence[str], files: Sequence[str | Path]) -> None:
    """Raise if two users, named by their files, have the same name."""
    if len(set(names)) == len(names):
        return
    name = next(name for name in names if names.count(name) > 1)
    same = [file for file in files if Path(file).stem == name]
    raise DataError(
        f"Each file must be a different user, named by the file. Got {same[0]} and {same[1]};"
        " rename one, or name the users in a column, with --users-column."
    )
