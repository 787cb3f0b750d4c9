"""One file, as polars reads and writes it, and the errors of files that are not tables.

A CSV file may be compressed with gzip, whatever its suffix says. It is then decompressed in memory
as a whole, because gzip has no index: a part of it cannot be found without reading all before it.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from peerclust.arrays import Array
from peerclust.errors import DataError
from peerclust.tables.dialect import SAMPLE_BYTES, CsvOptions, Dialect, detect, read_header, title
from peerclust.text import show

Known = tuple[Dialect, dict[str, Any]]


def check_suffix(path: Path) -> None:
    """Raise unless a table can be written to a file of this name."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"The file {path} must end in .csv or .parquet.")


def read_frame(
    path: Path, users_column: str | None, given: CsvOptions
) -> tuple[pl.DataFrame, Dialect | None]:
    """Read a whole file, and the dialect of a CSV file; columns' names are stripped of blanks."""
    with _readable_errors(path):
        if _is_parquet(path):
            return pl.read_parquet(path), None
        source = _open(path)
        dialect = detect(_head(source), path, given)
    with _readable_errors(path, dialect):
        header = read_header(_head(source), dialect)
        _check_header(path, header, dialect)
        frame = pl.read_csv(
            source,
            infer_schema_length=None,
            schema_overrides=_texts(header, users_column),
            **_signs(dialect),
        )
        return frame.rename(_rename(frame.columns, header)), dialect


@dataclass(frozen=True, eq=False)
class Scan:
    """A file that is read lazily: only the requested columns and rows.

    `known` is of a CSV file: its dialect, and the types of its columns, which depend on all of its
    rows. A process that gets it from another need not read all rows to infer it.
    """

    path: Path
    frame: pl.LazyFrame
    columns: list[str]
    known: Known | None

    @property
    def dialect(self) -> Dialect | None:
        """The dialect of a CSV file."""
        return self.known and self.known[0]

    def fetch(self, *columns: Any) -> pl.DataFrame:
        """Read some columns."""
        with _readable_errors(self.path, self.dialect):
            return self.frame.select(*columns).collect()

    def fetch_rows(self, where: Any, columns: Sequence[str]) -> tuple[pl.DataFrame, Any]:
        """Read some columns of the rows that match `where`; return the rows' indices, too."""
        index = max(self.columns, key=len) + "+"  # longer than any column's name
        with _readable_errors(self.path, self.dialect):
            rows = self.frame.with_row_index(index).filter(where)
            frame = rows.select(index, *columns).collect()
        return frame.drop(index), frame[index].to_numpy().astype(np.int64)


def scan_file(path: Path, users_column: str, given: CsvOptions, known: Known | None = None) -> Scan:
    """Open a file without reading its rows; the columns are as in `read_frame`."""
    with _readable_errors(path):
        if _is_parquet(path):
            frame = pl.scan_parquet(path)
            return Scan(path, frame, frame.collect_schema().names(), None)
        source = _open(path)
        dialect = detect(_head(source), path, given) if known is None else known[0]
    with _readable_errors(path, dialect):
        header = read_header(_head(source), dialect)
        _check_header(path, header, dialect)
        frame = pl.scan_csv(
            source,
            infer_schema_length=None if known is None else 0,
            schema_overrides=_texts(header, users_column) if known is None else known[1],
            **_signs(dialect),
        )
        schema = dict(frame.collect_schema())
        names = _rename(list(schema), header)
        return Scan(path, frame.rename(names), list(names.values()), (dialect, schema))


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


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _open(path: Path) -> Path | io.BytesIO:
    """Return what polars reads: the file, or its content if that is compressed.

    Not left to polars, which in some versions reads an incomplete gzip file as if it were text.
    """
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return path
    with gzip.open(path) as compressed:
        return io.BytesIO(compressed.read())


def _head(source: Path | io.BytesIO) -> bytes:
    if isinstance(source, io.BytesIO):
        return bytes(source.getbuffer()[:SAMPLE_BYTES])
    with source.open("rb") as file:
        return file.read(SAMPLE_BYTES)


