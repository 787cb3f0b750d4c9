"""One peer on the network: its parts, and which of them handles what a neighbor sends.

Everything happens in one event loop, which runs while an exchange is awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal, TypeVar

from peerclust.errors import WireError
from peerclust.log_events import LogEvent
from peerclust.runtimes.network import identity as identities, messages, wire
from peerclust.runtimes.network.attempts import SetupAttempts
from peerclust.runtimes.network.connections import ConnectionManager
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.flooding import Flooding
from peerclust.runtimes.network.handshake import Handshake
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.lockstep import Lockstep
from peerclust.runtimes.network.membership import Membership
from peerclust.runtimes.network.messages import (
    Bye,
    Evidence,
    Heartbeat,
    LinkUp,
    SignedRecord,
    Statement,
    StateReply,
    StateRequest,
)
from peerclust.runtimes.network.session import Leaving, Session, Stopping
from peerclust.runtimes.network.signing import RecordSigning
from peerclust.runtimes.network.state_transfer import StateTransfer
from peerclust.runtimes.network.statements import Author
from peerclust.runtimes.network.states import Cause, RunEvent, RunState
from peerclust.runtimes.network.view_exchange import MAX_SPANS, ViewExchange
from peerclust.runtimes.network.waits import WaitsFor
from peerclust.runtimes.network.watchdog import Watchdog
from peerclust.runtimes.network.wire import Frame, Kind
from peerclust.text import sanitize

# How many seconds a process that was asked to exit waits for a call in a thread.
_GRACE = 0.5

# The messages that a process handles while it takes part in no run.
_WHILE_SERVING = (Kind.HEARTBEAT, Kind.STATE_REQUEST, Kind.BYE)

T = TypeVar("T")


class Node:
    """A peer that is on the network.

    Attributes
    ----------
    session : Session
        Its links and its place in the run, which all other parts share.
    flooding, attempts, view_exchange, membership, lockstep, waits
        Its parts; see their modules.
    signing, state_transfer, handshake, watchdog
        More of them.
    """

    def __init__(
        self,
        contract: Contract,
        me: str,
        identity: Identity,
        *,
        listen: tuple[str, int] | None = None,
        dial: Mapping[str, tuple[str, int]] | None = None,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        pinned = identities.private_key(identity)
        author = Author(contract, contract.number(me), pinned, time.time_ns())
        session = self.session = Session(contract, me, log)
        self.flooding = Flooding(session, author)
        self.attempts = SetupAttempts(session, self.flooding)
        exchange = self.view_exchange = ViewExchange(session, self.flooding)
        self.membership = Membership(session, self.flooding, self.attempts, exchange)
        self.lockstep = Lockstep(session, self.membership.drop, lambda: exchange.views.checksum)
        self.waits = WaitsFor(session, self.flooding, self.lockstep, exchange.connected)
        self.signing = RecordSigning(session, self.flooding, exchange)
        self.state_transfer = StateTransfer(session, self.membership, self.signing)
        self.handshake = Handshake(session, self.flooding, self.attempts, self.membership)
        self.watchdog = Watchdog(
            session,
            self.membership,
            exchange,
            self.lockstep,
            self.waits,
            self.flooding.gossip,
        )
        self._closing = False
        self._ticker: asyncio.Task[None] | None = None
        # Whether calls in threads are abandoned, and what cancels the wait for the current one.
        self._abandons = False
        self._abandon: Callable[[], object] = lambda: None
        d, K, m = len(contract.features), contract.n_clusters, len(contract.peers)
        self._connections = ConnectionManager(
            contract,
            session.links,
            identity,
            self,
            self.handshake,
            listen=listen or contract.peers[session.number].endpoint,
            dial=dial or {},
            # Settings; centers and results of the set-up, twice in an answer with a record; a
            # statement of every peer, and the rounds that it took part in.
            limit=(1 << 16)
            + len(contract.settings_json)
            + 2 * (9 * K * (d + 4) + 64 * d)
            + m * (2000 + 64 * m)
            + 2 * len(contract.links) * MAX_SPANS * 20,
            log=log,
        )

    def open(self) -> None:
        """Start listening, dialing and the watchdog."""
        session = self.session
        if session.state is not RunState.SERVING:
            awaited = ", ".join(session.links)
            session.log(LogEvent("waiting", f"Waiting for {awaited}.", peers=list(session.links)))
            self.attempts.state_losses()
        for link in session.links.values():
            certificate = session.contract.peers[link.number].certificate
            if reason := identities.explain_dates(certificate, datetime.now(UTC)):
                self.on_mismatch(link, reason)
        session.loop.run_until_complete(self._connections.open())
        self._ticker = session.loop.create_task(self.watchdog.watch())

    def serve(self, signed: SignedRecord) -> None:
        """Take part in no run, and answer requests with the record of one that is over.

        Such a process states nothing: a statement would make it the latest process of this peer,
        and the signature of the one that took part would no longer count.
        """
        session, record = self.session, signed.record
        session.move(RunEvent.SERVE)
        session.run_id, session.run = record.run, record.run[: wire.TAG_BYTES]
        session.at = record.round * session.contract.B
        reply = StateReply(record.agreed, record.round, record.centers, signed)
        self.state_transfer.make_reply = lambda: reply

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Return the result of a call in a thread, while the event loop goes on.

        A process that was asked to exit does not wait for it long: compiling takes seconds. The
        thread runs on until the process ends.
        """
        if self._abandons:
            raise Leaving
        future = self.session.loop.run_in_executor(None, call)
        self._abandon = future.cancel
        try:
            return await future
        except asyncio.CancelledError:
            raise Leaving from None

    def leave(self) -> None:
        """Raise Leaving from the current wait, and soon from a call in a thread."""
        self.session.interrupt(Leaving())
        self.session.loop.call_later(_GRACE, self._abandon_calls)

    def _abandon_calls(self) -> None:
        self._abandons = True
        self._abandon()

    def close(self, why: Literal["leaves", "fails", "stops", "done"], reason: str) -> None:
        """Send BYE and close all connections."""
        session, self._closing = self.session, True
        session.broadcast(Kind.BYE, Bye(why, sanitize(reason)))
        if self._ticker is not None:
            self._ticker.cancel()
        session.loop.run_until_complete(self._connections.close())
        session.loop.close()

    # Events of connections

    def on_frame(self, link: Link, frame: Frame) -> None:
        """Handle a frame from a neighbor."""
        session = self.session
        link.heard_at = session.loop.time()
        link.run = frame.run
        if frame.run == session.run and frame.exchange <= session.at + 1:
            link.note_progress(frame.run, frame.exchange)
        if frame.network != session.network:
            self.on_invalid(link, "its frames must be of this network")
        elif session.state is RunState.SERVING and frame.kind not in _WHILE_SERVING:
            return
        elif frame.kind in wire.ARRAYS:
            self.lockstep.receive_array(link, frame)
        else:
            try:
                self._receive_message(link, frame)
            except WireError as error:
                self.on_invalid(link, str(error))

    def on_invalid(self, link: Link, reason: str) -> None:
        """Handle bytes or messages of a neighbor that violate the protocol."""
        if self.session.state is not RunState.SERVING:
            self.membership.drop(link, Cause.INVALID, reason)
        elif link.connection is not None:
            # There is no run from which it could be dropped. Once mended, it may fetch the result.
            self._connections.refusals.note_neighbor(link.name, f"was refused: {reason}")
            self.session.send(link, Kind.BYE, Bye("refuses", sanitize(reason)))
            link.connection.close(reason, refused=True)

    def on_mismatch(self, link: Link, reason: str) -> None:
        """Drop at once a neighbor with which this peer can never take part, and say why."""
        known = link.banned or self.attempts.has_lost(link)
        # While a process of this neighbor is connected, no other one with its key speaks for it.
        if self.session.phase == "agreeing" and not known and not link.connected:
            link.refusal = reason
            self.membership.drop(link, Cause.MISMATCH, reason)

    def on_farewell(self, link: Link, bye: Bye) -> None:
        """Drop a neighbor that connects only to say why it does not take part, or stop with it."""
        if self.session.phase != "agreeing" or link.connected:
            return
        link.heard_at = self.session.loop.time()
        if bye.why == "stops":
            self._stop_with(link, bye)
        else:
            self.on_mismatch(link, sanitize(bye.reason))

    def on_disconnect(self, link: Link, reason: str) -> None:
        """Handle the end of a connection; the neighbor has `timeout` seconds to reconnect."""
        link.detach()
        leaves = self._closing or not reason
        if link.active and link.phase != "done" and not leaves:
            broke = f"The connection to {link.name} broke: {link.refusal or reason}."
            self.session.log(LogEvent("disconnected", broke, peer=link.name))
        self.session.wake()

    # Messages

    def _receive_message(self, link: Link, frame: Frame) -> None:
        data = frame.message
        if frame.kind is Kind.HEARTBEAT:
            heartbeat = messages.unpack(data, Heartbeat)
            link.phase = heartbeat.phase
            self.membership.sync_phase(link)
            self.session.wake()
        elif frame.kind is Kind.STATEMENT:
            self.flooding.receive(messages.unpack(data, Statement), link)
        elif frame.kind is Kind.EVIDENCE:
            self.flooding.receive_evidence(messages.unpack(data, Evidence), link)
        elif frame.kind is Kind.LINK_UP:
            self.membership.on_link_up(link, messages.unpack(data, LinkUp))
        elif frame.kind is Kind.STATE_REQUEST:
            messages.unpack(data, StateRequest)
            self.state_transfer.answer(link)
        elif frame.kind is Kind.STATE_REPLY:
            self.state_transfer.receive(link, messages.unpack(data, StateReply))
        elif frame.kind is Kind.BYE:
            self._receive_bye(link, messages.unpack(data, Bye))
        else:
            raise WireError("A connection must send HELLO and PROOF only once.")

    def _receive_bye(self, link: Link, bye: Bye) -> None:
        session, reason = self.session, sanitize(bye.reason)
        if bye.why == "done":
            link.phase = "done"
        elif bye.why == "stops" and not session.has_result:
            self._stop_with(link, bye)
        elif bye.why == "refuses":
            link.refusal = f"it refused this peer: {reason}"
            refused = f"refused this peer: {reason.removesuffix('.')}"
            self._connections.refusals.note_neighbor(link.name, refused)
        elif bye.why == "leaves":
            link.refusal = f"it left ({reason})"
        # In the set-up, a neighbor that leaves may soon return.
        final = {"agreeing": ("fails",), "running": ("leaves", "fails", "refuses"), "done": ()}
        if link.active and bye.why in final[session.phase]:
            # A refusal is about this peer, not about the neighbor.
            reason = link.refusal if bye.why == "refuses" else reason
            self.membership.drop(link, Cause.LEFT, reason or "it left")
        session.wake()

    def _stop_with(self, link: Link, bye: Bye) -> None:
        """Stop, as a neighbor does, and tell the others."""
        reason = sanitize(bye.reason)
        # Nobody signed the reason, so they are told who gave it.
        told = sanitize(f"{link.name} says: {reason}")
        self.session.broadcast(Kind.BYE, Bye("stops", told), but=link)
        self.session.interrupt(Stopping(f"{link.name} stopped the run: {reason}"))
