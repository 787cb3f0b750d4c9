"""One peer on the network: its connections, a watchdog for silent neighbors, and its messages.

Everything happens in one event loop, which runs while an exchange is awaited.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from peerclust.errors import WireError
from peerclust.log_events import LogEvent
from peerclust.runtimes.network import identity as identities, messages, wire
from peerclust.runtimes.network.connections import ConnectionManager
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.membership import (
    MAX_SPANS,
    Leaving,
    Membership,
    StateReceived,
    Stopping,
)
from peerclust.runtimes.network.messages import (
    Bye,
    Evidence,
    Heartbeat,
    LinkUp,
    Statement,
    StateReply,
    StateRequest,
)
from peerclust.runtimes.network.record import check_signed, digest, is_majority
from peerclust.runtimes.network.state_validation import refuse_state
from peerclust.runtimes.network.statements import Author, run_id
from peerclust.runtimes.network.wire import Frame, Kind

# Seconds that a process which was asked to exit waits for a call in a thread.
_GRACE = 0.5

T = TypeVar("T")


# A request for the state of the run is answered at most once in so many seconds.
_MIN_WAIT = 0.2


class Node(Membership):
    """A peer that is on the network."""

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
        super().__init__(contract, me, author, log)
        # Makes the answer to StateRequest.
        self.state_reply: Callable[[], StateReply] | None = None
        self._ticker: asyncio.Task[None] | None = None
        # Whether calls in threads are abandoned, and what cancels the wait for the current one.
        self._abandons = False
        self._abandon: Callable[[], object] = lambda: None
        self._began = self._checked = self.loop.time()
        d, K, m = len(contract.features), contract.n_clusters, len(contract.peers)
        self._connections = ConnectionManager(
            contract,
            self.links,
            identity,
            self,
            listen=listen or contract.peers[self.number].endpoint,
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
        awaited = ", ".join(self.links)
        self.log(LogEvent("waiting", f"Waiting for {awaited}.", peers=list(self.links)))
        self._state_losses()
        self.loop.run_until_complete(self._connections.open())
        self._ticker = self.loop.create_task(self._watch())

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Return the result of a call in a thread, while the event loop goes on.

        A process that was asked to exit does not wait for it long: compiling takes seconds. The
        thread runs on until the process ends.
        """
        if self._abandons:
            raise Leaving
        future = self.loop.run_in_executor(None, call)
        self._abandon = future.cancel
        try:
            return await future
        except asyncio.CancelledError:
            raise Leaving from None

    def leave(self) -> None:
        """Raise Leaving from the current wait, and soon from a call in a thread."""
        self.interrupt(Leaving())
        self.loop.call_later(_GRACE, self._abandon_calls)

    def _abandon_calls(self) -> None:
        self._abandons = True
        self._abandon()

    def close(self, why: Literal["leaves", "stops", "done"], reason: str) -> None:
        """Send BYE and close all connections."""
        self.broadcast(Kind.BYE, Bye(why, messages.sanitize(reason)))
        if self._ticker is not None:
            self._ticker.cancel()
        self.loop.run_until_complete(self._connections.close())
        self.loop.close()

    async def _watch(self) -> None:
        """Send heartbeats, and drop neighbors that are silent."""
        pause = min(1.0, self.contract.timeout / 8)
        while True:
            now = self.loop.time()
            if now - self._checked > self.contract.timeout / 2:
                # This process was suspended, so that silence is not the neighbors' fault.
                self._began += now - self._checked
                for link in self.links.values():
                    link.heard_at = link.progress_at = now if link.seen else 0.0
            self._checked = now
            self.state_waits(now)
            for link in self.links.values():
                self._check_link(link, now)
            await asyncio.sleep(pause)

    def _check_link(self, link: Link, now: float) -> None:
        contract = self.contract
        if link.connected and now - link.heard_at > contract.timeout:
            assert link.connection is not None
            link.connection.abort(f"it was silent for {contract.timeout:g} s")
        elif (
            link.connected
            and link.rejoin_sent is not None
            and now - link.rejoin_sent_at > contract.timeout
        ):
            self.ban(link, "it did not answer LINK_UP")
        elif self._has_other_views(link, now):
            self.ban(link, "it takes part in agreements with other views than those stated")
        elif link.connected and now - link.sent_at > contract.timeout / 4:
            self.send(link, Kind.HEARTBEAT, Heartbeat(self.phase, link.active))
        if not link.active or link.gone or (link.phase == "done" and self.phase != "agreeing"):
            return
        if not link.connected:
            begun = link.seen and (self.at > 0 or self.phase != "agreeing")
            limit = contract.timeout if begun else contract.join_timeout
            since = link.heard_at if begun else max(self._began, link.heard_at)
            if now - since > limit:
                silent = f"nothing was heard from it for {limit:g} s"
                never = link.refusal or f"it did not connect within {limit:g} s"
                self.on_loss(link, silent if link.seen else never)
        elif link.number in self._missing and self._awaited is not None:
            # It is alive but makes no progress.
            limit = contract.patience
            if self.is_excused(link, now):
                link.progress_at = now
            elif now - max(link.progress_at, self._awaited_since) > limit:
                self.on_loss(link, f"it was alive but made no progress for {limit:g} s")

    def _has_other_views(self, link: Link, now: float) -> bool:
        """Return whether a neighbor is in an agreement with views that nobody has stated.

        Views spread within moments, so honest neighbors send no frame with others long after a
        change. One that has sent nothing since may be computing.
        """
        if self.agreement is None or link.number not in self._missing:
            return False
        timeout, (view, received_at) = self.contract.timeout, link.agreement_view
        same = view in (self.views.checksum, self.agreement.view)
        return not same and self.views_changed_at + timeout < received_at < now - timeout

    # Received frames

    def on_frame(self, link: Link, frame: Frame) -> None:
        """Handle a frame from a neighbor."""
        link.heard_at = self.loop.time()
        if (frame.run, frame.exchange) != (link.run, link.at):
            link.run, link.at, link.progress_at = frame.run, frame.exchange, link.heard_at
        if frame.network != self.network:
            self.ban(link, "its frames must be of this network")
        elif frame.kind in wire.ARRAYS:
            self.receive_array(link, frame)
            if frame.kind is Kind.AGREE:
                self.follow_neighbors()
        else:
            try:
                self._receive_message(link, frame)
            except WireError as error:
                self.ban(link, str(error))

    def _receive_message(self, link: Link, frame: Frame) -> None:
        data = frame.message
        if frame.kind is Kind.HEARTBEAT:
            heartbeat = messages.unpack(data, Heartbeat)
            link.phase, link.counts_me = heartbeat.phase, heartbeat.counts
            self.sync_phase(link)
            self.wake()
        elif frame.kind is Kind.STATEMENT:
            self.receive_statement(messages.unpack(data, Statement), link)
        elif frame.kind is Kind.EVIDENCE:
            self.receive_evidence(messages.unpack(data, Evidence), link)
        elif frame.kind is Kind.LINK_UP:
            self._receive_link_up(link, messages.unpack(data, LinkUp))
        elif frame.kind is Kind.STATE_REQUEST:
            messages.unpack(data, StateRequest)
            wanted = self.phase == "done" or not link.active
            now = self.loop.time()
            if self.state_reply is not None and wanted and now > link.state_sent_at + _MIN_WAIT:
                link.state_sent_at = now
                self.send(link, Kind.STATE_REPLY, self.state_reply())
        elif frame.kind is Kind.STATE_REPLY:
            reply = messages.unpack(data, StateReply)
            must = refuse_state(self.contract, reply.agreed, reply.round, reply.centers)
            if must:
                raise WireError(f"A message of kind StateReply must {must}.")
            alone = self.phase == "running" and not self.active_links()
            done = reply.record is not None
            if not (link.state_requested and (self.phase == "agreeing" or (alone and done))):
                return
            if self._is_confirmed(reply):
                self.interrupt(StateReceived(reply, link))
            else:
                # Signatures may still be on their way.
                self.loop.call_later(2 * _MIN_WAIT, self._request_again, link)
        elif frame.kind is Kind.BYE:
            self._receive_bye(link, messages.unpack(data, Bye))
        else:
            raise WireError("A connection must send HELLO and PROOF only once.")

    def _is_confirmed(self, reply: StateReply) -> bool:
        """Return whether more than half of all peers have signed what a neighbor says of the run.

        That is the record if the run is over, else what its members have agreed on.
        """
        m = len(self.contract.peers)
        if reply.record is not None:
            check_signed(reply.record, self.contract, self.gossip.verifier)
            signed = filter(self.gossip.is_valid, reply.record.signatures)
            return is_majority(len({statement.origin.peer for statement in signed}), m)
        run = run_id(self.contract, reply.agreed)
        return is_majority(len(self.gossip.who_stated("agreed", run, digest(reply.agreed))), m)

    def _request_again(self, link: Link) -> None:
        link.state_requested = False
        self.sync_phase(link)

    def _receive_link_up(self, link: Link, up: LinkUp) -> None:
        if up.round > self.contract.max_round:
            raise WireError("A message of kind LinkUp must have a round of the run.")
        if self.phase != "running":
            return
        if link.active:
            self.deactivate(link, "it had dropped this peer")
        link.phase, link.rejoin_received = "running", up.round
        self.offer_rejoin(link)
        self.wake()

    def _receive_bye(self, link: Link, bye: Bye) -> None:
        reason = messages.sanitize(bye.reason)
        if bye.why == "done":
            link.phase = "done"
        elif bye.why == "stops" and self.phase != "done":
            self.broadcast(Kind.BYE, bye, but=link)
            self.interrupt(Stopping(f"{link.name} stopped the run: {reason}"))
        elif bye.why == "refuses":
            link.refusal = f"it refused this peer: {reason}"
            refused = f"{link.name} refused this peer: {reason.removesuffix('.')}."
            self.log(LogEvent("refused", refused, peer=link.name))
        if link.active and self.phase == "running" and bye.why in ("leaves", "refuses"):
            self.on_loss(link, reason or "it left")
        self.wake()
