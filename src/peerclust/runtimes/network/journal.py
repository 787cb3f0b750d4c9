"""A peer's journal of a run, from which the run can be replayed: one line of JSON per event.

A line is written before anything that depends on it is sent. So everything that a neighbor has
received can be computed again, even if this process is killed.

| event    |                                                                                  |
|----------|----------------------------------------------------------------------------------|
| `agreed` | the run, the peers of its set-up, their processes, the links excluded, and a     |
|          | digest of the rows                                                               |
| `start`  | the round and the centers from which this process starts or resumes              |
| `heard`  | whose frames were used in this exchange and the following, until the next event  |
| `end`    | the exchange before which it ended, its last round and the centers there         |
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

import numpy as np

from peerclust.arrays import Array
from peerclust.errors import DataError

_EVENTS = ("agreed", "start", "heard", "end")


class PackedArray(TypedDict):
    """An array as JSON types."""

    shape: list[int]
    data: str


class Event(TypedDict, total=False):
    """One line of a journal; which fields it has depends on the event."""

    event: str
    run: str
    members: list[int]
    lost: list[tuple[int, int]]
    processes: str
    rows: str
    round: int
    x: PackedArray
    exchange: int
    senders: list[int]


class Journal:
    """Appends events to a file; the first failure is logged, and the run continues."""

    def __init__(self, path: Path, log: Callable[[str], None]) -> None:
        self._path, self._log = path, log
        self._heard: list[int] | None = None
        self._complete = True
        self._remove_partial_line()

    def _remove_partial_line(self) -> None:
        """Remove a line that an earlier process did not finish: nothing depends on it."""
        try:
            data = self._path.read_bytes()
        except OSError:
            return
        if data and not data.endswith(b"\n"):
            with suppress(OSError):
                self._path.write_bytes(data[: data.rfind(b"\n") + 1])

    def agreed(
        self,
        run: bytes,
        members: list[int],
        lost: list[tuple[int, int]],
        processes: str,
        rows: bytes,
    ) -> None:
        """Record the run that starts, its members and processes, lost links, digest of the rows."""
        self._write(
            Event(
                event="agreed",
                run=run.hex(),
                members=members,
                lost=lost,
                processes=processes,
                rows=rows.hex(),
            )
        )

    def start(self, round_: int, x: Array) -> None:
        """Record that the run starts or resumes at a round from centers x, (K, d)."""
        self._heard = None
        self._write(Event(event="start", round=round_, x=pack_array(x)))

    def heard(self, exchange: int, senders: list[int]) -> None:
        """Record whose frames were used, if that differs from the previous exchange."""
        if senders != self._heard:
            self._heard = senders
            self._write(Event(event="heard", exchange=exchange, senders=senders))

    def end(self, exchange: int, round_: int, x: Array) -> None:
        """Record the end: the exchange before which it was, the last round and its centers."""
        self._write(Event(event="end", exchange=exchange, round=round_, x=pack_array(x)))

    def _write(self, event: Event) -> None:
        try:
            with self._path.open("a") as file:
                file.write(json.dumps(event) + "\n")
        except OSError as error:
            if self._complete:
                why = error.strerror
                self._log(f"The journal cannot be written: {why}; a replay will not be possible.")
            self._complete = False


def read_journal(path: Path) -> list[Event]:
    """Return the events of a journal."""
    try:
        text = path.read_text()
        # Nothing depends on a last line that was not finished.
        complete = text[: text.rfind("\n") + 1]
        events = [json.loads(line) for line in complete.splitlines()]
    except FileNotFoundError:
        raise DataError(f"There is no journal {path}.") from None
    except OSError as error:
        raise DataError(f"The journal {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        events = [None]
    if not all(isinstance(each, dict) and each.get("event") in _EVENTS for each in events):
        raise DataError(f"{path} is not a journal that a peer wrote.")
    return events


def pack_array(x: Array) -> PackedArray:
    """Return an array as JSON types, exact to the last bit.

    >>> unpack_array(pack_array(np.array([[0.1, 0.2]]))).tolist()
    [[0.1, 0.2]]
    """
    data = np.ascontiguousarray(x, "<f8").tobytes()
    return {"shape": list(x.shape), "data": base64.b64encode(data).decode()}


def unpack_array(packed: PackedArray) -> Array:
    """Return the array from the result of `pack_array`."""
    data = base64.b64decode(packed["data"])
    return np.frombuffer(data, "<f8").reshape(packed["shape"]).copy()
