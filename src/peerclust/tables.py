"""Tables of rows in CSV and Parquet files, read, checked and written; polars is used only here.

Rows are counted from 0 within their file, without the header line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust.errors import DataError, MissingExtraError, ParameterError
from peerclust.names import guess, shorten, sort_names

try:
    import polars as pl
except ImportError:
    raise MissingExtraError(
        "Tables need polars, which is not installed; it comes with the extra `tables`."
    ) from None

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ByUser:
    """Who holds which rows: user i is `names[i]` and has rows order[offsets[i]:offsets[i + 1]]."""

    names: tuple[str, ...]
    order: Ints
    offsets: Ints


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
    """

    features: tuple[str, ...]
    rows: Array
    files: tuple[str, ...]
    file: Ints
    row: Ints
    names: tuple[str, ...]
    user: Ints
    weights: Array | None = None

    def users(self) -> ByUser:
        """Collect each user's rows, in the order of the files."""
        if len(set(self.names)) < len(self.names):
            name = next(name for name in self.names if self.names.count(name) > 1)
            same = [file for file in self.files if Path(file).stem == name]
            raise DataError(
                f"Each file must be another user, named by the file. Got {same[0]} and {same[1]};"
                " or name the users in a column, with --users-column."
            )
        sizes = np.bincount(self.user, minlength=len(self.names))
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return ByUser(self.names, np.argsort(self.user, kind="stable"), offsets)

    def places(self) -> dict[str, Any]:
        """Give the columns that say where each row came from: file and row."""
        return {"file": pl.Series(self.files).gather(self.file), "row": self.row}

    def user_names(self) -> Any:
        """Give the column that names each row's user."""
        return pl.Series(self.names).gather(self.user)


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
    frames = [_frame(path, users_column) for path in files]
    beside = [name for name in (users_column, weights_column) if name is not None]
    features = _features(files, frames, columns, beside)
    hint = "; choose other columns with --columns" if columns is None else ""
    blocks = [
        np.column_stack([_numbers(path, frame, name, hint) for name in features])
        for path, frame in zip(files, frames, strict=True)
    ]
    sizes = [len(block) for block in blocks]
    if not any(sizes) and not may_be_empty:
        raise DataError(f"There must be rows in some file. Got none in {shorten(files)}.")
    file = np.repeat(np.arange(len(files)), sizes)
    weights = None
    if weights_column is not None:
        weights = np.concatenate(
            [
                _weights(path, frame, weights_column)
                for path, frame in zip(files, frames, strict=True)
            ]
        )
    names, user = tuple(path.stem for path in files), file
    if users_column is not None:
        names, user = _users(files, frames, users_column)
    return Table(
        features=tuple(features),
        rows=np.concatenate(blocks),
        files=tuple(str(path) for path in files),
        file=file,
        row=np.concatenate([np.arange(size) for size in sizes]),
        names=names,
        user=user,
        weights=weights,
    )


def read_matrix(path: Path) -> Array:
    """Read a matrix: a line a row, commas between the numbers, no header."""
    _check_file(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        return np.array([[float(v) for v in line.split(",")] for line in lines if line.strip()])
    except (OSError, ValueError):
        raise DataError(
            f"The matrix file {path} must have as many numbers in each line, commas between them,"
            " and no header."
        ) from None


def check_suffix(path: Path) -> None:
    """Raise unless a table can be read from, or written to, a file of this name."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"The file {path} must end in .csv or .parquet.")


def write(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns to a CSV or Parquet file; numbers of a CSV read back to the last bit."""
    frame = pl.DataFrame(dict(columns))
    if path.suffix.lower() == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path)


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path} must be a file. Got a directory; give the files in it.")
    if not path.exists():
        raise DataError(f"There is no file {path}.")


