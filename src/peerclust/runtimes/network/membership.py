"""Which neighbors of a peer are active, which are lost and which rejoin.

- After a broken connection, the neighbors reconnect and repeat frames that may have been lost. A
  neighbor is dropped only if this takes too long.
- During the set-up (`phase` "agreeing"), a lost link makes all peers restart the set-up without
  it. The sets of lost links only grow and are forwarded, so all peers end with the same set.
- During the run, each peer publishes its active neighbors (`views`). A restored link becomes active
  after the later of its two ends' rounds; neither end passes its own round before it knows which.
- An agreement of a run (`lockstep`) begins again if the view of a member changes. A barrier ends
  it: a peer that has passed it knows that all others have the result, too, so that none begins
  again. A neighbor that is lost at the barrier is therefore dropped only after it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.lockstep import Agreement, Interrupt, LockstepExchange
from peerclust.runtimes.network.messages import (
    Bye,
    Ended,
    Heartbeat,
    Hello,
    LinkDown,
    LinkUp,
    StateReply,
    StateRequest,
    View,
    sanitize,
)
from peerclust.runtimes.network.transport import Connection
from peerclust.runtimes.network.views import MAX_VIEWS, MembershipViews, Pair
from peerclust.runtimes.network.wire import Frame, Kind


class RestartSetup(Interrupt):
    """The set-up restarts on the graph of the remaining links."""


class ViewChanged(Interrupt):
    """The agreement begins again, as the peers that take part have changed."""


class StateReceived(Interrupt):
    """The run has started, or is over, and a neighbor has sent its state."""

    urgency = 1

    def __init__(self, reply: StateReply, link: Link) -> None:
        self.reply, self.link = reply, link


class Leaving(Interrupt):
    """The process was asked to exit."""

    urgency = 2


class Stopping(Interrupt):
    """A peer was lost or never connected, and the network file says that all stop then."""

    urgency = 2


class Membership(LockstepExchange):
    """The neighbors of one peer as they connect, are lost and rejoin."""

    def __init__(self, contract: Contract, me: str, log: Callable[[str], None]) -> None:
        super().__init__(contract, me)
        self.log = log
        self.instance = secrets.token_hex(8)
        # Links that the set-up excludes, and those lost after its end, which are excluded only if
        # it restarts.
        self.lost: set[Pair] = set()
        self.lost_late: set[Pair] = set()
        self.restarted: set[str] = set()
        # Whether this peer has reached the barrier at the end of the set-up.
        self.setup_done = False
        self.views = MembershipViews(contract.graph, range(len(contract.peers)), ())
        # Views of a run that neighbors have started, until this peer starts it.
        self._early: list[tuple[bytes, View]] = []
        # Events with their rounds, for the result.
        self.events: list[tuple[int, str]] = []

    @property
    def round(self) -> int:
        """The current round of this peer."""
        return self.at // self.contract.B * (self.phase != "agreeing")

    def start_setup(self, run: bytes, members: tuple[int, ...]) -> None:
        """Start a set-up among these members, at its first exchange."""
        self.run, self.at, self.setup_done = run, 0, False
        for link in self.links.values():
            link.active = link.number in members and self._pair(link) not in self.lost
            link.outbox.clear()
            self.sync_phase(link)

    def start_run(self, run: bytes, views: MembershipViews, round_: int) -> None:
        """Start the run at a round, with the active links of these views."""
        self.phase, self.run, self.at, self.views = "running", run, round_ * self.contract.B, views
        self.agreement, self.agreed = None, 0
        self.cancel_interrupt(RestartSetup)
        if isinstance(self._interrupt, StateReceived) and not self._interrupt.reply.done:
            self._interrupt = None  # from a second neighbor; this peer is in the run already
        mine = views[self.number].counts
        for link in self.links.values():
            link.active = link.active and link.number in mine
            link.active_from = 0
            link.state_requested = False
            link.refusal = ""
        self.publish_view()
        self.broadcast_heartbeat()
        for view in [view for of_run, view in self._early if of_run == run]:
            self.receive_view(view)

    def begin_agreement(self) -> tuple[int, ...]:
        """Begin the next agreement, in the present views; return the peers that take part."""
        self.cancel_interrupt(ViewChanged)
        self.drop_gone()
        # A neighbor may be ahead of a peer that has joined late.
        self.agreed = max([self.agreed, *(link.agreement - 1 for link in self.links.values())])
        members, near = self.views.component(self.number), self.views.mutual(self.number)
        self.agreement = Agreement(
            self.agreed + 1, self.views.checksum, frozenset(members), frozenset(near)
        )
        return members

    def end_agreement(self) -> None:
        """Return to the rounds."""
        assert self.agreement is not None
        self.agreed, self.agreement = self.agreement.number, None
        self.cancel_interrupt(ViewChanged)
        for link in self.links.values():
            link.end_agreement(self.agreed)

    def drop_gone(self) -> None:
        """Continue without the neighbors that were lost at the end of an agreement."""
        self.agreement = None
        for link in self.links.values():
            if link.gone:
                link.gone = False
                self.deactivate(link, "it was lost after an agreement")

    def broadcast_heartbeat(self) -> None:
        """Send this peer's phase to every neighbor, and act on theirs."""
        for link in self.links.values():
            self.send(link, Kind.HEARTBEAT, Heartbeat(self.phase, link.active))
            self.sync_phase(link)

    # Connecting

    def hello(self, link: Link) -> bytes:
        """Return the HELLO frame for a neighbor."""
        settings = self.contract.settings_json
        hello = Hello(self.name, self.instance, link.instance, self.phase, link.active, settings)
        return self.make_frame(Kind.HELLO, hello)

    def on_hello(self, link: Link, connection: Connection, hello: Hello, frame: Frame) -> str:
        """Accept a neighbor that sent HELLO, or return the reason for refusing it."""
        if link.banned:
            return f"it was dropped from this run: {link.banned}"
        if link.instance and hello.instance != link.instance:
            if link.connected:
                return f"{link.name} is running already"
            self._on_restart(link)
        resumed = hello.instance == link.instance and hello.knows == self.instance
        link.attach(connection, self.loop.time())
        link.instance, link.phase, link.counts_me = hello.instance, hello.phase, hello.counts
        link.run, link.at = frame.run, frame.exchange
        if self.phase == "agreeing" and (self.lost or self.restarted):
            self.send(link, Kind.LINK_DOWN, LinkDown(sorted(self.lost), sorted(self.restarted)))
        if self.phase == "running" and link.active and not (resumed and hello.counts):
            self.deactivate(link, "it had dropped this peer")
        if link.active and not isinstance(self._interrupt, RestartSetup):
            # A set-up that restarts needs no more frames.
            for data in link.outbox:
                self.send_frame(link, data)
            self._send_views(link)
        self.sync_phase(link)
        self.wake()
        return ""

    def sync_phase(self, link: Link) -> None:
        """Act on the phases of both ends: offer to rejoin, or request the state of the run."""
        if not link.connected or (link.active and self.phase == "running"):
            return
        if self.phase == "agreeing" and link.phase == "done":
            self.request_state(link)
        elif self.phase == "agreeing" and link.phase == "running" and not link.counts_me:
            # At the barrier of the set-up, a running neighbor is only a few exchanges ahead.
            if not self.setup_done:
                self.request_state(link)
        elif self.phase == "running" and link.phase == "running":
            if link.run == self.run:
                self.offer_rejoin(link)
            else:
                self.ban(link, "it is in another run, which started without this one's peers")

    def request_state(self, link: Link) -> None:
        """Request the state of the run from a neighbor, once per connection."""
        if link.connected and not link.state_requested:
            link.state_requested = True
            self.send(link, Kind.STATE_REQUEST, StateRequest())

    def offer_rejoin(self, link: Link) -> None:
        """Send the round after which the link may be active; it is once both ends have sent one."""
        if self.phase != "running" or link.active:
            return
        if link.rejoin_sent is None:
            link.rejoin_sent, link.rejoin_sent_at = self.round, self.loop.time()
            self.send(link, Kind.LINK_UP, LinkUp(self.round))
        if link.rejoin_received is not None:
            link.active_from = max(link.rejoin_sent, link.rejoin_received) + 1
            link.rejoin_sent = link.rejoin_received = None
            link.active = True
            self._record_event(
                link.active_from, f"{link.name} rejoins from round {link.active_from} on"
            )
            self._send_views(link)
            self.publish_view(round_=link.active_from)

    # Losses

    def on_disconnect(self, link: Link, reason: str) -> None:
        """Handle the end of a connection; the neighbor has `timeout` seconds to reconnect."""
        link.detach()
        if link.active and link.phase != "done":
            self.log(f"The connection to {link.name} broke: {reason or 'it was closed here'}.")
        self.wake()

    def ban(self, link: Link, reason: str) -> None:
        """Drop a neighbor that violates the protocol, for the rest of the run."""
        link.banned = reason
        if link.active or self.phase == "agreeing":
            self.on_loss(link, reason)
        else:
            self._record_event(self.round, f"{link.name} is refused: {reason}")
        if link.connection is not None:
            self.send(link, Kind.BYE, Bye("refuses", sanitize(reason)))
            link.connection.close(reason, refused=True)

    def on_loss(self, link: Link, reason: str) -> None:
        """Drop a neighbor, and close its connection so that it drops this peer, too."""
        if self.phase == "agreeing":
            self._record_event(0, f"{link.name} does not take part: {reason}")
            link.reset()
            (self.lost_late if self.setup_done else self.lost).add(self._pair(link))
            if (self.contract.on_loss if link.seen else self.contract.on_absent) == "stop":
                absent = (o for o in self.links.values() if o.active and not (o.seen or o.refusal))
                names = [other.name for other in absent]
                also = f" Nor did {' or '.join(names)} connect." if names else ""
                self.interrupt(Stopping(f"{link.name} does not take part: {reason}.{also}"))
            elif not self.setup_done:
                self.restart_setup()
        else:
            self.deactivate(link, reason)
        if link.connection is not None and not link.banned:
            link.connection.close(reason)
        self.wake()

    def deactivate(self, link: Link, reason: str) -> None:
        """Continue without a neighbor, or stop if the network file says so."""
        if self.agreement is not None and self.agreement.complete:
            link.gone = True
            self._record_event(self.round, f"{link.name} was lost after an agreement: {reason}")
            return
        link.reset()
        self._record_event(self.round, f"{link.name} was lost in round {self.round}: {reason}")
        self.publish_view(f"lost {link.name}: {reason}")
        if self.contract.on_loss == "stop" and self.phase == "running":
            why = f"{link.name} was lost in round {self.round} ({reason}), and the network file"
            self.interrupt(Stopping(f'{why} says on_loss = "stop".'))

    def _on_restart(self, link: Link) -> None:
        """Handle a neighbor whose process was restarted."""
        if self.phase == "agreeing":
            # If others have reported it, this set-up already includes the new process.
            if link.instance not in self.restarted:
                self.restarted.add(link.instance)
                self.restart_setup()
        elif link.active:
            self.deactivate(link, "its process was restarted")

    def restart_setup(self) -> None:
        """Restart the set-up without the lost links, and notify all neighbors."""
        self.lost |= self.lost_late
        self.broadcast(Kind.LINK_DOWN, LinkDown(sorted(self.lost), sorted(self.restarted)))
        self.interrupt(RestartSetup())

    def _pair(self, link: Link) -> tuple[int, int]:
        return min(self.number, link.number), max(self.number, link.number)

    def _record_event(self, round_: int, what: str) -> None:
        self.events.append((round_, what))
        self.log(f"{what}.")

    # Views

    def _send_views(self, link: Link) -> None:
        """Send a neighbor the views that it may have missed."""
        for view in self.views.all() if self.phase == "running" else ():
            if view.seq:
                self.send(link, Kind.VIEW, view)

    def store_early_view(self, run: bytes, view: View) -> None:
        """Store a view of a run that this peer is about to start."""
        if len(self._early) < MAX_VIEWS * self.contract.graph.m:
            self._early.append((run, view))

    def receive_view(self, view: View, but: Link | None = None) -> None:
        """Store a peer's view, and forward it if it is new."""
        if self.views.update(view):
            self.broadcast(Kind.VIEW, view, but)
            if view.peer == self.number and but is not None:
                # It is from an earlier process of this peer, so publish the current one.
                self.publish_view("was restarted", always=True)
            now = self.agreement
            if now is not None and view.peer in now.members and view.agreed < now.number:
                self.interrupt(ViewChanged())
            self.wake()

    def publish_view(
        self,
        reason: str = "",
        *,
        round_: int | None = None,
        ended: Ended | None = None,
        always: bool = False,
    ) -> None:
        """Publish this peer's active neighbors from a round on (default: this one), or its end."""
        # The view with which a peer ends is its last.
        if self.phase == "agreeing" or (self.phase == "done" and ended is None):
            return
        links = self.links.values()
        counts = sorted(link.number for link in links if link.active and not link.gone)
        old = self.views[self.number]
        now = self.agreement
        agreed = now.number if now is not None and now.complete else self.agreed
        if always or counts != list(old.counts) or ended is not None:
            round_ = self.round if round_ is None else round_
            self.receive_view(
                View(self.number, old.seq + 1, round_, counts, sanitize(reason), ended, agreed)
            )
