"""Whom a peer counts, whom it has lost and who comes back.

- A broken connection is made again, and frames that may have been lost are sent again; the
  neighbor is counted out only if that takes too long.
- While peers agree (`phase` "agreeing"), a lost link makes all of them start the agreement again
  without it: the sets of lost links only grow and are passed on, so all end with the same.
- While they run, each tells whom it counts (`views`). A link that is up again counts after the
  later of its two ends' rounds, which both promise not to pass before they know it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.lockstep import Interrupt, LockstepExchange
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
    """The agreement begins again, on the living graph."""


class StateReceived(Interrupt):
    """The run is on its way, or over, and a neighbor has told where it is."""

    urgency = 1

    def __init__(self, reply: StateReply, link: Link) -> None:
        self.reply, self.link = reply, link


class Leaving(Interrupt):
    """The process was asked to end."""

    urgency = 2


class Stopping(Interrupt):
    """A peer was lost or never came, and the network file says that all then stop."""

    urgency = 2


class Membership(LockstepExchange):
    """The neighbors of one peer as they come and go."""

    def __init__(self, contract: Contract, me: str, log: Callable[[str], None]) -> None:
        super().__init__(contract, me)
        self.log = log
        self.instance = secrets.token_hex(8)
        # The links that the agreement does without; and those lost once all was agreed, which count
        # only if it begins again.
        self.lost: set[Pair] = set()
        self.late: set[Pair] = set()
        self.restarted: set[str] = set()
        # Whether all that is to be agreed on is known; see `agreeing`.
        self.setup_done = False
        self.views = MembershipViews(contract.graph, range(len(contract.peers)), ())
        # Views of a run that neighbors are in already, until this peer is in it.
        self._early: list[tuple[bytes, View]] = []
        # What happened in which round, for the result.
        self.events: list[tuple[int, str]] = []

    @property
    def round(self) -> int:
        """The round that this peer is in."""
        return min(self.at // self.contract.B, self.last_round) * (self.phase != "agreeing")

    def start_setup(self, run: bytes, members: tuple[int, ...]) -> None:
        """Stand at the first exchange of an agreement on the living graph."""
        self.run, self.at, self.setup_done = run, 0, False
        for link in self.links.values():
            link.active = link.number in members and self._pair(link) not in self.lost
            link.outbox.clear()
            self.sync_phase(link)

    def start_run(self, run: bytes, views: MembershipViews, round_: int) -> None:
        """Stand at a round of the run; who counts whom is in the views."""
        self.phase, self.run, self.at, self.views = "running", run, round_ * self.contract.B, views
        self.cancel_interrupt(RestartSetup)
        if isinstance(self._interrupt, StateReceived) and not self._interrupt.reply.done:
            self._interrupt = None  # a second neighbor's; this peer is in the run already
        mine = views[self.number].counts
        for link in self.links.values():
            link.active = link.active and link.number in mine
            link.active_from = 0
            link.state_requested = False
            link.refusal = ""
        self.publish_view()
        self.broadcast_heartbeat()
        for view in [view for told, view in self._early if told == run]:
            self.receive_view(view)

    def broadcast_heartbeat(self) -> None:
        """Tell every neighbor where this peer stands, and take up who can be."""
        for link in self.links.values():
            self.send(link, Kind.HEARTBEAT, Heartbeat(self.phase, link.active))
            self.sync_phase(link)

    # Neighbors come

    def hello(self, link: Link) -> bytes:
        """Give the frame that says who this is and where it stands."""
        told = self.contract.settings_json
        said = Hello(self.name, self.instance, link.instance, self.phase, link.active, told)
        return self.make_frame(Kind.HELLO, said)

    def on_hello(self, link: Link, connection: Connection, hello: Hello, frame: Frame) -> str:
        """Take up a neighbor that said hello; give a reason if it is refused."""
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
            self.deactivate(link, "it had counted this peer out")
        if link.active and not isinstance(self._interrupt, RestartSetup):
            # Of an agreement that begins again nothing more is said.
            for data in link.outbox:
                self.send_frame(link, data)
            self._send_views(link)
        self.sync_phase(link)
        self.wake()
        return ""

    def sync_phase(self, link: Link) -> None:
        """Do what the two phases ask for: take the link up again, or ask where the run is."""
        if not link.connected or (link.active and self.phase == "running"):
            return
        if self.phase == "agreeing" and link.phase == "done":
            self.request_state(link)
        elif self.phase == "agreeing" and link.phase == "running" and not link.counts_me:
            # Once all is agreed here, a neighbor that runs is only a few exchanges ahead.
            if not self.setup_done:
                self.request_state(link)
        elif self.phase == "running" and link.phase == "running":
            if link.run == self.run:
                self.offer_rejoin(link)
            else:
                self.ban(link, "it is in another run, which began without this one's peers")

    def request_state(self, link: Link) -> None:
        """Ask a neighbor where the run is, once."""
        if link.connected and not link.state_requested:
            link.state_requested = True
            self.send(link, Kind.STATE_REQUEST, StateRequest())

    def offer_rejoin(self, link: Link) -> None:
        """Tell the round after which the link may count; it does once both have told."""
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
                link.active_from, f"{link.name} is taken up from round {link.active_from} on"
            )
            self._send_views(link)
            self.publish_view(round_=link.active_from)

    # Neighbors go

    def on_disconnect(self, link: Link, reason: str) -> None:
        """Take note that a neighbor's connection is gone; it has `timeout` seconds to return."""
        link.detach()
        if link.active and link.phase != "done":
            self.log(f"The connection with {link.name} broke: {reason or 'it was closed here'}.")
        self.wake()

    def ban(self, link: Link, reason: str) -> None:
        """Drop a neighbor that sends what it must not, for the rest of the run."""
        link.banned = reason
        if link.active or self.phase == "agreeing":
            self.on_loss(link, reason)
        else:
            self._record_event(self.round, f"{link.name} is refused: {reason}")
        if link.connection is not None:
            self.send(link, Kind.BYE, Bye("refuses", sanitize(reason)))
            link.connection.close(reason, refused=True)

    def on_loss(self, link: Link, reason: str) -> None:
        """Count a neighbor out; a connection is closed, so that it counts this peer out too."""
        if self.phase == "agreeing":
            self._record_event(0, f"{link.name} does not take part: {reason}")
            link.reset()
            (self.late if self.setup_done else self.lost).add(self._pair(link))
            if (self.contract.on_loss if link.seen else self.contract.on_absent) == "stop":
                silent = (o for o in self.links.values() if o.active and not (o.seen or o.refusal))
                others = [other.name for other in silent]
                also = f" Nor did {' or '.join(others)} come." if others else ""
                self.interrupt(Stopping(f"{link.name} does not take part: {reason}.{also}"))
            elif not self.setup_done:
                self.restart_setup()
        else:
            self.deactivate(link, reason)
        if link.connection is not None and not link.banned:
            link.connection.close(reason)
        self.wake()

    def deactivate(self, link: Link, reason: str) -> None:
        """Go on without a neighbor, or stop if the network file says so."""
        if self.over and self.phase == "running":
            link.gone_after_end = (
                True  # it was there to the last round, and only a certificate is missing
            )
            self.log(f"{link.name} was lost after the last round: {reason}.")
            return
        link.reset()
        self._record_event(self.round, f"{link.name} was lost in round {self.round}: {reason}")
        self.publish_view(f"lost {link.name}: {reason}")
        if self.contract.on_loss == "stop" and self.phase == "running":
            why = f"{link.name} was lost in round {self.round} ({reason}), and the network file"
            self.interrupt(Stopping(f'{why} says on_loss = "stop".'))

    def _on_restart(self, link: Link) -> None:
        """Take note that a neighbor's process is another one now."""
        if self.phase == "agreeing":
            # If others have told of it, this agreement is one with the new process already.
            if link.instance not in self.restarted:
                self.restarted.add(link.instance)
                self.restart_setup()
        elif link.active:
            self.deactivate(link, "its process was started again")

    def restart_setup(self) -> None:
        """Begin the agreement again without what was lost, and tell all."""
        self.lost |= self.late
        self.broadcast(Kind.LINK_DOWN, LinkDown(sorted(self.lost), sorted(self.restarted)))
        self.interrupt(RestartSetup())

    def _pair(self, link: Link) -> tuple[int, int]:
        return min(self.number, link.number), max(self.number, link.number)

    def _record_event(self, round_: int, what: str) -> None:
        self.events.append((round_, what))
        self.log(f"{what}.")

    # Views

    def _send_views(self, link: Link) -> None:
        """Tell a neighbor of changes that may not have reached it."""
        for view in self.views.all() if self.phase == "running" else ():
            if view.seq:
                self.send(link, Kind.VIEW, view)

    def store_early_view(self, run: bytes, view: View) -> None:
        """Keep a view of a run that this peer is about to be in."""
        if len(self._early) < MAX_VIEWS * self.contract.graph.m:
            self._early.append((run, view))

    def receive_view(self, view: View, but: Link | None = None) -> None:
        """Take in whom a peer counts, and pass it on if it is news."""
        if self.views.update(view):
            self.broadcast(Kind.VIEW, view, but)
            if view.peer == self.number and but is not None:
                # What an earlier process of this peer had told; tell what holds now.
                self.publish_view("was started again", always=True)
            self.wake()

    def publish_view(
        self,
        reason: str = "",
        *,
        round_: int | None = None,
        ended: Ended | None = None,
        always: bool = False,
    ) -> None:
        """Tell all whom this peer counts from this round on, or from another; or that it ended."""
        # Whom a peer counted when it ended is its last word.
        if self.phase == "agreeing" or (self.phase == "done" and ended is None):
            return
        counts = sorted(link.number for link in self.links.values() if link.active)
        old = self.views[self.number]
        if always or counts != list(old.counts) or ended is not None:
            round_ = self.round if round_ is None else round_
            self.receive_view(
                View(self.number, old.seq + 1, round_, counts, sanitize(reason), ended)
            )
