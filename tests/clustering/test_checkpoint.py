"""An interrupted run resumes and ends as it would have without the interruption."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import peerclust as pc
from peerclust.errors import DataError, InputError, ParameterError
from peerclust.programs.lsp2p import LSP2P
from peerclust.programs.solver_spec import SolverSpec
from peerclust.ranks.distribution import Distribution
from peerclust.runtimes import Simulator

ROWS, CLASSES = pc.datasets.iris()
PARTS = [ROWS[i] for i in pc.partition.homogeneous(CLASSES, 6, random_state=0)]
COMMON = {"n_clusters": 3, "random_state": 3, "graph": "ring"}


class Own:
    """A runtime that inherits nothing."""

    def __init__(self, graph):
        self.distribution, self._simulator = Distribution.of_all(graph), Simulator(graph)

    def blocks(self, users):
        return [users]

    def deliver(self, said):
        return self._simulator.deliver(said)

    def close(self):
        pass


# Its state has an assignment before the first round.
LSP2P_SPEC = SolverSpec(name="lsp2p", summary="a baseline", make=lambda _: LSP2P())

CASES = {
    "accelerated": {"rho": 10},
    "dgc, two updates": {"solver": "dgc", "rho": 10, "B": 2, "rounds": 60},
    "rho found, two starts": {"solver": "accelerated", "n_init": 2, "tol": 1e-4, "search": "none"},
    "admm": {"solver": "admm", "loss": "huber"},
    "group lasso": {"solver": "group-lasso", "rounds": 120},
    "exact": {"solver": "exact", "loss": "fair"},
    "search of exact": {"n_clusters": 5, "loss": "huber"},
    "search, rho found, two starts, trace": {
        "solver": "accelerated",
        "n_init": 2,
        "tol": 1e-3,
        "trace": True,
    },
    "8-bit": {"rho": 10, "exchange": "8-bit"},
    "noise": {"rho": 10, "exchange": {"noise": 1e-3, "drop": 0.1}, "rounds": 60},
    "trace": {"rho": 10, "trace": True},
    "trace of exact": {"solver": "exact", "loss": "huber", "trace": True},
    "trace of admm": {"solver": "admm", "trace": True},
    "loopback": {"rho": 10, "runtime": "loopback", "rounds": 60},
    "a runtime of one's own": {"rho": 10, "runtime": Own, "rounds": 60},
    "assigned at the start": {"solver": LSP2P_SPEC, "rounds": 60, "tol": 0},
}


class InterruptedRunError(Exception):
    """Raised to end a run before it is done."""


def bits(solution):
    trace = solution.trace and [each.tobytes() for each in vars(solution.trace).values()]
    arrays = [solution.centers.tobytes(), *(part.tobytes() for part in solution.labels)]
    return arrays, dataclasses.asdict(solution.certificate), solution.status, trace


def interrupt(folder, calls, **options):
    """Cluster until progress has been called that many times."""
    left = iter(range(calls))

    def progress(*_):
        if next(left, None) is None:
            raise InterruptedRunError

    checkpoint = pc.Checkpoint(folder, every=5, resume=True)
    return pc.cluster(PARTS, progress=progress, checkpoint=checkpoint, **COMMON | options)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_resumes_to_the_same_bits_wherever_it_was_interrupted(case, tmp_path):
    whole = bits(pc.cluster(PARTS, **COMMON | case))
    interruptions = 0
    for calls in (2, 3, 7, 18, 41, 77, 10**9):
        try:
            solution = interrupt(tmp_path, calls, **case)
            break
        except InterruptedRunError:
            interruptions += 1
    assert interruptions >= 3
    assert bits(solution) == whole


def test_a_finished_run_is_read_and_not_run_again(tmp_path):
    calls = []
    first = pc.cluster(PARTS, rho=10, checkpoint=tmp_path, **COMMON)
    again = pc.cluster(
        PARTS,
        rho=10,
        checkpoint=pc.Checkpoint(tmp_path, resume=True),
        progress=lambda *now: calls.append(now),
        **COMMON,
    )
    assert bits(again) == bits(first)
    assert calls == []


def test_a_new_run_removes_the_files_of_a_finished_one(tmp_path):
    pc.cluster(PARTS, rho=10, checkpoint=tmp_path, **COMMON)
    with pytest.raises(InterruptedRunError):
        pc.cluster(PARTS, rho=11, checkpoint=tmp_path, progress=fail, **COMMON)
    assert list(tmp_path.iterdir()) == []


def fail(*_):
    raise InterruptedRunError


def test_resuming_from_an_empty_folder_starts_a_run(tmp_path):
    checkpoint = pc.Checkpoint(tmp_path / "new", resume=True)
    solution = pc.cluster(PARTS, rho=10, checkpoint=checkpoint, **COMMON)
    assert bits(solution) == bits(pc.cluster(PARTS, rho=10, **COMMON))


def test_only_the_last_files_are_left(tmp_path):
    checkpoint = pc.Checkpoint(tmp_path, every=5)
    moves = pc.cluster(PARTS, rho=10, checkpoint=checkpoint, **COMMON).certificate.moves
    assert moves > 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[0] == "journal.json"
    # One file for each run that has ended: the first, one or two after each move, and the last.
    runs = len(names) - 1
    assert 2 + moves <= runs <= 2 + 2 * moves
    assert [name.split("-")[1] for name in names[1:]] == [str(n) for n in range(runs)]
    assert all("-end." in name for name in names[1:])
    assert json.loads((tmp_path / "journal.json").read_text())["done"]


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({"n_clusters": 2}, ParameterError, r"started with `n_clusters` = 3, now 2\."),
        ({"rho": 11}, ParameterError, r"started with `rho` = 10, now 11\."),
        ({"random_state": 4}, ParameterError, r"started with `random_state` = "),
        ({"graph": "path"}, ParameterError, r"started with `graph` = "),
        ({"weights": "normalized"}, DataError, "it was started with other rows"),
    ],
)
def test_another_problem_is_not_resumed(changed, error, match, tmp_path):
    with pytest.raises(InterruptedRunError):
        interrupt(tmp_path, 20, rho=10)
    checkpoint = sorted(path.read_bytes() for path in tmp_path.iterdir())
    options = {"rho": 10} | COMMON | changed
    with pytest.raises(error, match=match):
        pc.cluster(PARTS, checkpoint=pc.Checkpoint(tmp_path, resume=True), **options)
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == checkpoint


def test_another_start_is_not_resumed(tmp_path):
    with pytest.raises(InterruptedRunError):
        interrupt(tmp_path, 20, rho=10, init=pc.initialize.Given(ROWS[:3]))
    with pytest.raises(ParameterError, match="started with `init` = "):
        interrupt(tmp_path, 20, rho=10, init=pc.initialize.Given(ROWS[3:6]))


def test_another_runtime_is_not_resumed(tmp_path):
    with pytest.raises(InterruptedRunError):
        interrupt(tmp_path, 20, rho=10)
    with pytest.raises(ParameterError, match=r"`runtime` = 'simulator', now 'loopback'\."):
        interrupt(tmp_path, 20, rho=10, runtime="loopback")


def test_another_version_is_not_resumed(tmp_path, monkeypatch):
    with pytest.raises(InterruptedRunError):
        interrupt(tmp_path, 20, rho=10)
    monkeypatch.setattr("peerclust.clustering.checkpoint.__version__", "9")
    with pytest.raises(ParameterError, match=r"started with version of peerclust = .*, now 9"):
        interrupt(tmp_path, 20, rho=10)


def test_incomplete_files_of_earlier_jobs_are_removed(tmp_path):
    for name in (".run-0-round-5.rank-1.npz.ab12", ".journal.json.cd34"):
        (tmp_path / name).mkdir()
    (tmp_path / "run-3-round-9.rank-7.npz").write_bytes(b"of another job")
    (tmp_path / "notes.txt").write_text("the user's own")
    pc.cluster(PARTS, rho=10, search="none", checkpoint=tmp_path, **COMMON)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["journal.json", "notes.txt"]
    assert len(names) == 3


def test_other_rows_are_not_resumed(tmp_path):
    with pytest.raises(InterruptedRunError):
        interrupt(tmp_path, 20, rho=10)
    checkpoint = pc.Checkpoint(tmp_path, resume=True)
    with pytest.raises(DataError, match="it was started with other rows"):
        pc.cluster([part + 1.0 for part in PARTS], rho=10, checkpoint=checkpoint, **COMMON)


def test_an_unfinished_run_is_not_overwritten(tmp_path):
    with pytest.raises(InterruptedRunError):
        interrupt(tmp_path, 20, rho=10)
    with pytest.raises(
        ParameterError, match="contains an unfinished run; continue it with `resume`"
    ):
        pc.cluster(PARTS, rho=10, checkpoint=tmp_path, **COMMON)


@pytest.mark.parametrize("at", [10, -10])
def test_a_changed_file_is_rejected(at, tmp_path):
    with pytest.raises(InterruptedRunError):
        interrupt(tmp_path, 20, rho=10)
    (path,) = tmp_path.glob("run-*.npz")
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(
        DataError, match=r"run-0-round-20\.rank-0\.npz is incomplete or was changed"
    ):
        interrupt(tmp_path, 20, rho=10)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '{"identity": 3}', '{"identity": 3, "own": [], "runs": [], "done": true}'],
)
def test_an_invalid_journal_is_rejected(text, tmp_path):
    (tmp_path / "journal.json").write_text(text)
    with pytest.raises(DataError, match="not a journal"):
        interrupt(tmp_path, 20, rho=10)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InterruptedRunError):
        interrupt(tmp_path, 20, rho=10)
    for path in tmp_path.glob("run-*.npz"):
        path.unlink()
    with pytest.raises(DataError, match="cannot be read: No such file"):
        interrupt(tmp_path, 20, rho=10)


@pytest.mark.parametrize(
    ("checkpoint", "random_state", "match"),
    [
        ("kept", None, "`random_state` of cluster must be given"),
        (pc.Checkpoint("kept", every=0), 0, "`every` of Checkpoint must be a whole number >= 1"),
        (3, 0, "`checkpoint` of cluster must be a folder"),
    ],
)
def test_bad_input_gets_one_clear_sentence(checkpoint, random_state, match, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=match):
        pc.cluster(PARTS, n_clusters=3, checkpoint=checkpoint, random_state=random_state)
    assert list(Path().iterdir()) == []


def test_a_folder_without_write_permission_is_rejected(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be"):
        pc.cluster(PARTS, rho=10, checkpoint=tmp_path / "file" / "kept", **COMMON)


def test_stored_centers_are_exact(tmp_path):
    with pytest.raises(InterruptedRunError):
        interrupt(tmp_path, 20, rho=10)
    (path,) = tmp_path.glob("run-*.npz")
    with np.load(path, allow_pickle=False) as file:
        x = file["state-0.x"]
    short = pc.cluster(PARTS, rho=10, rounds=20, tol=0, **COMMON)
    assert x.tobytes() == short.centers.tobytes()
