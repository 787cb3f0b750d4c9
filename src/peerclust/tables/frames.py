"""One file, as polars reads and writes it, and the errors of files that are not tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from peerclust.arrays import Array
from peerclust.errors import DataError

Schema = dict[str, Any]


def check_suffix(path: Path) -> None:
    """Raise unless a table can be read from, or written to, a file of this name."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"The file {path} must end in .csv or .parquet.")


def read_frame(path: Path, users_column: str | None) -> pl.DataFrame:
    """Read a whole file; the names of its columns are stripped of blanks."""
    with _readable_errors(path):
        if path.suffix.lower() == ".parquet":
            return pl.read_parquet(path)
        # A user's name is text even if it schemas like a number: 007 is not 7.
        names = {} if users_column is None else {users_column: pl.String}
        frame = pl.read_csv(path, infer_schema_length=None, schema_overrides=names)
        frame = frame.rename({name: name.strip() for name in frame.columns})
        _check_header(path, frame.columns)
        return frame


@dataclass(frozen=True, eq=False)
class Scan:
    """A file that is read lazily: only the requested columns and rows.

    `schema` has the types of a CSV file's columns, which depend on all of its rows. A process that
    gets it from another need not read all rows to infer it.
    """

    path: Path
    frame: pl.LazyFrame
    columns: list[str]
    schema: Schema | None

    def fetch(self, *columns: Any) -> pl.DataFrame:
        """Read some columns."""
        with _readable_errors(self.path):
            return self.frame.select(*columns).collect()

    def fetch_rows(self, where: Any, columns: Sequence[str]) -> tuple[pl.DataFrame, Any]:
        """Read some columns of the rows that match `where`; return the rows' indices, too."""
        index = max(self.columns, key=len) + "+"  # longer than any column's name
        with _readable_errors(self.path):
            rows = self.frame.with_row_index(index).filter(where)
            frame = rows.select(index, *columns).collect()
        return frame.drop(index), frame[index].to_numpy().astype(np.int64)


def scan_file(path: Path, users_column: str, schema: Schema | None = None) -> Scan:
    """Open a file without reading its rows; the columns are as in `read_frame`."""
    with _readable_errors(path):
        if path.suffix.lower() == ".parquet":
            frame = pl.scan_parquet(path)
            return Scan(path, frame, frame.collect_schema().names(), None)
        given = {users_column: pl.String} if schema is None else schema
        frame = pl.scan_csv(
            path, infer_schema_length=None if schema is None else 0, schema_overrides=given
        )
        schema = dict(frame.collect_schema())
        columns = [name.strip() for name in schema]
        _check_header(path, columns)
        frame = frame.rename({name: name.strip() for name in schema if name != name.strip()})
        return Scan(path, frame, columns, schema)


def read_matrix(path: Path) -> Array:
    """Read a matrix: one line per row, commas between the numbers, no header."""
    _check_file(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        return np.array([[float(v) for v in line.split(",")] for line in lines if line.strip()])
    except (OSError, ValueError):
        raise DataError(
            f"The matrix file {path} must have equally many numbers in each line, separated by"
            " commas, and no header."
        ) from None


def write(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns to a CSV or Parquet file; CSV numbers can be read back to the last bit."""
    frame = pl.DataFrame(dict(columns))
    if path.suffix.lower() == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path)


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path} must be a file. Got a directory; name the files in it.")
    if not path.exists():
        raise DataError(f"There is no file {path}.")


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    """Raise one sentence if a file cannot be read."""
    _check_file(path)
    check_suffix(path)
    try:
        yield
    except pl.exceptions.NoDataError:
        raise DataError(f"The file {path} is empty.") from None
    except OSError as error:
        raise DataError(f"The file {path} cannot be read: {error.strerror or error}.") from None
    except pl.exceptions.PolarsError as error:
        kind, why = path.suffix[1:].upper(), str(error).splitlines()[0].rstrip(".")
        raise DataError(f"The file {path} is not a readable {kind} table: {why}.") from None


def _check_header(path: Path, names: Sequence[str]) -> None:
    for name in names:
        second = re.fullmatch(r"(.*)_duplicated_\d+", name)  # how polars renames a second one
        if second and second[1] in names:
            raise DataError(
                f"The columns of {path} must have different names. Got {second[1]!r} twice."
            )
    numbers = all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", name, re.IGNORECASE) for name in names)
    # Consecutive whole numbers, such as years, are a header; other numbers are a row.
    counted = [str(int(names[0]) + i) for i in range(len(names))] if names[0].isdecimal() else []
    if numbers and list(names) != counted:
        raise DataError(
            f"The first line of {path} must name the columns. Got {', '.join(names[:4])}."
        )