def _frame(path: Path, users_column: str | None) -> pl.DataFrame:
    _check_file(path)
    check_suffix(path)
    try:
        if path.suffix.lower() == ".parquet":
            frame = pl.read_parquet(path)
        else:
            # A user's name is text even if it looks like a number: 007 is not 7.
            names = {} if users_column is None else {users_column: pl.String}
            frame = pl.read_csv(path, infer_schema_length=None, schema_overrides=names)
            frame = frame.rename({name: name.strip() for name in frame.columns})
            _check_header(path, frame.columns)
    except pl.exceptions.NoDataError:
        raise DataError(f"The file {path} is empty.") from None
    except OSError as error:
        raise DataError(f"The file {path} cannot be read: {error.strerror or error}.") from None
    except pl.exceptions.PolarsError as error:
        kind, why = path.suffix[1:].upper(), str(error).splitlines()[0].rstrip(".")
        raise DataError(f"The file {path} is not a {kind} table that can be read: {why}.") from None
    return frame


def _check_header(path: Path, names: Sequence[str]) -> None:
    for name in names:
        again = re.fullmatch(r"(.*)_duplicated_\d+", name)  # what polars makes of a second one
        if again and again[1] in names:
            raise DataError(
                f"The columns of {path} must have different names. Got {again[1]!r} twice."
            )
    numbers = all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name, re.IGNORECASE) for name in names)
    # Years, or columns numbered one after the other, are a header; other numbers are a row.
    counted = [str(int(names[0]) + i) for i in range(len(names))] if names[0].isdecimal() else []
    if numbers and list(names) != counted:
        raise DataError(
            f"The first line of {path} must name the columns. Got {', '.join(names[:4])}."
        )


def _features(
    files: Sequence[Path],
    frames: Sequence[pl.DataFrame],
    columns: Sequence[str] | None,
    beside: Collection[str],
) -> list[str]:
    asked = [*(columns or ()), *beside]
    for path, frame in zip(files, frames, strict=True):
        for name in asked:
            if name not in frame.columns:
                hint = guess(name, frame.columns)
                raise DataError(f"There is no column {name!r} in {path}.{hint}")
    if columns is not None:
        if twice := [name for name in columns if columns.count(name) > 1]:
            raise ParameterError(f"`--columns` must name each column once. Got {twice[0]!r} twice.")
        return list(columns)
    features = [name for name in frames[0].columns if name not in beside]
    for path, frame in zip(files[1:], frames[1:], strict=True):
        lacks = [name for name in features if name not in frame.columns]
        more = [name for name in frame.columns if name not in frames[0].columns]
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
        place = frames[0].columns.index("")
        raise DataError(
            f"Column {place} of {files[0]} has no name; name it, or choose columns with --columns."
        )
    return features


def _numbers(path: Path, frame: pl.DataFrame, name: str, hint: str = "") -> Array:
    column = frame[name]
    if column.dtype == pl.String:
        column = column.str.strip_chars()
        numbers = column.cast(pl.Float64, strict=False)
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        numbers = column.cast(pl.Float64)
    else:
        numbers = pl.repeat(None, frame.height, dtype=pl.Float64, eager=True)
    values = numbers.to_numpy()
    finite = np.isfinite(values)
    if not finite.all():
        row = int(finite.argmin())
        got, number = column[row], numbers[row]
        if got is None or (isinstance(got, str) and not got):
            why = f"finite numbers. Got nothing in row {row}."
        elif number is not None:
            why = f"finite numbers. Got {number} in row {row}."
        else:
            why = f"numbers. Got {str(got)!r} in row {row}{hint}."
        raise DataError(f"Column {name!r} of {path} must be {why}")
    return values


def _weights(path: Path, frame: pl.DataFrame, name: str) -> Array:
    weights = _numbers(path, frame, name)
    if (weights < 0).any():
        row = int((weights < 0).argmax())
        raise DataError(
            f"Column {name!r} of {path} must be weights >= 0. Got {weights[row]} in row {row}."
        )
    return weights


def _users(
    files: Sequence[Path], frames: Sequence[pl.DataFrame], name: str
) -> tuple[tuple[str, ...], Ints]:
    """Give the users' names, sorted, those of digits by size; and each row's place among them."""
    columns = [frame[name].cast(pl.String).str.strip_chars() for frame in frames]
    for path, column in zip(files, columns, strict=True):
        blank = column.is_null() | (column == "")
        if blank.any():
            row = int(blank.to_numpy().argmax())
            raise DataError(
                f"Column {name!r} of {path} must name a user in each row. Got nothing in row {row}."
            )
    column = pl.concat(columns)
    names = sort_names(column.unique().to_list())
    codes = column.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int64)
    return tuple(names), codes
