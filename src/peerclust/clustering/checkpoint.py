"""Checkpoints of the runs of a problem, from which another process can resume.

A folder contains `journal.json`, which records the runs, and one file per run and rank, for each
finished run and for the one in progress. A rank's file is complete or absent. Rank 0 replaces the
journal once all ranks have written theirs, and the journal contains the digest of each file. So a
job that ends at any moment leaves a journal whose files exist. Nothing in them is unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict, TypeVar, runtime_checkable

import numpy as np

from peerclust import __version__
from peerclust.errors import DataError, ParameterError
from peerclust.files import write_durably
from peerclust.programs.protocol import S, State
from peerclust.ranks.group import ProcessGroup, run_on_root
from peerclust.runtimes.protocol import OnCheckpoint, OnRound, Run, Snapshot, Traffic
from peerclust.runtimes.stopping import Vote
from peerclust.text import mention, setting
from peerclust.users import Assignment
from peerclust.validation import check_count

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

JOURNAL = "journal.json"

D = TypeVar("D", bound="DataclassInstance")
# How far a run has come: to a snapshot, or to its end.
Reached = Snapshot[S] | Run[S]
# Cost, mean and stacked disagreement, changed labels, residual; see `solution.Trace`.
TraceRow = tuple[float, float, float, int, float]


@dataclass(frozen=True)
class Checkpoint:
    """Where to write checkpoints of a run, how often, and whether to resume from there.

    `every` is in rounds. With `resume`, an empty folder starts a new run, so that the same command
    starts a job and resumes it.

    >>> Checkpoint("checkpoints", every=50).resume
    False
    """

    folder: str | os.PathLike[str]
    every: int = 100
    resume: bool = False


@runtime_checkable
class Traced(Protocol):
    """A callback that records one row per round; a resumed run restores them."""

    rows: list[TraceRow]

    def restore(self, rows: Sequence[TraceRow], states: Sequence[State]) -> None:
        """Continue after these rows, the last of which is of these states."""


class RunCall(Protocol[S]):
    """A call that runs a program, from a snapshot if one is given."""

    def __call__(self, *, on_checkpoint: OnCheckpoint, resume_from: Snapshot[S] | None) -> Run[S]:
        """Return where the run ends."""


class _RunRecord(TypedDict):
    """The name of a run's files, and the digest of each rank's file."""

    name: str
    sha256: list[str]


class _Record(TypedDict):
    """What `journal.json` contains."""

    identity: dict[str, str]
    own: list[str]
    runs: list[_RunRecord]
    done: bool


class _Header(TypedDict, total=False):
    """What a rank's file contains besides arrays; `rounds` and `stopped` if the run has ended."""

    ended: bool
    rounds: int
    stopped: bool
    trace: None  # an array, because it may be long
    plain: dict[str, object]
    blocks: int
    traffic: list[int]
    vote_from: int


class Journal:
    """The runs of one problem, in the order in which they are made; every rank has its own.

    A run is resumed only if `identity` is the same, and `own` is the same on every rank.
    """

    def __init__(
        self, checkpoint: Checkpoint, group: ProcessGroup, *, identity: dict[str, str], own: str
    ) -> None:
        check_count(checkpoint.every, "every", "Checkpoint")
        self._folder, self._every, self._group = Path(checkpoint.folder), checkpoint.every, group
        versions = {"number of ranks": str(group.size), "version of peerclust": __version__}
        self._record: _Record = {
            "identity": identity | versions,
            "own": group.allgather(own),
            "runs": [],
            "done": False,
        }
        found = run_on_root(group, lambda: self._open(checkpoint.resume))
        self._record = found or self._record
        # The index of the next run; below the number of recorded runs, it is resumed.
        self._next = 0

    def run(self, call: RunCall[S], start: Callable[[], S], on_round: OnRound | None) -> Run[S]:
        """Return where a run ends: as recorded, else by `call` from the last checkpoint.

        `start` returns a state of the type that the run has.
        """
        number, runs = self._next, self._record["runs"]
        self._next += 1
        trace: list[TraceRow] = on_round.rows if isinstance(on_round, Traced) else []
        found: Reached[S] | None = None
        if number < len(runs):
            with self._group.raise_on_all():
                found, rows = self._load(runs[number], start())
            if isinstance(on_round, Traced):
                on_round.restore(rows, found.states)
        if isinstance(found, Run):
            return found

        def save(snapshot: Snapshot[State]) -> None:
            if snapshot.states[0].round % self._every == 0:
                self._save(number, snapshot, trace)

        run = call(on_checkpoint=save, resume_from=found)
        self._save(number, run, trace)
        return run

    def finish(self) -> None:
        """Mark the job as done: the folder may be used for another."""
        self._record["done"] = True
        self._write()

    def _open(self, resume: bool) -> _Record | None:
        """Return the journal to resume from, if there is one, and remove all other files."""
        found = self._read()
        if found is not None and not resume and not found["done"]:
            raise ParameterError(
                f"{self._folder} contains an unfinished run; continue it with "
                + mention("resume", "Checkpoint")
                + ", or choose another folder."
            )
        found = found if resume else None
        if found is not None:
            self._check(found)
        self._clear(found)
        return found

    def _save(self, number: int, reached: Reached[State], trace: list[TraceRow]) -> None:
        ended = isinstance(reached, Run)
        name = f"run-{number}-round-{reached.states[0].round}{'-end' if ended else ''}"
        data = _pack(reached, trace)
        path = self._folder / f"{name}.rank-{self._group.rank}.npz"
        with self._group.raise_on_all():
            write_durably(path, data)
        digests = self._group.allgather(hashlib.sha256(data).hexdigest())
        del self._record["runs"][number:]
        self._record["runs"].append({"name": name, "sha256": digests})
        self._write()
        self._remove_old(self._record["runs"], str(self._group.rank))

    def _remove_old(self, runs: list[_RunRecord], rank: str) -> None:
        """Remove a rank's files, or all ranks' with *, except those of these runs."""
        current = {run["name"] for run in runs}
        for old in self._folder.glob(f"run-*.rank-{rank}.npz"):
            if old.name.split(".")[0] not in current:
                old.unlink(missing_ok=True)

    def _write(self) -> None:
        data = json.dumps(self._record, indent=1).encode()
        run_on_root(self._group, lambda: write_durably(self._folder / JOURNAL, data))

    def _read(self) -> _Record | None:
        path = self._folder / JOURNAL
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"The journal {path} cannot be read: {error.strerror}.") from None
        except ValueError:
            found = None
        match found:
            case {"identity": dict(), "own": list(), "runs": list(), "done": bool()}:
                record: _Record = found
                return record
        raise DataError(f"{path} is not a journal that peerclust wrote.")

    def _clear(self, found: _Record | None) -> None:
        """Remove files that interrupted jobs left; without a journal found, all files of runs."""
        if found is None:
            # The journal first, so that its files exist as long as it does.
            (self._folder / JOURNAL).unlink(missing_ok=True)
        self._remove_old(found["runs"] if found else [], "*")
        for pattern in (".run-*.npz.*", f".{JOURNAL}.*"):
            for incomplete in self._folder.glob(pattern):
                shutil.rmtree(incomplete, ignore_errors=True)

    def _check(self, found: _Record) -> None:
        for name, value in self._record["identity"].items():
            before = found["identity"].get(name)
            if before != value:
                raise ParameterError(
                    f"Cannot resume from {self._folder}: it was started with "
                    + (setting(name, before) if name.isidentifier() else f"{name} = {before}")
                    + f", now {value}."
                )
        if found["own"] != self._record["own"]:
            raise DataError(f"Cannot resume from {self._folder}: it was started with other rows.")

    def _load(self, run: _RunRecord, like: S) -> tuple[Reached[S], list[TraceRow]]:
        path = self._folder / f"{run['name']}.rank-{self._group.rank}.npz"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DataError(f"The checkpoint {path} cannot be read: {error.strerror}.") from None
        if hashlib.sha256(data).hexdigest() != run["sha256"][self._group.rank]:
            raise DataError(f"The checkpoint {path} is incomplete or was changed.")
        return _unpack(data, like)


