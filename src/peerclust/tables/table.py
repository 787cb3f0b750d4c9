"""The rows of some files as one table, and whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from peerclust.errors import DataError
from peerclust.types import Array, Ints


@dataclass(frozen=True, eq=False)
class ByUser:
    """Who holds which rows of a table, of those users whose rows are in it.

    They are `numbers`; the j-th of them has rows order[offsets[j]:offsets[j + 1]].
    """

    numbers: tuple[int, ...]
    order: Ints
    offsets: Ints

    def take(self, values: NDArray[Any]) -> NDArray[Any]:
        """Give what rows of a table have user by user; uncopied if they stand so already."""
        return values if (np.diff(self.order) == 1).all() else values[self.order]

    def split(self, values: NDArray[Any]) -> dict[int, NDArray[Any]]:
        """Give each user's own, by its number, of what rows of a table have."""
        parts = np.split(self.take(values), self.offsets[1:-1])
        return dict(zip(self.numbers, parts, strict=True))


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of some files, one file after the other.

    rows
        (N, d) numbers, a column for each of `features`.
    file, row
        (N,) ints: the place in `files` of each row's file, and its position there.
    names, user
        The names that users go by, and (N,) ints: each row's place among them.
    weights
        (N,) numbers, or None.
    own, sizes
        If only some users' rows are here: their places among the names, in ascending order, and
        how many rows each of all users has; else None.
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
        """Collect each user's rows, in the order of the files."""
        check_names(self.names, self.files)
        own = tuple(range(len(self.names))) if self.own is None else self.own
        here = np.bincount(self.user, minlength=len(self.names))[list(own)]
        offsets = np.concatenate([[0], np.cumsum(here)]).astype(np.int64)
        return ByUser(own, np.argsort(self.user, kind="stable"), offsets)

    def count_rows(self) -> dict[str, int]:
        """Give how many rows each of all users has, by name."""
        held = self.sizes
        if held is None:
            held = np.bincount(self.user, minlength=len(self.names))
        return dict(zip(self.names, held.tolist(), strict=True))

    def places(self) -> dict[str, Any]:
        """Give the columns that say where each row came from: file and row."""
        return {"file": self.name_files(self.file), "row": self.row}

    def name_files(self, file: Ints) -> Any:
        """Give the column of files that these places stand for."""
        return pl.Series(self.files).gather(file)

    def name_users(self, user: Ints) -> Any:
        """Give the column of users that these places stand for."""
        return pl.Series(self.names).gather(user)


def check_names(names: Sequence[str], files: Sequence[str | Path]) -> None:
    """Raise if two users, named by their files, have one name."""
    if len(set(names)) == len(names):
        return
    name = next(name for name in names if names.count(name) > 1)
    same = [file for file in files if Path(file).stem == name]
    raise DataError(
        f"Each file must be another user, named by the file. Got {same[0]} and {same[1]};"
        " or name the users in a column, with --users-column."
    )
