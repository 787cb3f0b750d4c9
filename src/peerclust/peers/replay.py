"""Computes a run again from the sites' rows and journals, faults included, to the last bit.

What was agreed before the first round comes out of the simulator, on the graph that was alive; then
each site's program is fed the centers of those whose frames counted, exchange by exchange, as the
journals say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peerclust.errors import DataError
from peerclust.peers import configuration, setup
from peerclust.peers.setup import Rows
from peerclust.programs.protocol import Program, reduce_messages, set_round
from peerclust.runtimes import Simulator
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.journal import unpack_array
from peerclust.runtimes.network.setup import living_graph
from peerclust.types import Array
from peerclust.users import Users

Events = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Replayed:
    """One site's end: its last round, the centers computed again, and whether they are the same."""

    round: int
    x: Array
    same: bool


@dataclass(eq=False)
class _Segment:
    """What one site did from a start on: whose frames counted from which exchange on."""

    round: int
    x: Array
    heard: list[tuple[int, list[int]]] = field(default_factory=list)

    def senders(self, exchange: int) -> list[int] | None:
        """Give whose frames counted in an exchange; None if the site did not come so far."""
        known = [senders for first, senders in self.heard if first <= exchange]
        return known[-1] if known else None


@dataclass(eq=False)
class _Site:
    """A site as it is replayed."""

    users: Users
    segments: list[_Segment]
    end: dict[str, Any] | None
    state: Any = None
    segment: _Segment | None = None
    final: Array | None = None
    last: Any = None