def _pack(reached: Reached[State], trace: list[TraceRow]) -> bytes:
    values: dict[str, object] = {}
    for i, state in enumerate(reached.states):
        values |= _flatten(state, f"state-{i}")
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in values.items() if name not in arrays}
    header: _Header = {"ended": isinstance(reached, Run)}
    if isinstance(reached, Run):
        header |= {"rounds": reached.rounds, "stopped": reached.stopped}
    else:
        header["vote_from"] = reached.vote_from
        for i, vote in enumerate(reached.votes):
            arrays[f"vote-{i}"] = np.stack([vote.s, vote.R])
    arrays["trace"] = np.array(trace, dtype=np.float64)
    header |= {"trace": None, "plain": plain, "blocks": len(reached.states)}
    header["traffic"] = [reached.traffic.messages, reached.traffic.bytes]
    text = json.dumps(header, default=lambda number: number.item())
    file = io.BytesIO()
    # mypy takes a key for the parameter allow_pickle.
    np.savez(file, header=np.array(text), **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _unpack(data: bytes, like: S) -> tuple[Reached[S], list[TraceRow]]:
    """Return what `_pack` wrote; states have the type of `like`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = dict(file)
    header: _Header = json.loads(str(arrays["header"]))
    trace = [(*row[:3], int(row[3]), row[4]) for row in arrays["trace"].tolist()]
    blocks, values = range(header["blocks"]), arrays | header["plain"]
    states = [_unflatten(like, f"state-{i}", values) for i in blocks]
    traffic = Traffic(*header["traffic"])
    if header["ended"]:
        return Run(states, header["rounds"], header["stopped"], traffic), trace
    votes = [Vote(*arrays[f"vote-{i}"]) for i in blocks]
    return Snapshot(states, votes, traffic, header["vote_from"]), trace


def _flatten(state: DataclassInstance, at: str) -> dict[str, object]:
    """Return each field of a state and of nested states: an array, or a plain value."""
    values: dict[str, object] = {}
    for each in fields(state):
        value, name = getattr(state, each.name), f"{at}.{each.name}"
        if isinstance(value, Assignment):
            values |= {f"{name}.assigned": value.x, f"{name}.changed": value.changed}
        elif is_dataclass(value) and not isinstance(value, type):
            values |= _flatten(value, name)
        else:
            values[name] = value
    return values


def _unflatten(like: D, at: str, values: dict[str, object]) -> D:
    """Return a state like this one with the fields that `_flatten` returned."""
    own: dict[str, object] = {}
    for each in fields(like):
        value, name = getattr(like, each.name), f"{at}.{each.name}"
        x, changed = values.get(f"{name}.assigned"), values.get(f"{name}.changed")
        if isinstance(x, np.ndarray) and isinstance(changed, int):
            own[each.name] = Assignment.at(x, changed)
        elif is_dataclass(value) and not isinstance(value, type):
            own[each.name] = _unflatten(value, name, values)
        else:
            own[each.name] = values[name]
    return replace(like, **own)
