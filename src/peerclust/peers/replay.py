"""A run computed again from the sites' rows and journals, faults included, to the last bit.

The journals have the sites' private seeds, so that all random numbers are those of the run.
The set-up before the first round runs on the simulator, on the graph that was alive. Then each
site's program gets, exchange by exchange, the centers of the senders that its journal lists. The
agreements of a run do not change centers, so they are not computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from peerclust.arrays import Array
from peerclust.errors import DataError
from peerclust.peers import configuration, setup
from peerclust.peers.rows import Rows, join_rows
from peerclust.programs.protocol import (
    AnyProgram,
    Heard,
    HeardMax,
    HeardTotal,
    Message,
    NetworkMax,
    NetworkSum,
    State,
    ToNeighbors,
    reduce_messages,
)
from peerclust.runtimes import Simulator
from peerclust.runtimes.loop import Conversation, advance, begin, converse
from peerclust.runtimes.network.collectives import active_graph
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.journal import Event, find_private_seed, unpack_array
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.wire import TAG_BYTES
from peerclust.runtimes.protocol import Delivered, Said
from peerclust.users import Users

Events = list[Event]


@dataclass(frozen=True, eq=False)
class Replayed:
    """The end of one site: its last round, recomputed centers, and whether they are the same."""

    round: int
    x: Array
    same: bool


@dataclass(eq=False)
class _Segment:
    """One site from a start on: the senders that it heard, from which exchange on."""

    round: int
    x: Array
    heard: list[tuple[int, list[int]]] = field(default_factory=list)

    def senders(self, exchange: int) -> list[int] | None:
        """Return the senders heard in an exchange; None if the site did not get that far."""
        known = [senders for first, senders in self.heard if first <= exchange]
        return known[-1] if known else None


@dataclass(eq=False)
class _Site:
    """The replay of a site: what it says next, in which segment; None if nobody heard it."""

    users: Users
    segments: list[_Segment]
    end: Event | None
    segment: _Segment | None = None
    conversation: Conversation[State] | None = None
    said: Said | None = None
    final: Array | None = None

    def advance(self, delivered: Delivered | None = None) -> None:
        """Compute what it says next."""
        assert self.conversation is not None
        at = advance(self.conversation, delivered)
        self.said = at if isinstance(at, Said) else None


def replay(
    contract: Contract,
    rows: Mapping[int, Rows],
    journals: Mapping[int, Events],
    on_round: Callable[[int, dict[int, Array]], None] = lambda *_: None,
) -> dict[int, Replayed]:
    """Compute the last run of these journals again; both mappings are by the peers' numbers.

    Sites that did not reach the end are computed as far as others heard them, but not returned.
    `on_round` is called with each round and the centers (K, d) of its sites at its start.
    """
    events = {i: run for i, journal in journals.items() if (run := _last_run(journal))}
    if not events:
        raise DataError("A replay needs the journals of a run. Got none with a run.")
    _check_heard(contract, events)
    _check_rows(contract, rows, events)
    rows = _with_seeds(rows, journals)
    agreed, starts = _agree_again(contract, rows, events)
    program = configuration.make_program(contract, agreed)
    sites = {
        i: _Site(rows[i].users(contract, agreed), *_read_segments(each))
        for i, each in events.items()
    }
    for i, site in sites.items():
        _check_start(contract.names[i], site.segments, starts.get(i))
    last = max((site.end["exchange"] for site in sites.values() if site.end), default=-1)
    for exchange in range(last + 1):
        _enter(contract, program, sites, exchange)
        if exchange % contract.B == 0:
            here = {i: s.said.states[0].x[0] for i, s in sites.items() if s.said and s.segment}
            on_round(exchange // contract.B, here)
        _step(sites, exchange)
    done = {}
    for i, site in sorted(sites.items()):
        if site.end is not None and site.final is not None:
            same = np.array_equal(site.final, unpack_array(site.end["x"]))
            done[i] = Replayed(site.end["round"], site.final, same)
    return done


def _enter(contract: Contract, program: AnyProgram, sites: dict[int, _Site], exchange: int) -> None:
    """Start and end sites where their journals say so."""
    round_, update = divmod(exchange, contract.B)
    for site in sites.values():
        for segment in site.segments:
            if segment.round == round_ and update == 0:
                site.segment = segment
                start = begin(program, [site.users], [segment.x[None]], round_)
                # One more round, as a site that has ended says its centers once more.
                rounds = contract.max_round + 1
                site.conversation = converse(program, [site.users], start, rounds=rounds)
                site.advance()
        if site.end and site.end["exchange"] == exchange and site.said and site.segment:
            site.final, site.segment = site.said.states[0].x[0], None


def _step(sites: dict[int, _Site], exchange: int) -> None:
    """Compute one exchange at every site that took part in it."""
    said = {i: site.said.messages[0] for i, site in sites.items() if site.said is not None}
    for i, site in sites.items():
        senders = site.segment.senders(exchange) if site.segment is not None else None
        if i not in said or senders is None or any(j not in said for j in senders):
            site.said = None  # it ended here: no site heard more of it
            continue
        site.advance(Delivered([_hear(said[i], [said[j] for j in senders], said.values())]))


def _hear(
    own: Message[Heard], near: Sequence[Message[Heard]], everyone: Iterable[Message[Heard]]
) -> Heard:
    """Return what a site hears: its neighbors, or in a sum or maximum all sites."""
    if isinstance(own, NetworkSum):
        integers = [each.v[0] for each in everyone if isinstance(each, NetworkSum)]
        return HeardTotal(np.add.reduce(integers))
    if isinstance(own, NetworkMax):
        return HeardMax(np.max([m.v[0] for m in everyone if isinstance(m, NetworkMax)], axis=0))
    assert isinstance(own, ToNeighbors)
    messages = [each for each in near if isinstance(each, ToNeighbors)]
    maxima = [each.extra_max[0] for each in messages if each.extra_max is not None]
    return reduce_messages(own, [each.x[0] for each in messages], maxima)


def _with_seeds(rows: Mapping[int, Rows], journals: Mapping[int, Events]) -> dict[int, Rows]:
    """Return the rows of the sites whose journals have a private seed, with that seed."""
    return {
        i: replace(each, private_seeds={i: seed})
        for i, each in rows.items()
        if (seed := find_private_seed(journals.get(i, []))) is not None
    }


def _last_run(journal: Events) -> Events:
    """Return the events of the last run of a journal, in all processes that took part in it."""
    runs = [event["run"] for event in journal if event["event"] == "agreed"]
    return select_run(journal, runs[-1]) if runs else []


def select_run(journal: Events, run: str) -> Events:
    """Return the events of one run of a journal.

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
    """Raise if the journal of a site that was heard is missing."""
    senders = {j for run in events.values() for each in run for j in each.get("senders", ())}
    missing = [contract.names[j] for j in sorted(senders - set(events))]
    if missing:
        raise DataError(
            "A replay needs the journal of every site that was heard. Got none of"
            f" {', '.join(missing)}."
        )


