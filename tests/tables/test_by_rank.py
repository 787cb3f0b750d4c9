import threading
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from bad_files import BAD_FILES, csv

from peerclust import graphs, tables
from peerclust.errors import DataError, ParameterError
from peerclust.tables import DETECT_ALL, by_rank, frames, reading
from thread_group import run_group


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read_shared(n, files, *, columns=None, users_column=None, weights_column=None, csv=DETECT_ALL):
    """Return what each of n processes reads, or the error that it raises."""
    return run_group(
        n,
        partial(
            lambda group, **request: tables.read_own([*map(Path, files)], group=group, **request)[
                0
            ],
            columns=columns,
            users_column=users_column,
            weights_column=weights_column,
            csv=csv,
            make_graph=lambda names: graphs.ring(len(names)),
        ),
    )


def make_files():
    """Write seven users' rows, one without any, by file and by column; return both lists."""
    random = np.random.default_rng(0)
    sizes = [5, 0, 9, 1, 4, 30, 2]
    names = [f"u{i}" for i in range(7)]
    site = np.repeat(names, sizes)
    columns = {"a": random.standard_normal(51), "flag": random.random(51) < 0.5}
    frame = pl.DataFrame({"site": site} | columns | {"w": random.random(51)})
    for name in names:
        frame.filter(pl.col("site") == name).drop("site").write_csv(f"{name}.csv")
    frame = frame.sample(fraction=1, shuffle=True, seed=0)
    frame[:20].write_csv("one.csv")
    # Numbers that turn out to be text only if the whole file is read.
    frame[20:40].with_columns(pl.col("a").cast(pl.String) + " ").write_csv("two.csv")
    frame[40:].write_parquet("three.parquet")
    return [f"{name}.csv" for name in names], ["one.csv", "two.csv", "three.parquet"]


@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize("column", [None, "site"])
def test_processes_together_have_what_a_single_process_reads(n, column):
    files = make_files()[column is not None]
    alone = tables.read([*map(Path, files)], users_column=column, weights_column="w")
    shared = read_shared(n, files, users_column=column, weights_column="w")
    assert sorted(i for table in shared for i in table.own) == [*range(len(alone.names))]
    for table in shared:
        assert (table.names, table.features) == (alone.names, alone.features)
        assert table.count_rows() == alone.count_rows()
        assert set(table.user.tolist()) <= set(table.own)
        assert len(table.rows) == sum(table.sizes[list(table.own)])
    joined = {
        name: np.concatenate([getattr(table, name) for table in shared])
        for name in ("rows", "file", "row", "user", "weights")
    }
    order = np.lexsort((joined["row"], joined["file"]))
    for name, values in joined.items():
        assert np.array_equal(values[order], getattr(alone, name)), name
    users, whole = shared[0].users(), alone.users()
    own = users.split(shared[0].rows)
    for i in users.ids:
        there = whole.order[whole.offsets[i] : whole.offsets[i + 1]]
        assert np.array_equal(own[i], alone.rows[there])


def test_a_process_opens_only_the_files_of_its_own_users(monkeypatch):
    files, by_column = make_files()
    opened = []

    def read_frame(path, users_column, given):
        opened.append(path.name)
        return frames.read_frame(path, users_column, given)

    monkeypatch.setattr(reading, "read_frame", read_frame)
    read_shared(3, files)
    assert sorted(opened) == sorted(files)
    opened.clear()
    read_shared(3, by_column, users_column="site")
    assert opened == []


def with_another(files):
    """Add a second user, so that there is one for each of two processes."""
    name, text = next(iter(files.items()))
    return files | {"z" + Path(name).name[1:]: text}


# The sentences for missing files and rows name all files, or the ranks.
BAD_CONTENT = [case for case in BAD_FILES if case.id not in ("missing", "no rows")]


@pytest.mark.parametrize(("files", "options", "sentence"), BAD_CONTENT)
def test_a_bad_file_gets_the_same_sentence_as_with_a_single_process(files, options, sentence):
    Path("sub").mkdir()
    files = files if "users_column" in options else with_another(files)
    paths = [csv(name, text) for name, text in files.items()]
    for error in read_shared(2, paths, **options):
        assert isinstance(error, DataError)
        assert str(error) == sentence


@pytest.mark.parametrize("options", [{}, {"users_column": "site"}])
def test_files_without_rows_are_all_named(options):
    paths = [csv("a.csv", "site,x\n"), csv("b.csv", "site,x\n")]
    for error in read_shared(2, paths, columns=["x"], **options):
        assert str(error) == "There must be rows in some file. Got none in a.csv, b.csv."


def test_the_first_error_is_raised_whichever_process_has_the_row():
    rows = [f"{'rome' if i % 2 else 'bern'},{i},{i}" for i in range(40)]
    rows[31], rows[22] = "rome,x,y", "bern,1,z"
    path = csv("a.csv", "\n".join(["site,a,b", *rows]) + "\n")
    with pytest.raises(DataError) as alone:
        tables.read([path], users_column="site")
    assert "Got 'x' in row 31" in str(alone.value)
    for error in read_shared(2, [path], users_column="site"):
        assert str(error) == str(alone.value)


def test_more_processes_than_users_are_rejected():
    for error in read_shared(3, [csv("a.csv", "a\n1\n"), csv("b.csv", "a\n1\n")]):
        assert isinstance(error, ParameterError)
        assert "at most as many ranks as there are users (2). Got 3." in str(error)


def hide_files(monkeypatch, seen):
    """Let each process see only some files, as if each had its own disk."""
    ranks = {}

    def find_and_note(files, group):
        ranks[threading.get_ident()] = group.rank
        return find(files, group)

    find, stat = by_rank._find_files, by_rank._stat
    monkeypatch.setattr(by_rank, "_find_files", find_and_note)
    monkeypatch.setattr(
        by_rank,
        "_stat",
        lambda path: stat(path) if path.name in seen[ranks[threading.get_ident()]] else -1,
    )


def test_files_may_be_where_their_users_are(monkeypatch):
    for name in "abcd":
        csv(f"{name}.csv", "x\n1\n2\n")
    files = [f"{name}.csv" for name in "abcd"]
    hide_files(monkeypatch, [files[:2], files[2:]])
    one, two = read_shared(2, files)
    assert (one.own, two.own) == ((0, 1), (2, 3))


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        ("abd", "There is no file c.csv for any of the 2 ranks."),
        ("abcd", "There is no file c.csv for rank 1 of 2, which has the user 'c' in it."),
    ],
)
def test_a_file_that_its_rank_lacks_is_named(monkeypatch, first, sentence):
    for name in "abcd":
        csv(f"{name}.csv", "x\n1\n2\n")
    hide_files(monkeypatch, [[f"{name}.csv" for name in first], ["a.csv", "d.csv"]])
    for error in read_shared(2, [f"{name}.csv" for name in "abcd"]):
        assert str(error) == sentence


def test_a_file_is_surveyed_by_the_next_rank_that_has_it(monkeypatch):
    files = [csv("a.csv", "site,x\nbern,1\n"), csv("b.csv", "site,x\nrome,2\n")]
    hide_files(monkeypatch, [["b.csv"], ["a.csv"]])
    for error in read_shared(2, files, users_column="site"):
        assert str(error) == (
            "There is no file a.csv for rank 0 of 2, which has the user 'bern' in it."
        )


def test_a_directory_is_not_a_file_of_a_user():
    Path("data.csv").mkdir()
    for error in read_shared(2, [csv("a.csv", "x\n1\n"), "data.csv"]):
        assert str(error) == "data.csv must be a file. Got a directory; name the files in it."