def replay(
    contract: Contract,
    rows: Mapping[int, Rows],
    journals: Mapping[int, Events],
    on_round: Callable[[int, dict[int, Array]], None] = lambda *_: None,
) -> dict[int, Replayed]:
    """Compute the last run of these journals again; both are by the peers' numbers.

    Sites that did not come to an end are computed as far as others heard them, but not returned.
    `on_round` is told each round and the centers (K, d) with which those who are in it begin it.
    """
    events = {i: run for i, journal in journals.items() if (run := _last_run(journal))}
    if not events:
        raise DataError("A replay needs the journals of a run. Got none that tells of one.")
    _check_heard(contract, events)
    _check_rows(contract, rows, events)
    agreed, starts = _agree_again(contract, rows, events)
    scale = setup.make_scale(contract, agreed)
    program = configuration.make_program(contract, agreed)
    sites = {
        i: _Site(rows[i].users(contract, scale), *_read_segments(each))
        for i, each in events.items()
    }
    for i, site in sites.items():
        _check_start(contract.names[i], site.segments, starts.get(i))
    last = max((site.end["round"] for site in sites.values() if site.end), default=-1)
    for exchange in range((last + 1) * contract.B):
        _enter(contract, program, sites, exchange)
        if exchange % contract.B == 0:
            here = {i: site.state.x[0] for i, site in sites.items() if site.state is not None}
            on_round(exchange // contract.B, here)
        _step(contract, program, sites, exchange)
    done = {}
    for i, site in sorted(sites.items()):
        if site.end is not None and site.final is not None:
            same = np.array_equal(site.final, unpack_array(site.end["x"]))
            done[i] = Replayed(site.end["round"], site.final, same)
    return done


def _enter(contract: Contract, program: Program, sites: dict[int, _Site], exchange: int) -> None:
    """Let sites start, and end, where their journals say so."""
    round_, update = divmod(exchange, contract.B)
    for site in sites.values():
        for segment in site.segments if update == 0 else ():
            if segment.round == round_:
                site.users.reset_cache()
                site.segment = segment
                site.state = set_round(program.start(site.users, segment.x[None]), round_)
        if site.end and site.end["round"] == round_ and update == 0 and site.state is not None:
            site.final, site.last, site.state = site.state.x[0], site.state, None


def _step(contract: Contract, program: Program, sites: dict[int, _Site], exchange: int) -> None:
    """Compute one exchange at every site that took part in it."""
    said = {i: program.say(s.state) for i, s in sites.items() if s.state is not None}
    for i, site in sites.items():
        # Who has ended says where, once more; a neighbor may go on with it.
        if site.last is not None and site.end and site.end["round"] * contract.B == exchange:
            said[i] = program.say(site.last)
    for i, site in sites.items():
        if site.state is None or site.segment is None:
            continue
        senders = site.segment.senders(exchange)
        if senders is None or any(j not in said for j in senders):
            site.state = None  # it ended here: nobody heard more of it
            continue
        letters: list[Any] = [said[j] for j in senders]
        most = [each.extra_max[0] for each in letters if each.extra_max is not None]
        own: Any = said[i]
        heard = reduce_messages(own, [each.x[0] for each in letters], most)
        site.state = program.hear(site.users, site.state, heard)


def _last_run(journal: Events) -> Events:
    """Give the events of the last run of a journal, in all processes that took part in it."""
    runs = [event["run"] for event in journal if event["event"] == "agreed"]
    return select_run(journal, runs[-1]) if runs else []


def select_run(journal: Events, run: str) -> Events:
    """Give the events of one run of a journal.

    >>> agreed, other = {"event": "agreed", "run": "a"}, {"event": "agreed", "run": "b"}
    >>> select_run([agreed, {"event": "end"}, other], "a")
    [{'event': 'agreed', 'run': 'a'}, {'event': 'end'}]
    """
    found, inside = [], False
    for event in journal:
        if event["event"] == "agreed":
            inside = event["run"] == run
        if inside:
            found.append(event)
    return found


def _check_heard(contract: Contract, events: Mapping[int, Events]) -> None:
    """Raise if someone was heard whose journal is not there."""
    senders = {j for run in events.values() for each in run for j in each.get("senders", ())}
    missing = [contract.names[j] for j in sorted(senders - set(events))]
    if missing:
        raise DataError(
            "A replay needs the journal of every site that was heard. Got none of"
            f" {', '.join(missing)}."
        )


def _agree_again(
    contract: Contract, rows: Mapping[int, Rows], events: Mapping[int, Events]
) -> tuple[Any, dict[int, Array]]:
    """Give what was agreed, and the members' first centers, computed by the simulator."""
    first = {i: each[0] for i, each in events.items()}
    if len({each["run"] for each in first.values()}) > 1:
        raise DataError("The journals must be of one run. Got those of several.")
    told = next(iter(first.values()))
    members, lost = tuple(told["members"]), [(i, j) for i, j in told["lost"]]
    missing = [contract.names[i] for i in members if i not in rows]
    if missing:
        raise DataError(
            f"A replay needs every site that agreed. Got nothing of {', '.join(missing)}."
        )
    runtime = Simulator(living_graph(contract.graph, members, lost))
    joint = setup.join_rows([rows[i] for i in members])
    agreed, _, x = setup.agree(contract, runtime, joint, members, lost)
    if setup.run_tag(contract, agreed).hex() != told["run"]:
        raise DataError("The run cannot be computed again: something else was agreed on here.")
    return agreed, dict(zip(members, x, strict=True))


def _check_rows(contract: Contract, rows: Mapping[int, Rows], events: Mapping[int, Events]) -> None:
    """Raise unless each site's rows are those that it took part with."""
    for i, each in events.items():
        told = [event.get("rows") for event in each if event["event"] == "agreed"]
        if i in rows and set(told) != {rows[i].digest.hex()}:
            raise DataError(
                f"The rows of {contract.names[i]} must be those of the run. Got others; was its"
                " file changed, or another site's file or folder given?"
            )


def _check_start(name: str, segments: list[_Segment], start: Array | None) -> None:
    """Raise unless a site started where the simulator does, if it was there from the start."""
    first = segments[0] if segments else None
    if first and start is not None and first.round == 0 and not np.array_equal(first.x, start):
        raise DataError(f"The journal of {name} must start where the simulator does.")


def _read_segments(events: Events) -> tuple[list[_Segment], dict[str, Any] | None]:
    segments: list[_Segment] = []
    end = None
    for event in events:
        if event["event"] == "start":
            if segments and not segments[-1].heard:
                segments.pop()
            segments.append(_Segment(event["round"], unpack_array(event["x"])))
        elif event["event"] == "heard" and segments:
            segments[-1].heard.append((event["exchange"], event["senders"]))
        elif event["event"] == "end":
            end = event
    return segments, end