def _check_utf_8(path: Path) -> None:
    """Raise if a line of a CSV file is not UTF-8."""
    source = _open(path)
    with source if isinstance(source, io.BytesIO) else source.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise DataError(
                    f"The file {path} must be text in UTF-8. Got the byte 0x{line[error.start]:02x}"
                    f" in line {number}; save it as UTF-8."
                ) from None


def _check_widths(path: Path, dialect: Dialect) -> None:
    """Raise if a row of a CSV file has more fields than its header."""
    source = _open(path)
    with (
        io.TextIOWrapper(
            source if isinstance(source, io.BytesIO) else source.open("rb"), "utf-8-sig", newline=""
        ) as lines,
        suppress(csv.Error),
    ):
        records = csv.reader(lines, delimiter=dialect.delimiter)
        width = len(next(filter(None, records)))
        for row, record in enumerate(records):
            if len(record) > width:
                raise DataError(
                    f"The rows of {path} must have no more fields than the first line, {width}. Got"
                    f" {len(record)} in row {row}, read with {dialect}; name other signs with"
                    " --delimiter and --decimal."
                )


def _signs(dialect: Dialect) -> dict[str, Any]:
    return {"separator": dialect.delimiter, "decimal_comma": dialect.decimal == ","}


def _texts(header: Sequence[str], users_column: str | None) -> dict[str, Any]:
    """Return the type of the users' column: 007 is not 7. polars leaves quotes in names doubled."""
    names = [name for name in header if name.strip() == users_column]
    return {each: pl.String for name in names for each in (name, name.replace('"', '""'))}


def _rename(found: Sequence[str], header: Sequence[str]) -> dict[str, str]:
    """Return the names of columns by those that polars found, which hold if the header is cut."""
    names = header if len(header) == len(found) else found
    return {old: name.strip() for old, name in zip(found, names, strict=True)}


@contextmanager
def _readable_errors(path: Path, dialect: Dialect | None = None) -> Iterator[None]:
    """Raise one sentence if a file cannot be read."""
    _check_file(path)
    suffix = re.search(r"\.(csv|tsv|parquet)$|\.(csv|tsv)\.gz$", path.name, re.IGNORECASE)
    if suffix is None:
        raise DataError(f"The file {path} must end in .csv, .tsv, .csv.gz, .tsv.gz or .parquet.")
    try:
        yield
    except pl.exceptions.NoDataError:
        raise DataError(f"The file {path} is empty.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"The file {path} must be a complete gzip file.") from None
    except OSError as error:
        raise DataError(f"The file {path} cannot be read: {error.strerror or error}.") from None
    except pl.exceptions.PolarsError as error:
        if not _is_parquet(path):
            _check_utf_8(path)
            if dialect is not None:
                _check_widths(path, dialect)
        kind, why = (suffix[1] or suffix[2]).upper(), str(error).splitlines()[0].rstrip(".")
        why = why if len(why) < 300 else f"{why[:100]} ... {why[-100:]}"
        raise DataError(
            f"The file {title(path, dialect)} is not a readable {kind} table: {why}."
        ) from None


def _check_header(path: Path, names: Sequence[str], dialect: Dialect) -> None:
    # How polars reads bytes of a header that are not UTF-8.
    if any("\ufffd" in name for name in names):
        _check_utf_8(path)
    names = [name.strip() for name in names]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"The columns of {title(path, dialect)} must have different names. Got {show(twice)}"
            " twice."
        )
    signs = "." if dialect.plain else ".,"
    number = re.compile(rf"[-+]?[\d{signs}]+(e[-+]?\d+)?", re.IGNORECASE)
    # Numbers are a row, unless they count the columns from 0 or are consecutive years.
    may_count = len(names) > 1 and names[0] in ("0", *map(str, range(1900, 2101)))
    counted = [str(int(names[0]) + i) for i in range(len(names))] if may_count else []
    if names and all(map(number.fullmatch, names)) and names != counted:
        raise DataError(
            f"The first line of {title(path, dialect)} must name the columns. Got"
            f" {', '.join(name[:30] for name in names[:4])}."
        )
