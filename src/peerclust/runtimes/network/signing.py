"""How the peers of a run sign its joint record (`record`) once it has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from peerclust.errors import WireError
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.flooding import Flooding
from peerclust.runtimes.network.messages import (
    Presence,
    Record,
    SignedRecord,
    Statement,
    StateReply,
)
from peerclust.runtimes.network.record import (
    Span,
    check_signed,
    digest,
    explain_unsigned,
    find_rounds,
    is_majority,
    show_run,
)
from peerclust.runtimes.network.session import Session
from peerclust.runtimes.network.statements import run_id
from peerclust.runtimes.network.view_exchange import MAX_SPANS, ViewExchange


class RecordSigning:
    """Signs the record for one peer, and counts the signatures of others.

    `discarded_run` is the run whose result was discarded here, so that it is not taken again.
    """

    def __init__(self, session: Session, flooding: Flooding, exchange: ViewExchange) -> None:
        self._session, self._flooding, self._exchange = session, flooding, exchange
        self.discarded_run = b""

    async def sign(
        self, members: Sequence[int], rounds: int, make: Callable[[list[list[Span]]], Record]
    ) -> Record:
        """Agree on when peers took part, and sign the record that all members make of it.

        `make` is called with the rounds of each listed peer. A member that is lost meanwhile is
        awaited for `timeout` seconds.
        """
        session, exchange = self._session, self._exchange
        spans = exchange.list_spans(rounds)
        mine = Presence(session.agreed, exchange.first_round, spans)
        self._flooding.publish("presence", messages.pack(mine))
        limit = session.loop.time() + session.contract.timeout
        while True:
            stated = {i: self._read_presence(i) for i in members}
            if all(stated.values()) or not await session.wait_until(limit):
                break
        known = {i: presence for i, presence in stated.items() if presence is not None}
        record = make(find_rounds(session.contract, members, known, rounds))
        self._flooding.publish("record", digest(record))
        return record

    def _read_presence(self, peer: int) -> Presence | None:
        """Return what a peer stated of its presence after the last agreement."""
        session = self._session
        statement = self._flooding.gossip.latest(peer, "presence")
        if statement is None or statement.run != session.run_id:
            return None
        try:
            presence = messages.unpack(statement.body, Presence)
        except WireError:
            return None
        near = set(session.contract.graph.neighbors(peer).tolist())
        # More than an honest peer can have would make the record too large to be sent.
        few = len(presence.neighbors) <= MAX_SPANS * len(near)
        valid = few and all(j in near for j, _, _ in presence.neighbors)
        return presence if valid and presence.agreement == session.agreed else None

    def signatures(self, record: Record) -> list[Statement]:
        """Return the statements of all peers that sign this record."""
        return self._flooding.gossip.who_stated("record", record.run, digest(record))

    def is_confirmed(self, reply: StateReply) -> bool:
        """Return whether more than half of all peers have signed what a neighbor says of the run.

        That is the record if the run is over, else what its members have agreed on. An earlier
        process of this peer counts: it takes part in no other run now.
        """
        contract, gossip = self._session.contract, self._flooding.gossip
        m = len(contract.peers)
        if reply.record is not None:
            check_signed(reply.record, contract, gossip.verifier)
            wanted = reply.record.record.run != self.discarded_run
            return wanted and is_majority(len(self._find_signers(reply.record)), m)
        run, stated = run_id(contract, reply.agreed), digest(reply.agreed)
        others = len(gossip.who_stated("agreed", run, stated))
        return is_majority(others + gossip.has_stated_before("agreed", run, stated), m)

    def explain_doubt(self, signed: SignedRecord) -> str:
        """Return why a record is not taken."""
        if signed.record.run == self.discarded_run:
            return f"its run {show_run(signed)} is over, and was discarded here by --force"
        return explain_unsigned(signed, self._session.contract, self._find_signers(signed))

    def _find_signers(self, signed: SignedRecord) -> set[int]:
        """Return the peers whose signatures under a record count, this one's own included."""
        is_valid = self._flooding.gossip.is_valid
        return {
            statement.origin.peer
            for statement in signed.signatures
            if statement.origin.peer == self._session.number or is_valid(statement)
        }
