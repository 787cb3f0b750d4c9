"""One peer's side of the network: it listens and dials, keeps watch and takes messages in.

Everything happens in one event loop, which turns while an exchange is awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from peerclust.errors import WireError
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.connections import Switchboard
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.membership import Membership, Stopping, Welcomed
from peerclust.runtimes.network.messages import Alive, Bye, Lost, Need, Up, View, Welcome
from peerclust.runtimes.network.views import MOST_VIEWS, living_part
from peerclust.runtimes.network.wire import Frame, Kind

# A peer's view is news so many times at most between two that are heard.
_MOST_NEWS = 1 << 20

# So many processes of a peer, on average, may have been started again while peers agree.
_MOST_RESTARTS = 16


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
        super().__init__(contract, me, log)
        # Gives what a peer that comes late, or comes back, is told.
        self.welcome: Callable[[], Welcome] | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._began = self._looked = self.loop.time()
        d, K, m = len(contract.features), contract.n_clusters, len(contract.peers)
        self._board = Switchboard(
            contract,
            self.links,
            identity,
            self,
            listen=listen or contract.peers[self.number].endpoint,
            dial=dial or {},
            # Settings, centers, what was agreed, and everyone's views with a reason each.
            limit=(1 << 16)
            + len(contract.told)
            + 9 * K * (d + 4)
            + 64 * d
            + MOST_VIEWS * m * (1200 + 6 * m),
            log=log,
        )

    def open(self) -> None:
        """Listen, dial, and keep watch over the links."""
        self.loop.run_until_complete(self._board.open())
        self._ticker = self.loop.create_task(self._watch())

    def close(self, why: Literal["leaves", "stops", "done"], reason: str) -> None:
        """Say goodbye and end all connections."""
        self.broadcast(Kind.BYE, Bye(why, messages.tame(reason)))
        if self._ticker is not None:
            self._ticker.cancel()
        self.loop.run_until_complete(self._board.close())
        self.loop.close()

    async def _watch(self) -> None:
        """Say now and then that this peer is alive, and count out who has been silent."""
        pause = min(1.0, self.contract.timeout / 8)
        while True:
            now = self.loop.time()
            if now - self._looked > self.contract.timeout / 2:
                # This process itself was held up: its neighbors have not been heard, not silent.
                self._began += now - self._looked
                for link in self.links.values():
                    link.heard_at = link.moved = now if link.ever else 0.0
            self._looked = now
            for link in self.links.values():
                self._look_at(link, now)
            await asyncio.sleep(pause)

    def _look_at(self, link: Link, now: float) -> None:
        contract = self.contract
        if link.connected and now - link.heard_at > contract.timeout:
            assert link.connection is not None
            link.connection.abort(f"it was silent for {contract.timeout:g} s")
        elif link.connected and link.up_sent is not None and now - link.up_at > contract.timeout:
            self.ban(link, "it did not tell from which round on it counts")
        elif link.connected and now - link.sent_at > contract.timeout / 4:
            self.send(link, Kind.ALIVE, Alive(self.phase, link.counted))
        if not link.counted or link.left or (link.phase == "done" and self.phase != "agreeing"):
            return
        if not link.connected:
            begun = link.ever and (self.at > 0 or self.phase != "agreeing")
            patience = contract.timeout if begun else contract.join_timeout
            since = link.heard_at if begun else max(self._began, link.heard_at)
            if now - since > patience:
                silent = f"nothing was heard of it for {patience:g} s"
                never = link.refusal or f"it did not come within {patience:g} s"
                self.lose(link, silent if link.ever else never)
        elif link.number in self._wanting and self._awaited is not None:
            # Alive, but does not get on: it waits for others, who must be given up in turn.
            patience = contract.join_timeout + contract.timeout * (2 + len(contract.peers))
            if now - link.moved > patience:
                self.lose(link, f"it was alive but made no progress for {patience:g} s")

    # Frames in

    def received(self, link: Link, frame: Frame) -> None:
        """Take in a frame of a neighbor."""
        link.heard_at = self.loop.time()
        if (frame.run, frame.exchange) != (link.run, link.at):
            link.run, link.at, link.moved = frame.run, frame.exchange, link.heard_at
        if frame.network != self.network:
            self.ban(link, "its frames must be of this network")
        elif frame.kind in wire.ARRAYS:
            self.receive_array(link, frame)
        else:
            try:
                self._receive_message(link, frame)
            except WireError as error:
                self.ban(link, str(error))

    def _receive_message(self, link: Link, frame: Frame) -> None:
        data = frame.payload
        if frame.kind is Kind.ALIVE:
            alive = messages.unpack(data, Alive)
            link.phase, link.counts_me = alive.phase, alive.counts
            self.match(link)
            self.wake()
        elif frame.kind is Kind.LOST:
            self._hear_lost(messages.unpack(data, Lost))
        elif frame.kind is Kind.UP:
            self._hear_up(link, messages.unpack(data, Up))
        elif frame.kind is Kind.NEED:
            messages.unpack(data, Need)
            wanted = self.phase == "done" or not link.counted
            if self.welcome is not None and wanted and not link.welcomed:
                link.welcomed = True
                self.send(link, Kind.WELCOME, self.welcome())
        elif frame.kind is Kind.WELCOME:
            welcome = messages.unpack(data, Welcome)
            self._check_welcome(welcome)
            alone = self.phase == "running" and not self.counted()
            if link.asked and (self.phase == "agreeing" or (alone and welcome.done)):
                self.interrupt(Welcomed(welcome, link))
        elif frame.kind is Kind.VIEW:
            view = messages.unpack(data, View)
            self._check_view(view)
            if view.peer == link.number and view.ended is not None:
                link.phase = "done"
            if self.phase == "agreeing":
                self.keep_view(frame.run, view)
            elif frame.run == self.run:
                self.hear_view(view, link)
            self.wake()
        elif frame.kind is Kind.BYE:
            self._hear_bye(link, messages.unpack(data, Bye))
        else:
            raise WireError("A connection must say hello only once.")

    def _hear_lost(self, lost: Lost) -> None:
        m = self.contract.graph.m
        links = {(min(pair), max(pair)) for pair in lost.links}
        if any(not (i < j < m and j in self.contract.graph.neighbors(i)) for i, j in links):
            raise WireError("A message of kind Lost must name links of the network.")
        if len(self.restarted | set(lost.restarted)) > _MOST_RESTARTS * m:
            raise WireError("A message of kind Lost must not tell of more and more processes.")
        news = links - self.lost, set(lost.restarted) - self.restarted
        if self.phase == "agreeing" and (news[0] or news[1]):
            self.lost |= links
            self.restarted |= set(lost.restarted)
            self.start_again()

    def _hear_up(self, link: Link, up: Up) -> None:
        if up.round > self.contract.rounds:
            raise WireError("A message of kind Up must tell a round that there is.")
        if self.phase != "running":
            return
        if link.counted:
            self.count_out(link, "it had counted this peer out")
        link.phase, link.up_heard = "running", up.round
        self.offer(link)
        self.wake()

    def _hear_bye(self, link: Link, bye: Bye) -> None:
        reason = messages.tame(bye.reason)
        if bye.why == "done":
            link.phase = "done"
        elif bye.why == "stops" and self.phase != "done" and not self.over:
            self.broadcast(Kind.BYE, bye, but=link)
            self.interrupt(Stopping(f"{link.name} stopped the run: {reason}"))
        elif bye.why == "refuses":
            link.refusal = f"it refused this peer: {reason}"
            self.log(f"{link.name} refused this peer: {reason}.")
        if link.counted and self.phase == "running" and bye.why in ("leaves", "refuses"):
            self.lose(link, reason or "it left")
        self.wake()

    def _check_view(self, view: View) -> None:
        m = self.contract.graph.m
        if view.peer >= m or any(i >= m for i in view.counts):
            raise WireError("A message of kind View must name peers of the network.")
        near = self.contract.graph.neighbors(view.peer).tolist()
        if not set(view.counts) <= set(near):
            raise WireError("A message of kind View must count neighbors only.")
        if view.seq > self.views[view.peer].seq + _MOST_NEWS:
            raise WireError("A message of kind View must not be far ahead of those before it.")
        told = (view.ended.residual, view.ended.apart) if view.ended else ()
        if not np.isfinite(told).all() or view.round > self.contract.rounds + 1:
            raise WireError("A message of kind View must tell finite numbers and rounds that are.")

    def _check_welcome(self, welcome: Welcome) -> None:
        d, K = len(self.contract.features), self.contract.n_clusters
        agreed = welcome.agreed
        for values in (agreed.mean, agreed.deviation, agreed.low, agreed.high):
            if len(values) != d or not np.isfinite(values).all():
                raise WireError(f"A message of kind Welcome must have {d} finite numbers each.")
        scalars = (agreed.spread, agreed.weight, agreed.W, agreed.rho, agreed.alpha, agreed.penalty)
        if not all(np.isfinite(value) and value > 0 for value in scalars):
            raise WireError("A message of kind Welcome must have positive finite numbers.")
        if min(agreed.deviation) <= 0 or len(welcome.centers) != 8 * K * d:
            raise WireError("A message of kind Welcome must have deviations above 0 and centers.")
        if not np.isfinite(np.frombuffer(welcome.centers, "<f8")).all():
            raise WireError("A message of kind Welcome must have finite centers.")
        m, graph = self.contract.graph.m, self.contract.graph
        known = all(i < m for i in agreed.members) and all(
            max(pair) < m and pair[1] in graph.neighbors(pair[0]) for pair in agreed.lost
        )
        if not known:
            raise WireError("A message of kind Welcome must name peers and links of the network.")
        members = agreed.members
        if not members or living_part(graph, agreed.lost, members[0]) != tuple(members):
            raise WireError("A message of kind Welcome must name members that reach each other.")
        if welcome.round > self.contract.rounds:
            raise WireError("A message of kind Welcome must tell a round that there is.")
        for view in welcome.views:
            self._check_view(view)
