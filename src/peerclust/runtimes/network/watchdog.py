"""Notices neighbors that are silent, make no progress or never come."""

from __future__ import annotations

import asyncio

from peerclust.runtimes.network.gossip import Gossip
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.lockstep import Lockstep
from peerclust.runtimes.network.membership import Membership
from peerclust.runtimes.network.messages import Heartbeat
from peerclust.runtimes.network.session import Session
from peerclust.runtimes.network.states import Cause, LinkState
from peerclust.runtimes.network.view_exchange import ViewExchange
from peerclust.runtimes.network.waits import WaitsFor
from peerclust.runtimes.network.wire import Kind


class Watchdog:
    """Sends heartbeats, and drops neighbors of which too little is heard."""

    def __init__(
        self,
        session: Session,
        membership: Membership,
        exchange: ViewExchange,
        lockstep: Lockstep,
        waits: WaitsFor,
        gossip: Gossip,
    ) -> None:
        self._session, self._membership, self._gossip = session, membership, gossip
        self._exchange, self._lockstep, self._waits = exchange, lockstep, waits
        self._began = self._checked = session.loop.time()

    async def watch(self) -> None:
        """Check all links now and then."""
        session = self._session
        while True:
            self.check_links(session.loop.time())
            await asyncio.sleep(min(1.0, session.contract.timeout / 8))

    def check_links(self, now: float) -> None:
        """Send heartbeats, and drop neighbors that are silent at this time of the loop."""
        links = self._session.links.values()
        if now - self._checked > self._session.contract.timeout / 2:
            # This process was suspended, so that silence is not the neighbors' fault.
            self._began += now - self._checked
            for link in links:
                link.heard_at = link.progress_at = now if link.seen else 0.0
        self._checked = now
        self._waits.state(now)
        for link in links:
            self.check(link, now)

    def check(self, link: Link, now: float) -> None:
        """Send a heartbeat, or drop a neighbor that is silent."""
        if link.connected:
            self._check_connection(link, now)
        ended = link.phase == "done" and self._session.phase != "agreeing"
        if link.state is LinkState.ACTIVE and not ended:
            self._check_progress(link, now)

    def _check_connection(self, link: Link, now: float) -> None:
        """Send a heartbeat if it is due, and end a connection on which nothing comes."""
        session, timeout = self._session, self._session.contract.timeout
        assert link.connection is not None
        if now - link.heard_at > timeout:
            link.connection.abort(f"it was silent for {timeout:g} s")
        elif link.awaits_offer and now - link.offered_at > timeout:
            self._membership.drop(link, Cause.MUTE)
        elif self._is_unknown(link, now):
            silent = "it has connected, but its process stated nothing"
            self._membership.drop(link, Cause.SILENT, silent)
        elif self._has_other_views(link, now):
            reason = "it takes part in agreements with other views than those stated"
            self._membership.drop(link, Cause.OTHER_VIEWS, reason)
        elif now - link.sent_at > timeout / 4:
            session.send(link, Kind.HEARTBEAT, Heartbeat(session.phase))

    def _check_progress(self, link: Link, now: float) -> None:
        """Drop an active neighbor that was not connected, or made no progress, for too long."""
        session, contract = self._session, self._session.contract
        if not link.connected:
            begun = link.seen and (session.at > 0 or session.phase != "agreeing")
            limit = contract.timeout if begun else contract.join_timeout
            since = link.heard_at if begun else max(self._began, link.heard_at)
            if now - since <= limit:
                return
            if link.seen:
                silent = f"nothing was heard from it for {limit:g} s"
                silent = f"{silent} ({link.refusal})" if link.refusal else silent
                self._membership.drop(link, Cause.SILENT, silent)
            else:
                never = link.refusal or f"it did not connect within {limit:g} s"
                self._membership.drop(link, Cause.ABSENT, never)
        elif link.number in self._lockstep.missing and self._lockstep.awaited is not None:
            # It is alive but makes no progress.
            limit = contract.patience
            since = max(link.progress_at, self._lockstep.awaited_since)
            others = self._waits.count_awaited(link, now)
            if others and now - since <= limit * (1 + others):
                link.excused_at = now
            link.stalled = now - max(since, link.excused_at)
            if link.stalled > limit:
                stuck = f"it was alive but made no progress for {limit:g} s"
                self._membership.drop(link, Cause.STUCK, stuck)
        else:
            link.stalled = 0.0

    def _is_unknown(self, link: Link, now: float) -> bool:
        """Return whether all wait for a process which has stated nothing since it connected.

        One that serves the result of a run never does, and has more time to send it.
        """
        contract = self._session.contract
        limit = contract.join_timeout if link.phase == "done" else contract.timeout
        late = link.state is LinkState.ACTIVE and now - link.seen_at > limit
        return (
            late and self._session.phase == "agreeing" and link.number not in self._gossip.processes
        )

    def _has_other_views(self, link: Link, now: float) -> bool:
        """Return whether a neighbor is in an agreement with views that nobody has stated.

        Views spread within moments, so honest neighbors send no frame with others long after a
        change. One that has sent nothing since may be computing.
        """
        agreement, exchange = self._session.agreement, self._exchange
        if agreement is None or link.number not in self._lockstep.missing:
            return False
        timeout, (view, received_at) = self._session.contract.timeout, link.agreement_view
        same = view in (exchange.views.checksum, agreement.view)
        return not same and exchange.changed_at + timeout < received_at < now - timeout
