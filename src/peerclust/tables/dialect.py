"""How a CSV file separates its fields and writes its numbers: given by the user, or detected.

Detection reads the first lines only, and never decides between two plausible readings: a file
that does not show its delimiter, or its decimal sign, is rejected with the option that names it.
Thousands separators are not numbers.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from peerclust.errors import DataError

# What is read of a file to detect its dialect.
SAMPLE_BYTES, SAMPLE_LINES = 2**18, 100
# Not the space, which is part of many columns' names.
DETECTED = (",", ";", "\t", "|")

_POINT = re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?", re.IGNORECASE)
_COMMA = re.compile(_POINT.pattern.replace(r"\.", ","), re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?\d+(e[-+]?\d+)?", re.IGNORECASE)
# 1,234 may be 1.234 or 1234; 0,123 and 1234,567 are not in groups of three digits.
_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")

Records = Sequence[Sequence[str]]


@dataclass(frozen=True)
class CsvOptions:
    """What the user says about CSV files; None is detected in each file."""

    delimiter: str | None = None
    decimal: str | None = None


DETECT_ALL = CsvOptions()


@dataclass(frozen=True)
class Dialect:
    """The delimiter and the decimal sign of a file.

    `unsure` if no delimiter was found, but lines that may have an unknown one.

    >>> str(Dialect(";", ","))
    "';' as delimiter and ',' as decimal sign"
    """

    delimiter: str = ","
    decimal: str = "."
    unsure: bool = False

    @property
    def plain(self) -> bool:
        """Whether these are the signs of a file of comma-separated values."""
        return (self.delimiter, self.decimal) == (",", ".")

    def __str__(self) -> str:
        return f"{_show(self.delimiter)} as delimiter and {_show(self.decimal)} as decimal sign"

    def advise(self, cell: str) -> str:
        """Return advice for a cell that is a number only with the other decimal sign."""
        if self.delimiter == ",":
            return ""
        for sign, word, number in ((".", "point", _POINT), (",", "comma", _COMMA)):
            if sign != self.decimal and number.fullmatch(cell):
                return f"; if {sign!r} is the decimal sign, give --decimal {word}"
        return ""


def title(path: Path | str, dialect: Dialect | None) -> str:
    r"""Return a file's name for errors, with its dialect unless that goes without saying.

    >>> title(Path("a.csv"), Dialect()), title(Path("a.csv"), Dialect("\t"))
    ('a.csv', "a.csv (read with a tab as delimiter and '.' as decimal sign)")
    """
    if dialect is None or (dialect.plain and not dialect.unsure):
        return str(path)
    advice = "; give another with --delimiter" if dialect.unsure else ""
    return f"{path} (read with {dialect}{advice})"


def detect(head: bytes, path: Path, given: CsvOptions) -> Dialect:
    r"""Return the dialect of a file that begins with `head`, at most `SAMPLE_BYTES` of it.

    >>> detect(b"a;b\n1,5;2\n", Path("a.csv"), CsvOptions())
    Dialect(delimiter=';', decimal=',', unsure=False)
    """
    if b"\0" in head:
        utf_16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        got = "UTF-16; save it as UTF-8" if utf_16 else "binary data"
        raise DataError(f"The file {path} must be text in UTF-8. Got {got}.")
    if b"\r" in head and b"\n" not in head:
        raise DataError(
            f"The lines of {path} must end with \\n or \\r\\n. Got \\r only; save it with other"
            " line ends."
        )
    lines = head.decode("utf-8-sig", errors="replace").split("\n")
    cut = len(head) == SAMPLE_BYTES or len(lines) > SAMPLE_LINES
    lines = lines[:SAMPLE_LINES]
    candidates = _find_candidates(lines, cut, given.delimiter or ",")
    delimiter = given.delimiter or _choose(candidates, path, given.decimal)
    if candidates and delimiter not in candidates:
        raise DataError(
            f"The lines of {path} must have {_show(delimiter)} as delimiter. Got"
            f" {_show(next(iter(candidates)))}; name it with --delimiter."
        )
    rows = (candidates.get(delimiter) or _split(lines, delimiter, cut))[1:]
    unsure = given.delimiter is None and not candidates and _has_other_signs(lines)
    return Dialect(delimiter, given.decimal or _detect_decimal(rows, delimiter, path), unsure)


def read_header(head: bytes, dialect: Dialect) -> list[str]:
    r"""Return the fields of the first line that is not blank; none if it cannot be read.

    >>> read_header(b'"a, b",c\n1,2\n', Dialect())
    ['a, b', 'c']
    """
    lines = io.StringIO(head.decode("utf-8-sig", errors="replace"), newline="")
    try:
        return next(filter(None, csv.reader(lines, delimiter=dialect.delimiter)), [])
    except csv.Error:
        return []


def _find_candidates(lines: Sequence[str], cut: bool, given: str) -> dict[str, Records]:
    """Return the records by delimiter; a delimiter occurs in the header, and in a row if any."""
    found = {}
    for delimiter in dict.fromkeys((*DETECTED, given)):
        if any(delimiter in line for line in lines):
            records = _split(lines, delimiter, cut)
            widths = [len(record) for record in records] or [0]
            if widths[0] > 1 and max(widths[1:], default=2) > 1:
                found[delimiter] = records
    return found


def _split(lines: Sequence[str], delimiter: str, cut: bool) -> Records:
    """Return the records of the lines; the last one may be incomplete if they are cut."""
    try:
        records = [record for record in csv.reader(lines, delimiter=delimiter) if record]
    except csv.Error:  # such as a field that is too long
        return []
    return records[:-1] if cut and len(records) > 1 else records


def _choose(candidates: Mapping[str, Records], path: Path, decimal: str | None) -> str:
    """Return the only candidate, or the only one that has the most columns of numbers."""
    others = {sign: each for sign, each in candidates.items() if sign != decimal}
    if candidates and not others:
        raise DataError(
            f"The decimal sign of {path} must differ from its delimiter. Got --decimal comma for a"
            " file whose delimiter is ',' too."
        )
    if len(others) < 2:
        return next(iter(others), ";" if decimal == "," else ",")
    numbers = {sign: _count_numbers(records) for sign, records in others.items()}
    best = [sign for sign in numbers if numbers[sign] == max(numbers.values())]
    if len(best) == 1:
        return best[0]
    names = " or ".join(map(_show, best))
    raise DataError(
        f"The first lines of {path} do not show whether {names} is the delimiter; name it with"
        " --delimiter."
    )


def _count_numbers(records: Records) -> int:
    """Return the number of columns that have a number in each row."""
    header, *rows = records
    return sum(
        bool(rows) and all(len(row) > j and _is_number(row[j]) for row in rows)
        for j in range(len(header))
    )


def _is_number(cell: str) -> bool:
    return any(each.fullmatch(cell.strip()) for each in (_WHOLE, _POINT, _COMMA))


def _detect_decimal(rows: Records, delimiter: str, path: Path) -> str:
    if delimiter == ",":
        return "."
    cells = [cell.strip() for row in rows for cell in row]
    point = next((cell for cell in cells if _POINT.fullmatch(cell)), None)
    comma = next(
        (cell for cell in cells if _COMMA.fullmatch(cell) and not _GROUPED.fullmatch(cell)), None
    )
    if point is not None and comma is not None:
        raise DataError(
            f"The first lines of {path} do not show whether '.' or ',' is the decimal sign: got"
            f" {point} and {comma}; name it with --decimal."
        )
    return "." if comma is None else ","


def _has_other_signs(lines: Sequence[str]) -> bool:
    return any(re.search(r"[^\w.+\-\s]|\S[ \t]+\S", line) for line in lines)


def _show(sign: str) -> str:
    return {"\t": "a tab", " ": "a space"}.get(sign, f"'{sign}'")
