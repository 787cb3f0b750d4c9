"""What one peer knows of all others: the latest statement of each kind, and proof of lies. No I/O.

Statements are flooded: a peer forwards what is new to it. Only the latest of each peer and kind is
kept, and a few before it, by which contradictions are found. So memory is bounded, whatever a peer
states. A statement without a valid signature is the fault of the neighbor that sent it, since
honest peers forward none. What a signed statement says is never blamed on a relay.
"""

from __future__ import annotations

from collections import OrderedDict

from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Evidence, Incarnation, Statement, Subject
from peerclust.runtimes.network.statements import Author, Verifier

# How many statements of a peer and kind are kept, to compare others with them.
_KEPT = 8


class Gossip:
    """The statements of all peers, and the latest process of each.

    Attributes
    ----------
    processes : dict of int to Incarnation
        The latest process of each peer that is known.
    liars : dict of int to Evidence
        The peers that contradicted themselves; nothing that they state counts any longer.
    verifier : Verifier
        Checks what others have signed.
    """

    def __init__(self, contract: Contract, author: Author) -> None:
        self.verifier, self._author = Verifier(contract), author
        self._latest: dict[tuple[int, Subject], Statement] = {}
        self._kept: dict[tuple[int, Subject], OrderedDict[tuple[object, ...], Statement]] = {}
        # The statement that the one received last has replaced.
        self._before: Statement | None = None
        # What an earlier process of this peer stated last, of each kind.
        self._earlier: dict[Subject, Statement] = {}
        self.processes: dict[int, Incarnation] = {author.incarnation.peer: author.incarnation}
        self.liars: dict[int, Evidence] = {}

    def state(self, kind: Subject, body: bytes, run: bytes = b"") -> Statement:
        """Sign a statement of this process, and store it."""
        statement = self._author.sign(kind, body, run)
        me = statement.origin.peer
        self.processes[me] = statement.origin
        self._latest[me, kind] = statement
        return statement

    def latest(self, peer: int, kind: Subject) -> Statement | None:
        """Return the latest statement of a kind by the latest known process of a peer.

        The view of a process in a run counts until a later process of its peer has joined the run.
        """
        found = self._latest.get((peer, kind))
        if found is None or kind == "view":
            return found
        return found if found.origin.order == self.processes[peer].order else None

    def all(self) -> list[Statement]:
        """Return all statements that a neighbor may have missed.

        That a process has started a run comes before what it lost in its set-up, as a neighbor must
        read them in this order.
        """
        return sorted(self._latest.values(), key=lambda each: each.kind != "agreed")

    def who_stated(self, kind: Subject, run: bytes, body: bytes) -> list[Statement]:
        """Return the statements of this kind and content that are valid (see `is_valid`)."""
        return [
            each
            for (_, of_kind), each in self._latest.items()
            if of_kind == kind and (each.run, each.body) == (run, body) and self.is_valid(each)
        ]

    def has_stated_before(self, kind: Subject, run: bytes, body: bytes) -> bool:
        """Return whether an earlier process of this peer stated this last, of this kind."""
        earlier = self._earlier.get(kind)
        return earlier is not None and (earlier.run, earlier.body) == (run, body)

    def is_valid(self, statement: Statement) -> bool:
        """Return whether a statement's peer is not a liar, and no later process of it is known.

        A peer that has started anew takes part in another run, or takes part late; what its earlier
        process agreed to or signed no longer counts.
        """
        peer = statement.origin.peer
        known = self.processes.get(peer)
        return peer not in self.liars and (known is None or statement.origin.order >= known.order)

    def meet(self, process: Incarnation) -> bool:
        """Note a process, which must have been checked; return whether it is the latest known."""
        known = self.processes.get(process.peer)
        if known is None or process.order > known.order:
            self.processes[process.peer] = process
        return process.order >= self.processes[process.peer].order

    def receive(self, statement: Statement) -> Evidence | bool:
        """Store a statement; return whether it is new, or the evidence that its origin lies.

        Raise WireError if it is not signed by its origin.
        """
        peer, key = statement.origin.peer, (statement.origin.peer, statement.kind)
        before = self._latest.get(key)
        if peer in self.liars or (before is not None and before == statement):
            return False
        self.verifier.check_statement(statement)
        if peer == self._author.incarnation.peer:
            # Of an earlier process of this peer, or of another one with a copy of its key.
            earlier = self._earlier.get(statement.kind)
            if earlier is None or statement.order > earlier.order:
                self._earlier[statement.kind] = statement
            return False
        kept = self._kept.setdefault(key, OrderedDict())
        other = kept.get(statement.place)
        if other is not None and other.body != statement.body:
            return Evidence(other, statement)
        kept[statement.place] = statement
        while len(kept) > _KEPT:
            kept.popitem(last=False)
        if not self.meet(statement.origin) and statement.kind != "view":
            return False
        if before is not None and before.order >= statement.order:
            return False
        self._before = before
        self._latest[key] = statement
        return True

    def withdraw(self, statement: Statement) -> None:
        """Forget the statement just received: its contents are invalid, and it hides a valid one.

        Peers that received it in another order must not come to know something else.
        """
        key = statement.origin.peer, statement.kind
        if self._before is None:
            del self._latest[key]
        else:
            self._latest[key] = self._before

    def drop_other_runs(self, kind: Subject, run: bytes) -> None:
        """Forget statements of a kind about other runs, which may hide those about this one."""
        for key, each in list(self._latest.items()):
            if key[1] == kind and each.run != run:
                del self._latest[key]

    def convict(self, evidence: Evidence) -> int | None:
        """Store evidence; return the peer that it convicts, None if that is known already.

        Raise WireError if it convicts nobody.
        """
        peer = evidence.first.origin.peer
        if peer in self.liars:
            return None
        self.verifier.check_evidence(evidence)
        self.liars[peer] = evidence
        return peer
