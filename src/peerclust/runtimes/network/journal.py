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
import os
import re
import secrets
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec
import numpy as np

from peerclust.arrays import Array
from peerclust.errors import DataError
from peerclust.files import append_durably, open_private, read_private
from peerclust.log_events import LogEvent
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Count, Number

SEED_BYTES = 32

# The fields of each event.
_FIELDS = {
    "seed": {"event", "seed"},
    "agreed": {"event", "run", "members", "lost", "processes", "rows"},
    "start": {"event", "round", "x"},
    "heard": {"event", "exchange", "senders"},
    "end": {"event", "exchange", "round", "x"},
}

_Hex = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{2})+\Z")]


class PackedArray(TypedDict):
    """An array as JSON types."""

    shape: list[Number]
    data: str


class Event(TypedDict, total=False):
    """One line of a journal; which fields it has depends on the event."""

    event: str
    seed: _Hex
    processes: str
    run: _Hex
    members: list[Number]
    lost: list[tuple[Number, Number]]
    rows: _Hex
    round: Count
    x: PackedArray
    exchange: Count
    senders: list[Number]


class Journal:
    """Appends events to a file; after the first failure, which is logged, it records no more."""

    def __init__(self, path: Path, log: Callable[[str], None]) -> None:
        self._path, self._log = path, log
        self._heard: list[int] | None = None
        self._complete = True
        self._remove_partial_line()

    def _remove_partial_line(self) -> None:
        """Remove a line that an earlier process did not finish: nothing depends on it."""
        try:
            data = read_private(self._path)
        except FileNotFoundError:
            return
        if data and not data.endswith(b"\n"):
            file = open_private(self._path, os.O_WRONLY)
            try:
                os.ftruncate(file, data.rfind(b"\n") + 1)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self._path)) from None
            finally:
                os.close(file)

    @cached_property
    def private_seed(self) -> bytes:
        """The private seed of the site: that of the journal so far, or else a new one."""
        events = read_journal(self._path) if self._path.exists() else []
        if (known := find_private_seed(events)) is not None:
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
        # What came after a gap could be replayed wrongly.
        if not self._complete:
            return
        try:
            append_durably(self._path, json.dumps(event).encode() + b"\n")
        except OSError as error:
            self._complete = False
            failed = f"The journal {self._path} cannot be written: {error.strerror}"
            sentence = f"{failed}; a replay will not be possible."
            self._log(LogEvent("file-failed", sentence, file=str(self._path)))


def read_journal(path: Path, contract: Contract | None = None) -> list[Event]:
    """Return the events of a journal; those of its last run must fit the contract, if given."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"There is no journal {path}.") from None
    except OSError as error:
        raise DataError(f"The journal {path} cannot be read: {error.strerror}.") from None
    # Nothing depends on a last line that was not finished.
    lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
    events: list[Event] = []
    for number, line in enumerate(lines, start=1):
        try:
            event = msgspec.json.decode(line, type=Event)
            valid = _FIELDS.get(event.get("event", "")) == set(event)
            if "x" in event:
                valid &= bool(np.isfinite(unpack_array(event["x"])).all())
        except (msgspec.MsgspecError, ValueError, RecursionError):
            valid = False
        if not valid:
            raise _bad(path, number, "be an event that a peer wrote")
        events.append(event)
    if contract is not None:
        _check_last_run(path, events, contract)
    return events


def find_private_seed(events: Sequence[Event]) -> bytes | None:
    """Return the private seed in the events, or None if there is none.

    >>> find_private_seed([{"event": "seed", "seed": 32 * "41"}]) == 32 * b"A"
    True
    """
    seeds = [str(event.get("seed")) for event in events if event["event"] == "seed"]
    whole = [seed for seed in seeds if re.fullmatch(f"[0-9a-f]{{{2 * SEED_BYTES}}}", seed)]
    return bytes.fromhex(whole[-1]) if whole else None


def _check_last_run(path: Path, events: list[Event], contract: Contract) -> None:
    """Raise unless the events of the last run have numbers of the contract's network."""
    m, shape = contract.graph.m, [contract.n_clusters, len(contract.features)]
    last = [event["run"] for event in events if event["event"] == "agreed"][-1:]
    run: list[str] = []
    for number, event in enumerate(events, start=1):
        run = [event["run"]] if "run" in event else run
        if run != last:
            continue
        pairs = event.get("lost", [])
        peers = [
            *event.get("members", ()),
            *event.get("senders", ()),
            *(i for p in pairs for i in p),
        ]
        if any(i >= m for i in peers):
            raise _bad(path, number, "name peers of the network file")
        if "x" in event and event["x"]["shape"] != shape:
            raise _bad(path, number, f"have {shape[0]} centers of {shape[1]} numbers")
        # A site says its centers once more after its last round.
        most = contract.max_round + 1
        if event.get("round", 0) > most or event.get("exchange", 0) > (most + 1) * contract.B:
            raise _bad(path, number, "have a round of the network file")


def _bad(path: Path, number: int, must: str) -> DataError:
    return DataError(
        f"Line {number} of the journal {path} must {must}. Move it away; the run cannot be"
        " replayed."
    )


def pack_array(x: Array) -> PackedArray:
    """Return an array as JSON types, exact to the last bit.

    >>> unpack_array(pack_array(np.array([[0.1, 0.2]]))).tolist()
    [[0.1, 0.2]]
    """
    data = np.ascontiguousarray(x, "<f8").tobytes()
    return {"shape": list(x.shape), "data": base64.b64encode(data).decode()}


def unpack_array(packed: PackedArray) -> Array:
    """Return the array from the result of `pack_array`."""
    data = base64.b64decode(packed["data"], validate=True)
    return np.frombuffer(data, "<f8").reshape(packed["shape"]).copy()
