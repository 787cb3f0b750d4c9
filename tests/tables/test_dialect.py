"""CSV files with other delimiters and decimal signs: read as pandas reads them, or rejected."""

import csv as standard
import gzip
import io
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from bad_files import csv
from hypothesis import given, settings, strategies as st

from peerclust import graphs, tables
from peerclust.errors import DataError
from peerclust.tables.dialect import SAMPLE_BYTES, CsvOptions, Dialect, detect
from peerclust.tables.frames import read_frame
from thread_group import run_group

# A space or a colon is never detected.
DETECTED = (",", ";", "\t", "|")
DIALECTS = [pair for pair in product((*DETECTED, " ", ":"), ".,") if pair != (",", ",")]
NAMES = ["id", "x", "y", "site"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make_rows():
    """Return rows of a whole number, two others, and text that contains every delimiter."""
    rng = np.random.default_rng(0)
    numbers = (rng.normal(size=40) * 10.0 ** rng.integers(-8, 8, 40)).tolist()
    texts = ['new; "york", | : here', "a\tb", "oslo"]
    return [[i, x, 0.5 * i, texts[i % 3]] for i, x in enumerate(numbers)]


def write(name, rows, delimiter, decimal=".", *, quote_all=False, bom=False):
    """Write rows by Python's own writer; compress them if the name says so."""
    out = io.StringIO()
    quoting = standard.QUOTE_ALL if quote_all else standard.QUOTE_MINIMAL
    writer = standard.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    for row in rows:
        writer.writerow(
            [str(each).replace(".", decimal) if isinstance(each, float) else each for each in row]
        )
    data = b"\xef\xbb\xbf" * bom + out.getvalue().encode()
    return csv(name, gzip.compress(data) if name.endswith(".gz") else data)


def options_for(delimiter):
    return CsvOptions() if delimiter in DETECTED else CsvOptions(delimiter)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz"])
@pytest.mark.parametrize("quote_all", [False, True])
@pytest.mark.parametrize("bom", [False, True])
@pytest.mark.parametrize(("delimiter", "decimal"), DIALECTS)
def test_a_file_is_read_as_pandas_reads_it(name, quote_all, bom, delimiter, decimal):
    rows = make_rows()
    path = write(name, [NAMES, *rows], delimiter, decimal, quote_all=quote_all, bom=bom)
    expected = pd.read_csv(path, sep=delimiter, decimal=decimal)
    table = tables.read([path], users_column="site", csv=options_for(delimiter))
    assert table.rows.tolist() == [row[:3] for row in rows]
    np.testing.assert_allclose(table.rows, expected[NAMES[:3]], rtol=1e-12)
    assert table.name_users(table.user).to_list() == expected["site"].to_list()
    (found,) = table.dialects
    assert (found.delimiter, found.decimal) == (delimiter, decimal)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize(("delimiter", "decimal"), DIALECTS)
def test_a_file_without_a_header_is_rejected(name, delimiter, decimal):
    rows = [[x, y, x - 1] for _, x, y, _ in make_rows()]
    path = write(name, rows, delimiter, decimal)
    with pytest.raises(DataError, match=r"The first line of .* must name the columns\. Got 12"):
        tables.read([path], csv=options_for(delimiter))


@pytest.mark.parametrize("users_column", [None, "site"])
@pytest.mark.parametrize(("delimiter", "decimal"), DIALECTS[:5])
def test_processes_together_read_what_a_single_one_reads(delimiter, decimal, users_column):
    names = ["a.csv", "b.csv.gz", "c.tsv"]
    rows = [[*row[:3], NAMES[i % 3]] for i, row in enumerate(make_rows())]
    kept = slice(None) if users_column else slice(3)
    paths = [
        write(name, [each[kept] for each in [NAMES, *rows[i::3]]], delimiter, decimal)
        for i, name in enumerate(names)
    ]
    alone = tables.read(paths, users_column=users_column)
    shared = run_group(
        3,
        lambda group: tables.read_own(
            paths,
            columns=None,
            users_column=users_column,
            weights_column=None,
            make_graph=lambda names: graphs.ring(len(names)),
            group=group,
        )[0],
    )
    order = np.lexsort(np.concatenate([[each.row, each.file] for each in shared], axis=1))
    assert np.array_equal(np.concatenate([each.rows for each in shared])[order], alone.rows)
    for each in shared:
        assert each.names == alone.names
        assert each.dialects == alone.dialects == (Dialect(delimiter, decimal),) * 3


def test_the_user_of_a_compressed_file_is_named_without_both_suffixes():
    paths = [write(name, [["x"], [1.5]], ",") for name in ("oslo.csv.gz", "rome.TSV.GZ", "b.c.csv")]
    assert tables.read(paths).names == ("oslo", "rome", "b.c")


def test_gzip_is_recognized_by_content_and_may_have_several_members():
    csv("a.csv", gzip.compress(b"x;y\n1,5;2\n") + gzip.compress(b"3;4\n"))
    csv("b.csv.gz", "x;y\n1,5;2\n3;4\n")
    for name in ("a.csv", "b.csv.gz"):
        assert tables.read([Path(name)]).rows.tolist() == [[1.5, 2], [3, 4]]


def test_files_of_different_dialects_and_formats_make_one_table():
    paths = [csv("a.csv", "x,y\n1,2\n"), csv("b.tsv", "y\tx\n2,5\t3\n"), Path("c.parquet")]
    pl.DataFrame({"x": [5.0], "y": [6.0]}).write_parquet("c.parquet")
    table = tables.read([*paths, csv("d.csv", "x\ty\n7,5\t8\n")])
    assert table.rows.tolist() == [[1, 2], [3, 2.5], [5, 6], [7.5, 8]]
    assert table.describe_dialects() == [
        "Read with a tab as delimiter and ',' as decimal sign: b.tsv, d.csv."
    ]
    assert table.record_dialects() == {
        "a.csv": {"delimiter": ",", "decimal": "."},
        "b.tsv": {"delimiter": "\t", "decimal": ","},
        "d.csv": {"delimiter": "\t", "decimal": ","},
    }


def test_blanks_booleans_and_exponents_are_numbers_beside_decimal_commas():
    table = tables.read([csv("a.csv", "x; y;z\n 1,5 ;true;+,5\n2;false;-2,5E-3\n")])
    assert table.features == ("x", "y", "z")
    assert table.rows.tolist() == [[1.5, 1, 0.5], [2, 0, -0.0025]]


def test_a_column_whose_decimals_come_late_is_read_if_the_sign_is_given():
    rows = [[i, 2] for i in range(200)]
    path = write("a.csv", [["x", "y"], *rows, [0.5, 1.5]], ";", ",")
    with pytest.raises(DataError, match=r"Got '0,5' in row 200; if ',' is the decimal sign, give"):
        tables.read([path])
    assert tables.read([path], csv=CsvOptions(decimal=",")).rows[-1].tolist() == [0.5, 1.5]


def test_one_column_with_decimal_commas_needs_its_decimal_sign():
    path = csv("a.csv", "x\n1,5\n2,5\n")
    for options in (CsvOptions(decimal=","), CsvOptions(delimiter=";")):
        assert tables.read([path], csv=options).rows.tolist() == [[1.5], [2.5]]


@pytest.mark.parametrize(
    "text",
    [
        "id,tags;kind,x\n1,a;b,2.5\n",
        "weight;kg\n1\n2\n",
        "x,y\n1;2\n",
        '"a;b","c\td"\n1,2\n',
        "note,x\na;b;c|d,1\n",
        "x,y\n1,2\n1\n",
    ],
)
def test_other_signs_in_names_and_text_leave_a_plain_file_as_it_is(text):
    path = csv("a.csv", text)
    frame, found = read_frame(path, None, CsvOptions())
    assert found.plain
    assert frame.equals(pl.read_csv(path))


def test_only_the_beginning_of_a_file_decides():
    late = b"x;y\n" + b"1,5;2\n" * 120 + b"1.5;2\n"
    assert detect(late, Path("a.csv"), CsvOptions()) == Dialect(";", ",")
    # 1,23 would be a decimal number, but 1,234 need not be one.
    rows = b"\n" + b"1,234;%s\n" % (b"a" * 10_000) * 20 + b"1,23"
    cut = b"x;".ljust(SAMPLE_BYTES - len(rows), b"n") + rows
    assert detect(cut, Path("a.csv"), CsvOptions()) == Dialect(";", ".")
    assert detect(cut[1:], Path("a.csv"), CsvOptions(";")) == Dialect(";", ",")
    wide = b";".join(b"x%d" % i for i in range(SAMPLE_BYTES))[:SAMPLE_BYTES]
    assert detect(wide, Path("a.csv"), CsvOptions()).delimiter == ";"


names = st.lists(st.text("abc", min_size=1), min_size=1, max_size=4, unique=True)
numbers = st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e150, 1e150))


