"""Where the runs of a problem are, written down now and then, so that another process can go on.

A folder holds `journal.json`, which says what was run and where, and for each rank a file for every
run that is done and for the one that is not. A rank's file is whole or not there, and the journal,
which rank 0 replaces once all have written theirs, holds the digest of each: a job that ends at any
moment leaves a journal whose files are there. Nothing in them is unpickled.
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
from typing import Any, Protocol, runtime_checkable

import numpy as np

from peerclust import __version__
from peerclust.errors import DataError, ParameterError
from peerclust.files import write_durably
from peerclust.programs.protocol import Program
from peerclust.ranks.group import ProcessGroup, run_on_root
from peerclust.runtimes.protocol import OnCheckpoint, OnRound, Run, Snapshot, Traffic
from peerclust.runtimes.stopping import Vote
from peerclust.types import Array
from peerclust.users import Users
from peerclust.validation import check_count

Go = Callable[..., Run]

JOURNAL = "journal.json"


@dataclass(frozen=True)
class Checkpoint:
    """Where to write down a run, every how many rounds, and whether to go on from there.

    With `resume`, a folder that holds nothing yet begins anew: the same command begins a job and
    takes it up again.

    >>> Checkpoint("kept", every=50).resume
    False
    """

    folder: str | os.PathLike[str]
    every: int = 100
    resume: bool = False


@runtime_checkable
class Traced(Protocol):
    """A watch that keeps a row a round, which goes on where the run does."""

    rows: list[Any]


class Journal:
    """The runs of one problem, in the order in which they come; every rank has its own.

    `identity` is what has to be the same for a run to go on; `own` what has to be of this rank.
    """

    def __init__(
        self, checkpoint: Checkpoint, group: ProcessGroup, *, identity: dict[str, str], own: str
    ) -> None:
        check_count(checkpoint.every, "every", "Checkpoint")
        self._folder, self._every, self._group = Path(checkpoint.folder), checkpoint.every, group
        versions = {"number of ranks": str(group.size), "version of peerclust": __version__}
        self._held: dict[str, Any] = {"identity": identity | versions}
        self._held |= {"own": group.allgather(own), "runs": [], "done": False}
        found = run_on_root(group, lambda: self._open(checkpoint.resume))
        self._held = found or self._held
        # Which run is next, of how many that were written down.
        self._next = 0

    def run(
        self, go: Go, program: Program, users: Users, x: Array, on_round: OnRound | None
    ) -> Run:
        """Give where a run from x ends: from what was written down, then by `go`."""
        number, runs = self._next, self._held["runs"]
        self._next += 1
        resume_from: Snapshot | None = None
        if number < len(runs):
            with self._group.raise_on_all():
                resume_from, header = self._load(runs[number], program.start(users, x))
            if isinstance(on_round, Traced):
                on_round.rows[:] = [(*row[:3], int(row[3]), row[4]) for row in header["trace"]]
            if header["ended"]:
                ended = header["rounds"], header["stopped"]
                return Run(resume_from.states, *ended, resume_from.traffic)
        trace: list[Any] = on_round.rows if isinstance(on_round, Traced) else []
        run = go(
            on_round=on_round, on_checkpoint=self._keeper(number, trace), resume_from=resume_from
        )
        end = {"ended": True, "rounds": run.rounds, "stopped": run.stopped, "trace": trace}
        self._save(number, Snapshot(run.states, [], run.traffic), run.rounds, end)
        return run

    def finish(self) -> None:
        """Say that all is done: the folder may be used for another job."""
        self._held["done"] = True
        self._write()

    def _open(self, resume: bool) -> dict[str, Any] | None:
        """Give the journal to go on from, if there is one, and clear the rest away."""
        found = self._read()
        if found is not None and not resume and not found["done"]:
            raise ParameterError(
                f"{self._folder} holds the checkpoint of a run that has not come to its end;"
                " go on from it with `resume`, or choose another folder."
            )
        found = found if resume else None
        if found is not None:
            self._check(found)
        self._clear(found)
        return found

    def _keeper(self, number: int, trace: Any) -> OnCheckpoint:
        def keep(resume_from: Snapshot, blocks: Sequence[Users]) -> None:
            round_ = int(resume_from.states[0].round)
            if round_ % self._every == 0:
                if trace:
                    # How many labels change next is part of a trace.
                    resume_from = replace(resume_from, labels=[block.labels for block in blocks])
                self._save(number, resume_from, round_, {"ended": False, "trace": trace})

        return keep

    def _save(
        self, number: int, resume_from: Snapshot, round_: int, header: dict[str, Any]
    ) -> None:
        name = f"run-{number}-round-{round_}{'-end' if header['ended'] else ''}"
        data = _pack(resume_from, header)
        path = self._folder / f"{name}.rank-{self._group.rank}.npz"
        with self._group.raise_on_all():
            write_durably(path, data)
        digests = self._group.allgather(hashlib.sha256(data).hexdigest())
        del self._held["runs"][number:]
        self._held["runs"].append({"name": name, "sha256": digests})
        self._write()
        self._remove_old(self._held["runs"], str(self._group.rank))

    def _remove_old(self, runs: list[dict[str, Any]], rank: str) -> None:
        """Remove a rank's files, or with * all ranks', but those of these runs."""
        kept = {run["name"] for run in runs}
        for old in self._folder.glob(f"run-*.rank-{rank}.npz"):
            if old.name.split(".")[0] not in kept:
                old.unlink(missing_ok=True)

    def _write(self) -> None:
        data = json.dumps(self._held, indent=1).encode()
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
        """Remove what jobs left that ended while they wrote; of another job everything."""
        if found is None:
            # First, so that there is never a journal without its files.
            (self._folder / JOURNAL).unlink(missing_ok=True)
        self._remove_old(found["runs"] if found else [], "*")
        for pattern in (".run-*.npz.*", f".{JOURNAL}.*"):
            for half in self._folder.glob(pattern):
                shutil.rmtree(half, ignore_errors=True)

    def _check(self, found: dict[str, Any]) -> None:
        for name, value in self._held["identity"].items():
            before = found["identity"].get(name)
            if before != value:
                raise ParameterError(
                    f"A run goes on from {self._folder} only with the {name} that it had:"
                    f" {before}. Got {value}."
                )
        if found["own"] != self._held["own"]:
            raise DataError(f"A run goes on from {self._folder} only with the rows that it had.")

    def _load(self, run: dict[str, Any], like: Any) -> tuple[Snapshot, dict[str, Any]]:
        path = self._folder / f"{run['name']}.rank-{self._group.rank}.npz"
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DataError(f"The checkpoint {path} cannot be read: {error.strerror}.") from None
        if hashlib.sha256(data).hexdigest() != run["sha256"][self._group.rank]:
            raise DataError(f"The checkpoint {path} is not whole.")
        return _unpack(data, like)


def _pack(resume_from: Snapshot, header: dict[str, Any]) -> bytes:
    arrays: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for i, state in enumerate(resume_from.states):
        _take_apart(state, f"state-{i}", arrays, plain)
    for i, vote in enumerate(resume_from.votes):
        arrays[f"vote-{i}"] = np.stack([vote.s, vote.R])
    for i, labels in enumerate(resume_from.labels):
        arrays[f"labels-{i}"] = labels
    # Numbers, as a trace may be long.
    arrays["trace"] = np.array(header["trace"], dtype=np.float64)
    told = header | {"plain": plain, "blocks": len(resume_from.states), "trace": None}
    told["traffic"] = [resume_from.traffic.messages, resume_from.traffic.bytes]
    text = json.dumps(told, default=lambda number: number.item())
    file = io.BytesIO()
    np.savez(file, header=np.array(text), **arrays)
    return file.getvalue()


def _unpack(data: bytes, like: Any) -> tuple[Snapshot, dict[str, Any]]:
    """Give what `_pack` wrote; states are of the kind of `like`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header: dict[str, Any] = json.loads(str(arrays.pop("header")))
    header["trace"] = arrays["trace"].tolist()
    n, held = range(header["blocks"]), arrays | header["plain"]
    made = [_put_together(like, f"state-{i}", held) for i in n]
    votes = [Vote(*arrays[f"vote-{i}"]) for i in n if f"vote-{i}" in arrays]
    labels = [arrays[f"labels-{i}"] for i in n if f"labels-{i}" in arrays]
    return Snapshot(made, votes, Traffic(*header["traffic"]), labels), header


def _take_apart(state: Any, at: str, arrays: dict[str, Any], plain: dict[str, Any]) -> None:
    """Write each field of a state to `arrays` or `plain`, those of states within it too."""
    for each in fields(state):
        value, name = getattr(state, each.name), f"{at}.{each.name}"
        if is_dataclass(value):
            _take_apart(value, name, arrays, plain)
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            plain[name] = value


def _put_together(state: Any, at: str, held: dict[str, Any]) -> Any:
    """Give a state like this one with the fields that `_take_apart` wrote."""
    values = {}
    for each in fields(state):
        value, name = getattr(state, each.name), f"{at}.{each.name}"
        values[each.name] = _put_together(value, name, held) if is_dataclass(value) else held[name]
    return replace(state, **values)
