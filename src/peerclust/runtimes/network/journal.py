"""What a peer writes down of a run so that it can be replayed: a line of JSON an event.

A line is written before anything that follows from it is sent, so that whatever a neighbor heard
can be computed again, even if this process ends at once.

| event    |                                                                                  |
|----------|----------------------------------------------------------------------------------|
| `agreed` | which run it is, which peers agreed on it, and without which links              |
| `start`  | at which round, from which centers, this process goes on                         |
| `heard`  | whose frames counted in this exchange and in all that follow, until the next one |
| `end`    | the last round and the centers there                                             |
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from peerclust.errors import DataError
from peerclust.types import Array

_EVENTS = ("agreed", "start", "heard", "end")


class Journal:
    """Appends events to a file; what cannot be written is told once and the run goes on."""

    def __init__(self, path: Path, log: Callable[[str], None]) -> None:
        self._path, self._log = path, log
        self._heard: list[int] | None = None
        self._complete = True
        self._mend()

    def _mend(self) -> None:
        """Take away a line that an earlier process did not finish: nothing has followed from it."""
        try:
            data = self._path.read_bytes()
        except OSError:
            return
        if data and not data.endswith(b"\n"):
            with suppress(OSError):
                self._path.write_bytes(data[: data.rfind(b"\n") + 1])

    def agreed(
        self, run: bytes, members: list[int], lost: list[tuple[int, int]], rows: bytes
    ) -> None:
        """Note which run is entered, with which rows, and who agreed on it over which links."""
        self._write("agreed", run=run.hex(), members=members, lost=lost, rows=rows.hex())

    def start(self, round_: int, x: Array) -> None:
        """Note that the run goes on at a round, from centers x, (K, d)."""
        self._heard = None
        self._write("start", round=round_, x=pack_array(x))

    def heard(self, exchange: int, senders: list[int]) -> None:
        """Note whose frames counted, if they are others than in the exchange before."""
        if senders != self._heard:
            self._heard = senders
            self._write("heard", exchange=exchange, senders=senders)

    def end(self, round_: int, x: Array) -> None:
        """Note where the run ended."""
        self._write("end", round=round_, x=pack_array(x))

    def _write(self, event: str, **what: Any) -> None:
        try:
            with self._path.open("a") as file:
                file.write(json.dumps({"event": event, **what}) + "\n")
        except OSError as error:
            if self._complete:
                self._log(f"The journal cannot be written: {error.strerror}; no replay will do.")
            self._complete = False


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Give the events of a journal."""
    try:
        text = path.read_text()
        # A line that was not finished: nothing has followed from it.
        whole = text[: text.rfind("\n") + 1]
        events = [json.loads(line) for line in whole.splitlines()]
    except FileNotFoundError:
        raise DataError(f"There is no journal {path}.") from None
    except OSError as error:
        raise DataError(f"The journal {path} cannot be read: {error.strerror}.") from None
    except ValueError:
        events = [None]
    if not all(isinstance(each, dict) and each.get("event") in _EVENTS for each in events):
        raise DataError(f"{path} is not a journal that a peer wrote.")
    return events


def pack_array(x: Array) -> dict[str, Any]:
    """Give an array as JSON can hold it, to the last bit.

    >>> unpack_array(pack_array(np.array([[0.1, 0.2]]))).tolist()
    [[0.1, 0.2]]
    """
    data = np.ascontiguousarray(x, "<f8").tobytes()
    return {"shape": list(x.shape), "data": base64.b64encode(data).decode()}


def unpack_array(held: dict[str, Any]) -> Array:
    """Give the array that `pack_array` packed."""
    data = base64.b64decode(held["data"])
    return np.frombuffer(data, "<f8").reshape(held["shape"]).copy()
