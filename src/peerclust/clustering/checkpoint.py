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
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

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

JOURNAL = "journal.json"


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

    rows: list[Any]


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
        self._record: dict[str, Any] = {"identity": identity | versions}
        self._record |= {"own": group.allgather(own), "runs": [], "done": False}
        found = run_on_root(group, lambda: self._open(checkpoint.resume))
        self._record = found or self._record
        # The index of the next run; below the number of recorded runs, it is resumed.
        self._next = 0

    def run(
        self, call: Callable[..., Run[S]], start: Callable[[], S], on_round: OnRound | None
    ) -> Run[S]:
        """Return where a run ends: as recorded, else by `call` from the last checkpoint.

        `call` takes `on_checkpoint` and `resume_from`; `start` returns a state of its type.
        """
        number, runs = self._next, self._record["runs"]
        self._next += 1
        resume_from: Snapshot[S] | None = None
        if number < len(runs):
            with self._group.raise_on_all():
                resume_from, header = self._load(runs[number], start())
            if isinstance(on_round, Traced):
                on_round.rows[:] = [(*row[:3], int(row[3]), row[4]) for row in header["trace"]]
            if header["ended"]:
                ended = header["rounds"], header["stopped"]
                return Run(resume_from.states, *ended, resume_from.traffic)
        trace: list[Any] = on_round.rows if isinstance(on_round, Traced) else []
        save = self._make_callback(number, trace)
        run = call(on_checkpoint=save, resume_from=resume_from)
        end = {"ended": True, "rounds": run.rounds, "stopped": run.stopped, "trace": trace}
        self._save(number, Snapshot(run.states, [], run.traffic), run.rounds, end)
        return run

    def finish(self) -> None:
        """Mark the job as done: the folder may be used for another."""
        self._record["done"] = True
        self._write()

    def _open(self, resume: bool) -> dict[str, Any] | None:
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

    def _make_callback(self, number: int, trace: Any) -> OnCheckpoint:
        def save(snapshot: Snapshot[State]) -> None:
            round_ = int(snapshot.states[0].round)
            if round_ % self._every == 0:
                self._save(number, snapshot, round_, {"ended": False, "trace": trace})

        return save

    def _save(
        self, number: int, snapshot: Snapshot[State], round_: int, header: dict[str, Any]
    ) -> None:
        name = f"run-{number}-round-{round_}{'-end' if header['ended'] else ''}"
        data = _pack(snapshot, header)
        path = self._folder / f"{name}.rank-{self._group.rank}.npz"
        with self._group.raise_on_all():
            write_durably(path, data)
        digests = self._group.allgather(hashlib.sha256(data).hexdigest())
        del self._record["runs"][number:]
        self._record["runs"].append({"name": name, "sha256": digests})
        self._write()
        self._remove_old(self._record["runs"], str(self._group.rank))

    def _remove_old(self, runs: list[dict[str, Any]], rank: str) -> None:
        """Remove a rank's files, or all ranks' with *, except those of these runs."""
        current = {run["name"] for run in runs}
        for old in self._folder.glob(f"run-*.rank-{rank}.npz"):
            if old.name.split(".")[0] not in current:
                old.unlink(missing_ok=True)

    def _write(self) -> None:
        data = json.dumps(self._record, indent=1).encode()
        run_on_root(self._group, lambda: write_durably(self._folder / JOURNAL, data))

    def _read(self) -> dict[str, Any] | None:
        path = self._folder / JOURNAL
        try:
            found: dict[str, Any] = json.loads(path.read_text())
            found["identity"], found["own"], found["runs"], found["done"]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"The journal {path} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path} is not a journal that peerclust wrote.") from None
        return found

    def _clear(self, found: dict[str, Any] | None) -> None:
        """Remove files that interrupted jobs left; without a journal found, all files of runs."""
        if found is None:
            # The journal first, so that its files exist as long as it does.
            (self._folder / JOURNAL).unlink(missing_ok=True)
        self._remove_old(found["runs"] if found else [], "*")
        for pattern in (".run-*.npz.*", f".{JOURNAL}.*"):
            for incomplete in self._folder.glob(pattern):
                shutil.rmtree(incomplete, ignore_errors=True)

    def _check(self, found: dict[str, Any]) -> None:
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

    def _load(self, run: dict[str, Any], like: S) -> tuple[Snapshot[S], dict[str, Any]]:
        path = self._folder / f"{run['name']}.rank-{self._group.rank}.npz"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DataError(f"The checkpoint {path} cannot be read: {error.strerror}.") from None
        if hashlib.sha256(data).hexdigest() != run["sha256"][self._group.rank]:
            raise DataError(f"The checkpoint {path} is incomplete or was changed.")
        return _unpack(data, like)


def _pack(snapshot: Snapshot[State], header: dict[str, Any]) -> bytes:
    arrays: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for i, state in enumerate(snapshot.states):
        _flatten(state, f"state-{i}", arrays, plain)
    for i, vote in enumerate(snapshot.votes):
        arrays[f"vote-{i}"] = np.stack([vote.s, vote.R])
    # As an array, because a trace may be long.
    arrays["trace"] = np.array(header["trace"], dtype=np.float64)
    header = header | {"plain": plain, "blocks": len(snapshot.states), "trace": None}
    header["traffic"] = [snapshot.traffic.messages, snapshot.traffic.bytes]
    text = json.dumps(header, default=lambda number: number.item())
    file = io.BytesIO()
    np.savez(file, header=np.array(text), **arrays)
    return file.getvalue()


def _unpack(data: bytes, like: S) -> tuple[Snapshot[S], dict[str, Any]]:
    """Return what `_pack` wrote; states have the type of `like`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header: dict[str, Any] = json.loads(str(arrays.pop("header")))
    header["trace"] = arrays["trace"].tolist()
    n, values = range(header["blocks"]), arrays | header["plain"]
    states = [_unflatten(like, f"state-{i}", values) for i in n]
    votes = [Vote(*arrays[f"vote-{i}"]) for i in n if f"vote-{i}" in arrays]
    return Snapshot(states, votes, Traffic(*header["traffic"])), header


def _flatten(state: Any, at: str, arrays: dict[str, Any], plain: dict[str, Any]) -> None:
    """Write each field of a state, and of nested states, to `arrays` or `plain`."""
    for each in fields(state):
        value, name = getattr(state, each.name), f"{at}.{each.name}"
        if isinstance(value, Assignment):
            arrays[name] = value.x
        elif is_dataclass(value):
            _flatten(value, name, arrays, plain)
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            plain[name] = value


def _unflatten(like: Any, at: str, values: dict[str, Any]) -> Any:
    """Return a state like this one with the fields that `_flatten` wrote."""
    own = {}
    for each in fields(like):
        value, name = getattr(like, each.name), f"{at}.{each.name}"
        if is_dataclass(value):
            own[each.name] = _unflatten(value, name, values)
        elif each.name == "assignment" and values[name] is not None:
            own[each.name] = Assignment.at(values[name])
        else:
            own[each.name] = values[name]
    return replace(like, **own)