def _agree_again(
    contract: Contract, rows: Mapping[int, Rows], events: Mapping[int, Events]
) -> tuple[Agreed, dict[int, Array]]:
    """Return the agreement and the members' initial centers, computed by the simulator."""
    first = {i: each[0] for i, each in events.items()}
    if len({each["run"] for each in first.values()}) > 1:
        raise DataError("The journals must be of one run. Got those of several.")
    record = next(iter(first.values()))
    members, lost = tuple(record["members"]), [(i, j) for i, j in record["lost"]]
    missing = [contract.names[i] for i in members if i not in rows]
    if missing:
        raise DataError(
            "A replay needs the rows, and the journal with the private seed, of every site that"
            f" agreed. Got none of {', '.join(missing)}."
        )
    runtime = Simulator(active_graph(contract.graph, members, lost))
    joint = join_rows([rows[i] for i in members])
    agreed, _, x = setup.agree(contract, runtime, joint, members, lost, record["processes"])
    if run_id(contract, agreed)[:TAG_BYTES].hex() != record["run"]:
        raise DataError("The run cannot be replayed: the set-up gives a different agreement here.")
    return agreed, dict(zip(members, x, strict=True))


def _check_rows(contract: Contract, rows: Mapping[int, Rows], events: Mapping[int, Events]) -> None:
    """Raise unless each site's rows are those of the run."""
    for i, each in events.items():
        digests = [event.get("rows") for event in each if event["event"] == "agreed"]
        if i in rows and set(digests) != {rows[i].digest.hex()}:
            raise DataError(
                f"The rows of {contract.names[i]} must be those of the run. Got others; was its"
                " file changed, or another site's file or directory given?"
            )


def _check_start(name: str, segments: list[_Segment], start: Array | None) -> None:
    """Raise unless a site that was there from the start has the simulator's initial centers."""
    first = segments[0] if segments else None
    if first and start is not None and first.round == 0 and not np.array_equal(first.x, start):
        raise DataError(f"The journal of {name} must start with the simulator's centers.")


def _read_segments(events: Events) -> tuple[list[_Segment], Event | None]:
    segments: list[_Segment] = []
    end = None
    for event in events:
        if event["event"] == "start":
            # Others may have heard a start after which the site itself heard nobody, but not one
            # from which it went back.
            while segments and not segments[-1].heard and segments[-1].round >= event["round"]:
                segments.pop()
            segments.append(_Segment(event["round"], unpack_array(event["x"])))
        elif event["event"] == "heard" and segments:
            segments[-1].heard.append((event["exchange"], event["senders"]))
        elif event["event"] == "end":
            end = event
    return segments, end
