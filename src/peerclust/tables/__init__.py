"""Tables of rows in CSV and Parquet files, read, checked and written; polars is used only here.

- `table`: the rows of some files, and their users.
- `dialect`: the delimiter and the decimal sign of a CSV file, given or detected.
- `frames`: one file, as polars reads and writes it.
- `columns`: what columns must contain, and the errors if they do not.
- `reading`: files read into one table.
- `by_rank`: files read by the processes of a group, each its own users' rows.

Rows are numbered from 0 within their file, without the header line.
"""

from __future__ import annotations

from peerclust.errors import MissingExtraError

try:
    import polars as _polars  # noqa: F401
except ImportError:
    raise MissingExtraError(
        "Tables need polars, which is not installed; it comes with the extra `tables`."
    ) from None

from peerclust.tables.by_rank import read_own
from peerclust.tables.dialect import DETECT_ALL, CsvOptions
from peerclust.tables.frames import check_suffix, read_matrix, write
from peerclust.tables.reading import read
from peerclust.tables.table import ByUser, Table

__all__ = [
    "DETECT_ALL",
    "ByUser",
    "CsvOptions",
    "Table",
    "check_suffix",
    "read",
    "read_matrix",
    "read_own",
    "write",
]
