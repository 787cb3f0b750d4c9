from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import peerclust as pc
from peerclust import graphs, tables
from peerclust.clustering.solution import Partial
from peerclust.errors import DataError, ParameterError
from peerclust.ranks.group import SingleProcess
from peerclust.report import result_directory
from thread_group import run_group


@pytest.fixture
def solution(tmp_path, monkeypatch):
    """Work in a folder with one file for each of four users; return their solution."""
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((40, 2))
    for i in range(4):
        tables.write(Path(f"{i}.csv"), {"a": rows[i::4, 0], "b": rows[i::4, 1]})
    return pc.cluster([rows[i::4] for i in range(4)], n_clusters=2, rho=10, random_state=0)


def write(group, solution, out, **options):
    table, _ = tables.read_own(
        [Path(f"{i}.csv") for i in range(4)],
        columns=None,
        users_column=None,
        weights_column=None,
        make_graph=lambda names: graphs.ring(len(names)),
        group=group,
    )
    if table.own is not None:
        own = list(table.own)
        solution = replace(
            solution,
            centers=solution.centers[own],
            labels=[solution.labels[i] for i in own],
            part=Partial(table.own, solution.consensus),
        )
    record = result_directory.describe(solution, table, settings={}, group=group)
    result_directory.write(Path(out), solution, table, record, group=group, **options)


def test_processes_together_write_what_a_single_process_writes(solution):
    write(SingleProcess(), solution, "alone")
    assert run_group(3, lambda group: write(group, solution, "shared")) == [None] * 3
    for path in Path("alone").iterdir():
        if path.suffix != ".npz":
            assert path.read_bytes() == Path("shared", path.name).read_bytes()
    assert np.array_equal(pc.Solution.load("shared/solution.npz").centers, solution.centers)


def test_a_result_per_rank_appears_whole_or_not_at_all(solution, monkeypatch):
    save = pc.Solution.save

    def fail(part, path):
        if path.name == "solution-1.npz":
            raise OSError(28, "No space left on device", path.name)
        save(part, path)

    before = sorted(Path.cwd().rglob("*"))
    with monkeypatch.context() as patched:
        patched.setattr(pc.Solution, "save", fail)
        for error in run_group(3, lambda group: write(group, solution, "out", per_rank=True)):
            assert isinstance(error, DataError)
            assert str(error) == "solution-1.npz cannot be used: No space left on device."
    assert sorted(Path.cwd().rglob("*")) == before
    assert run_group(3, lambda group: write(group, solution, "out", per_rank=True)) == [None] * 3
    part = pc.Solution.load("out/solution-2.npz")
    users = pl.read_csv("out/user_centers-2.csv")["user"].unique(maintain_order=True)
    assert list(part.part.users) == users.to_list()
    assert np.array_equal(part.consensus, solution.consensus)


def test_a_result_per_rank_needs_a_shared_file_system(solution, monkeypatch):
    before = sorted(Path.cwd().rglob("*"))
    assert (
        run_group(2, lambda group: result_directory.check_shared(Path("new/out"), group))
        == [None] * 2
    )
    with monkeypatch.context() as patched:
        patched.setattr(Path, "is_dir", lambda path: False)
        errors = run_group(2, lambda group: result_directory.check_shared(Path("new/out"), group))
    for error in errors:
        assert isinstance(error, ParameterError)
        assert "file system that all ranks share with --per-rank. Rank 0 of 2 does not see" in str(
            error
        )
    assert sorted(Path.cwd().rglob("*")) == before
