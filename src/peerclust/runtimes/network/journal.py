"""A peer's journal of a run, from which the run can be replayed: one line of JSON per event.

A line is written before anything that depends on it is sent. So everything that a neighbor has
received can be computed again, even if this process is killed.

| event    |                                                                                  |
|----------|----------------------------------------------------------------------------------|
| `seed`   | the site's private seed, which is as secret as its rows                          |
| `agreed` | the run, the peers of its set-up, their processes, the links excluded, and a     |
|          | digest of the rows                                                               |
| `start`  | the round and the centers from which this process starts or resumes              |
| `heard`  | whose frames were used in this exchange and the following, until the next event  |
| `end`    | the exchange before which it ended, its last round and the centers there         |
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TypedDict

import numpy as np

from peerclust.arrays import Array
from peerclust.errors import DataError

_EVENTS = ("seed", "agreed", "start", "heard", "end")


SEED_BYTES = 32


class PackedArray(TypedDict):
    """An array as JSON types."""

    shape: list[int]
    data: str


class Event(TypedDict, total=False):
    """One line of a journal; which fields it has depends on the event."""

    event: str
    seed: str
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

    @cached_property
    def private_seed(self) -> bytes:
        """The private seed of the site: that of the journal so far, or else a new one."""
        with suppress(OSError):
            self._path.touch(mode=0o600)
            self._path.chmod(0o600)
        with suppress(DataError):
            if (known := find_private_seed(read_journal(self._path))) is not None:
                return known
        seed = secrets.token_bytes(SEED_BYTES)
        self._write(Event(event="seed", seed=seed.hex()))
        return seed

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


def find_private_seed(events: Sequence[Event]) -> bytes | None:
    """Return the private seed that the events have, None if they have none.

    >>> find_private_seed([{"event": "seed", "seed": 32 * "41"}]) == 32 * b"A"
    True
    """
    seeds = [str(event.get("seed")) for event in events if event["event"] == "seed"]
    whole = [seed for seed in seeds if re.fullmatch(f"[0-9a-f]{{{2 * SEED_BYTES}}}", seed)]
    return bytes.fromhex(whole[-1]) if whole else None


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
