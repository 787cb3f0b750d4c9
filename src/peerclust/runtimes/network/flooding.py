"""Statements on their way through the network: those of this peer, and those that it forwards.

What a statement means is the business of the part of the node that reads its kind.
"""

from __future__ import annotations

from collections.abc import Callable

from peerclust.errors import WireError
from peerclust.runtimes.network.gossip import Gossip
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.messages import Evidence, Statement, Subject
from peerclust.runtimes.network.session import Session
from peerclust.runtimes.network.statements import Author
from peerclust.runtimes.network.states import Cause
from peerclust.runtimes.network.wire import Kind

# How many statements per link a neighbor may make in `timeout` seconds before it is dropped.
_MAX_STATEMENTS = 100

# What a process states only once, so that two of them contradict each other.
_ONCE: tuple[Subject, ...] = ("presence", "record")

# The minimum pause between statements of one origin that are forwarded, in seconds. Of those that
# come in a pause, only the latest are.
_MIN_PAUSE = 0.05


class Flooding:
    """Signs, stores and forwards statements.

    Attributes
    ----------
    readers : dict of kind to callable
        Act on a new statement, and raise WireError if its contents are invalid.
    on_news : callable
        Called with a statement that was read, and whether it is the first of its process.
    on_invalid, on_liar : callable
        Called with a neighbor whose statement is invalid, and the reason; and with the number of a
        peer that contradicted itself, and the reason.
    on_evidence : callable
        Called with the name of such a peer, and the evidence.
    """

    def __init__(self, session: Session, author: Author) -> None:
        self._session, self.author = session, author
        self.gossip = Gossip(session.contract, author)
        self.readers: dict[Subject, Callable[[Statement], None]] = {}
        self.on_news: Callable[[Statement, bool], None] = lambda *_: None
        self.on_invalid: Callable[[Link, Cause, str], None] = lambda *_: None
        self.on_liar: Callable[[int, str], None] = lambda *_: None
        self.on_evidence: Callable[[str, Evidence], None] = lambda *_: None
        # Statements that wait to be forwarded, and when one of each origin last was.
        self._waiting: dict[tuple[int, Subject], Statement] = {}
        self._forwarded_at: dict[int, float] = {}

    def publish(self, kind: Subject, body: bytes, run: bytes | None = None) -> None:
        """Sign a statement, about this run by default, and send it to all neighbors."""
        run = self._session.run_id if run is None else run
        self._session.broadcast(Kind.STATEMENT, self.gossip.state(kind, body, run))

    def send_all(self, link: Link) -> None:
        """Send everything that a neighbor may have missed."""
        for statement in self.gossip.all():
            self._session.send(link, Kind.STATEMENT, statement)
        for evidence in self.gossip.liars.values():
            self._session.send(link, Kind.EVIDENCE, evidence)

    def receive(self, statement: Statement, link: Link) -> None:
        """Store a statement that a neighbor sent, act on it, and forward it if it is new."""
        known = self.gossip.processes.get(statement.origin.peer)
        found = self.gossip.receive(statement)
        if isinstance(found, Evidence):
            self.receive_evidence(found)
            return
        if not found:
            return
        own = statement.origin.peer == link.number
        if fault := self._find_fault(statement, link if own else None):
            self.gossip.withdraw(statement)
            # Its origin signed it; a relay is not to blame.
            if own:
                self.on_invalid(link, *fault)
            return
        self.on_news(statement, known is None or known.key != statement.origin.key)
        self._forward(statement, but=link)
        self._session.wake()

    def _find_fault(self, statement: Statement, origin: Link | None) -> tuple[Cause, str] | None:
        """Pass a statement to its reader; return what is wrong with it, if anything.

        `origin` is the neighbor, if it has sent a statement of its own.
        """
        contract, now = self._session.contract, self._session.loop.time()
        if origin is not None:
            if origin.process is not None and statement.origin.key != origin.process.key:
                return Cause.INVALID, "A neighbor must state only what its own process says."
            limit = _MAX_STATEMENTS * len(contract.graph.neighbors(origin.number))
            if origin.count_statements(now, contract.timeout) > limit:
                often = f"more than {limit} statements in {contract.timeout:g} s"
                return Cause.EXCESS, f"A peer must not make {often}."
        if statement.kind in _ONCE and statement.seq != 1:
            return Cause.INVALID, f"A process must state its {statement.kind} only once."
        try:
            if reader := self.readers.get(statement.kind):
                reader(statement)
        except WireError as error:
            return Cause.INVALID, str(error)
        return None

    def receive_evidence(self, evidence: Evidence, but: Link | None = None) -> None:
        """Drop a peer that contradicted itself, and tell all neighbors."""
        liar = self.gossip.convict(evidence)
        if liar is None:
            return
        session = self._session
        name = session.contract.names[liar]
        reason = f"it signed two different {evidence.first.kind}s as one"
        session.record_event(session.round, f"{name} is dropped: {reason}", "evidence", name)
        self.on_evidence(name, evidence)
        session.broadcast(Kind.EVIDENCE, evidence, but)
        self.on_liar(liar, reason)
        session.wake()

    def _forward(self, statement: Statement, but: Link | None = None) -> None:
        """Forward a statement, at once unless its origin has stated others a moment ago."""
        session = self._session
        origin, now = statement.origin.peer, session.loop.time()
        wait = self._forwarded_at.get(origin, 0.0) + _MIN_PAUSE - now
        if wait <= 0:
            self._forwarded_at[origin] = now
            session.broadcast(Kind.STATEMENT, statement, but)
            return
        if not any(peer == origin for peer, _ in self._waiting):
            session.loop.call_later(wait, self._forward_latest, origin)
        self._waiting[origin, statement.kind] = statement

    def _forward_latest(self, origin: int) -> None:
        self._forwarded_at[origin] = self._session.loop.time()
        for key in [key for key in self._waiting if key[0] == origin]:
            self._session.broadcast(Kind.STATEMENT, self._waiting.pop(key))
