"""Tables read from files: users, features, weights, and what is rejected."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from bad_files import BAD_FILES, csv

from peerclust import tables
from peerclust.errors import DataError, ParameterError


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_each_file_is_a_user_named_by_it():
    Path("sites").mkdir()
    table = tables.read([csv("sites/oslo.csv", "a,b\n1,2\n3,4\n"), csv("bern.csv", "a,b\n5,6\n")])
    users = table.users()
    assert table.features == ("a", "b")
    assert table.rows.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert table.names == ("oslo", "bern")
    assert users.order.tolist() == [0, 1, 2]
    assert users.offsets.tolist() == [0, 2, 3]
    assert table.origins()["file"].to_list() == ["sites/oslo.csv", "sites/oslo.csv", "bern.csv"]
    assert table.origins()["row"].tolist() == [0, 1, 0]


def test_a_column_may_name_the_users_of_several_files():
    one = csv("one.csv", "site,a\noslo,1\n bern ,2\n")
    two = csv("two.csv", "a,site\n3,oslo\n")
    table = tables.read([one, two], users_column="site")
    users = table.users()
    assert table.features == ("a",)
    assert table.names == ("bern", "oslo")
    assert users.order.tolist() == [1, 0, 2]
    assert users.offsets.tolist() == [0, 1, 3]
    assert table.name_users(table.user).to_list() == ["oslo", "bern", "oslo"]


def test_names_of_users_are_text_and_those_of_digits_are_sorted_by_size():
    table = tables.read([csv("a.csv", "site,a\n10,1\n9,2\n007,3\n")], users_column="site")
    assert table.names == ("9", "10", "007")


def test_users_of_a_parquet_file_may_be_numbers_or_categories():
    pl.DataFrame({"a": [1.0, 2.0], "site": [10, 9]}).write_parquet("a.parquet")
    assert tables.read([Path("a.parquet")], users_column="site").names == ("9", "10")
    frame = pl.DataFrame({"a": [1.0, 2.0], "site": ["x", "y"]})
    frame.with_columns(pl.col("site").cast(pl.Categorical)).write_parquet("b.parquet")
    assert tables.read([Path("b.parquet")], users_column="site").names == ("x", "y")


def test_columns_are_matched_by_name():
    one, two = csv("one.csv", "a,b\n1,2\n"), csv("two.csv", "b,a\n4,3\n")
    assert tables.read([one, two]).rows.tolist() == [[1, 2], [3, 4]]
    assert tables.read([one, two], columns=["b"]).rows.tolist() == [[2], [4]]


def test_booleans_whole_numbers_and_blanks_around_numbers_are_numbers():
    table = tables.read([csv("a.csv", "flag,n, x\ntrue,1, 2.5\nfalse,-2,1e3 \n")])
    assert table.features == ("flag", "n", "x")
    assert table.rows.tolist() == [[1, 1, 2.5], [0, -2, 1000]]
    assert table.rows.dtype == np.float64
    assert table.rows.flags.c_contiguous


def test_years_and_numbers_may_name_columns():
    assert tables.read([csv("a.csv", "2019,2020\n1,2\n")]).features == ("2019", "2020")
    assert tables.read([csv("a.csv", "0,1,2\n1,2,5\n")]).features == ("0", "1", "2")


def test_names_of_columns_are_those_that_pandas_reads():
    path = csv("a.csv", '"a ""x""",x_duplicated_0,x," b\nc"\n1,2,3,4\n')
    features = tables.read([path]).features
    assert features == tuple(name.strip() for name in pd.read_csv(path))
    assert features == ('a "x"', "x_duplicated_0", "x", "b\nc")


@pytest.mark.parametrize("header", ['"the ""site""",x', ' the "site",x'])
def test_users_are_text_whatever_the_quotes_and_blanks_of_their_column(header):
    table = tables.read([csv("a.csv", f"{header}\n007,1\n08,2\n")], users_column='the "site"')
    assert table.names == ("08", "007")


def test_a_number_of_too_many_digits_is_shortened():
    with pytest.raises(DataError) as error:
        tables.read([csv("a.csv", f"a,b\n1,{200_000 * '9'}\n3,4\n")])
    assert len(str(error.value)) < 400


def test_weights_are_read_beside_the_features():
    table = tables.read([csv("a.csv", "a,w\n1,0\n2,0.5\n")], weights_column="w")
    assert table.features == ("a",)
    assert table.weights.tolist() == [0, 0.5]


def test_written_numbers_read_back_to_the_last_bit():
    values = (
        np.random.default_rng(0).standard_normal((200, 2)) * 10.0 ** np.arange(-100, 100)[:, None]
    )
    for name in ("a.csv", "a.parquet"):
        tables.write(Path(name), {"a": values[:, 0], "b": values[:, 1]})
        assert np.array_equal(tables.read([Path(name)]).rows, values)


def test_a_matrix_is_read_without_a_header():
    assert tables.read_matrix(csv("A.csv", "2,0.5\n0.5, 1\n\n")).tolist() == [[2, 0.5], [0.5, 1]]


@pytest.mark.parametrize(("files", "options", "sentence"), BAD_FILES)
def test_a_bad_file_is_named_in_one_sentence(files, options, sentence):
    Path("sub").mkdir()
    paths = [csv(name, text) for name, text in files.items()] or [Path("a.csv")]
    with pytest.raises(DataError) as caught:
        tables.read(paths, **options).users()
    assert str(caught.value) == sentence


def test_a_directory_is_not_a_file():
    Path("data.csv").mkdir()
    with pytest.raises(DataError, match=r"data\.csv must be a file\. Got a directory"):
        tables.read([Path("data.csv")])


def test_a_file_without_read_permission_is_named(monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    # Not by a real permission, because root may read every file.
    monkeypatch.setattr(pl, "read_csv", refuse)
    with pytest.raises(DataError, match=r"The file a\.csv cannot be read: Permission denied\."):
        tables.read([csv("a.csv", "a\n1\n")])


def test_a_file_with_a_header_only_is_a_user_without_rows():
    table = tables.read(
        [csv("a.csv", "x,y\n1,2\n"), csv("b.csv", "x,y\n"), csv("c.csv", "x,y\n3,4\n")]
    )
    users = table.users()
    assert table.names == ("a", "b", "c")
    assert users.offsets.tolist() == [0, 1, 1, 2]
    assert table.rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_broken_parquet_file_is_named():
    with pytest.raises(DataError, match=r"The file a\.parquet is not a readable PARQUET table"):
        tables.read([csv("a.parquet", "PAR1 or so")])


def test_dates_of_a_parquet_file_are_not_numbers():
    pl.DataFrame({"x": [1.0], "when": ["2020-01-01"]}).with_columns(
        pl.col("when").str.to_date()
    ).write_parquet("a.parquet")
    with pytest.raises(DataError, match=r"'when' of a\.parquet must be numbers\. Got '2020-01"):
        tables.read([Path("a.parquet")])


def test_a_column_may_be_requested_only_once():
    with pytest.raises(ParameterError, match="Got 'a' twice"):
        tables.read([csv("a.csv", "a,b\n1,2\n")], columns=["a", "a"])


@pytest.mark.parametrize("text", ["1,2\n3\n", "a,b\n1,2\n"])
def test_a_matrix_has_equally_many_numbers_in_each_line(text):
    with pytest.raises(DataError, match=r"The matrix file A\.csv must have equally many numbers"):
        tables.read_matrix(csv("A.csv", text))