@settings(deadline=None, max_examples=60)
@given(st.data(), names, st.sampled_from(DIALECTS), st.booleans(), st.sampled_from(["", ".gz"]))
def test_numbers_come_back_to_the_last_bit_if_the_signs_are_given(
    data, names, signs, quote_all, gz
):
    rows = data.draw(
        st.lists(st.lists(numbers, min_size=len(names), max_size=len(names)), min_size=1)
    )
    path = write(f"a.csv{gz}", [names, *rows], *signs, quote_all=quote_all)
    table = tables.read([path], csv=CsvOptions(*signs))
    assert table.features == tuple(names)
    assert table.rows.tolist() == [[*map(float, row)] for row in rows]


@st.composite
def texts(draw):
    """Draw a file whose names and cells may contain any of the signs."""
    delimiter, width = draw(st.sampled_from(DETECTED)), draw(st.integers(1, 3))
    names = st.text("ab,;|", min_size=1, max_size=3)
    cells = st.text("12.,", min_size=1, max_size=4) | st.text("1a.,;\t|", min_size=1, max_size=3)
    lines = [[draw(names) for _ in range(width)]]
    lines += [[draw(cells) for _ in range(width)] for _ in range(draw(st.integers(1, 3)))]
    return "\n".join(map(delimiter.join, lines)) + "\n"


@settings(deadline=None, max_examples=200)
@given(texts())
def test_what_is_detected_is_never_read_as_other_numbers(text):
    try:
        table = tables.read([csv("a.csv", text)])
    except DataError:
        return
    (found,) = table.dialects
    header, *lines = standard.reader(text.splitlines(), delimiter=found.delimiter)
    assert [each.strip() for each in header] == list(table.features)
    for line, row in zip(lines, table.rows.tolist(), strict=True):
        # Some versions of polars ignore empty fields behind the last name.
        assert not any(line[len(header) :])
        cells = [cell.replace(found.decimal, ".") for cell in line[: len(header)]]
        assert found.decimal == "." or not any("." in cell for cell in line)
        assert row == [*map(float, cells)]
