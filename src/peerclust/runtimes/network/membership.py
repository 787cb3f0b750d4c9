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
from peerclust.runtimes.network.lockstep import Interrupt, Post
from peerclust.runtimes.network.messages import (
    Alive,
    Bye,
    Ended,
    Hello,
    Lost,
    Need,
    Up,
    View,
    Welcome,
    tame,
)
from peerclust.runtimes.network.transport import Connection
from peerclust.runtimes.network.views import MOST_VIEWS, Pair, Views
from peerclust.runtimes.network.wire import Frame, Kind


class Restart(Interrupt):
    """The agreement begins again, on the living graph."""


class Welcomed(Interrupt):
    """The run is on its way, or over, and a neighbor has told where it is."""

    urgency = 1

    def __init__(self, welcome: Welcome, link: Link) -> None:
        self.welcome, self.link = welcome, link


class Leaving(Interrupt):
    """The process was asked to end."""

    urgency = 2


class Stopping(Interrupt):
    """A peer was lost or never came, and the network file says that all then stop."""

    urgency = 2


class Membership(Post):
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
        self.settled = False
        self.views = Views(contract.graph, range(len(contract.peers)), ())
        # Views of a run that neighbors are in already, until this peer is in it.
        self._early: list[tuple[bytes, View]] = []
        # What happened in which round, for the result.
        self.events: list[tuple[int, str]] = []

    @property
    def round(self) -> int:
        """The round that this peer is in."""
        return min(self.at // self.contract.B, self.last_round) * (self.phase != "agreeing")

    def begin_agreement(self, run: bytes, members: tuple[int, ...]) -> None:
        """Stand at the first exchange of an agreement on the living graph."""
        self.run, self.at, self.settled = run, 0, False
        for link in self.links.values():
            link.counted = link.number in members and self._pair(link) not in self.lost
            link.outbox.clear()
            self.match(link)

    def begin_run(self, run: bytes, views: Views, round_: int) -> None:
        """Stand at a round of the run; who counts whom is in the views."""
        self.phase, self.run, self.at, self.views = "running", run, round_ * self.contract.B, views
        self.forget_interrupt(Restart)
        if isinstance(self._interrupt, Welcomed) and not self._interrupt.welcome.done:
            self._interrupt = None  # a second neighbor's; this peer is in the run already
        mine = views[self.number].counts
        for link in self.links.values():
            link.counted = link.counted and link.number in mine
            link.since = 0
            link.asked = False
            link.refusal = ""
        self.tell_view()
        self.broadcast_alive()
        for view in [view for told, view in self._early if told == run]:
            self.hear_view(view)

    def broadcast_alive(self) -> None:
        """Tell every neighbor where this peer stands, and take up who can be."""
        for link in self.links.values():
            self.send(link, Kind.ALIVE, Alive(self.phase, link.counted))
            self.match(link)

    # Neighbors come

    def hello(self, link: Link) -> bytes:
        """Give the frame that says who this is and where it stands."""
        told = self.contract.told
        said = Hello(self.name, self.instance, link.instance, self.phase, link.counted, told)
        return self.make_frame(Kind.HELLO, said)

    def greeted(self, link: Link, connection: Connection, hello: Hello, frame: Frame) -> str:
        """Take up a neighbor that said hello; give a reason if it is refused."""
        if link.banned:
            return f"it was dropped from this run: {link.banned}"
        if link.instance and hello.instance != link.instance:
            if link.connected:
                return f"{link.name} is running already"
            self._hear_restart(link)
        resumed = hello.instance == link.instance and hello.knows == self.instance
        link.attach(connection, self.loop.time())
        link.instance, link.phase, link.counts_me = hello.instance, hello.phase, hello.counts
        link.run, link.at = frame.run, frame.exchange
        if self.phase == "agreeing" and (self.lost or self.restarted):
            self.send(link, Kind.LOST, Lost(sorted(self.lost), sorted(self.restarted)))
        if self.phase == "running" and link.counted and not (resumed and hello.counts):
            self.count_out(link, "it had counted this peer out")
        if link.counted and not isinstance(self._interrupt, Restart):
            # Of an agreement that begins again nothing more is said.
            for data in link.outbox:
                self.send_frame(link, data)
            self._share_views(link)
        self.match(link)
        self.wake()
        return ""

    def match(self, link: Link) -> None:
        """Do what the two phases ask for: take the link up again, or ask where the run is."""
        if not link.connected or (link.counted and self.phase == "running"):
            return
        if self.phase == "agreeing" and link.phase == "done":
            self.ask(link)
        elif self.phase == "agreeing" and link.phase == "running" and not link.counts_me:
            # Once all is agreed here, a neighbor that runs is only a few exchanges ahead.
            if not self.settled:
                self.ask(link)
        elif self.phase == "running" and link.phase == "running":
            if link.run == self.run:
                self.offer(link)
            else:
                self.ban(link, "it is in another run, which began without this one's peers")

    def ask(self, link: Link) -> None:
        """Ask a neighbor where the run is, once."""
        if link.connected and not link.asked:
            link.asked = True
            self.send(link, Kind.NEED, Need())

    def offer(self, link: Link) -> None:
        """Tell the round after which the link may count; it does once both have told."""
        if self.phase != "running" or link.counted:
            return
        if link.up_sent is None:
            link.up_sent, link.up_at = self.round, self.loop.time()
            self.send(link, Kind.UP, Up(self.round))
        if link.up_heard is not None:
            link.since = max(link.up_sent, link.up_heard) + 1
            link.up_sent = link.up_heard = None
            link.counted = True
            self._happened(link.since, f"{link.name} is taken up from round {link.since} on")
            self._share_views(link)
            self.tell_view(round_=link.since)

    # Neighbors go

    def dropped(self, link: Link, reason: str) -> None:
        """Take note that a neighbor's connection is gone; it has `timeout` seconds to return."""
        link.detach()
        if link.counted and link.phase != "done":
            self.log(f"The connection with {link.name} broke: {reason or 'it was closed here'}.")
        self.wake()

    def ban(self, link: Link, reason: str) -> None:
        """Drop a neighbor that sends what it must not, for the rest of the run."""
        link.banned = reason
        if link.counted or self.phase == "agreeing":
            self.lose(link, reason)
        else:
            self._happened(self.round, f"{link.name} is refused: {reason}")
        if link.connection is not None:
            self.send(link, Kind.BYE, Bye("refuses", tame(reason)))
            link.connection.close(reason, refused=True)

    def lose(self, link: Link, reason: str) -> None:
        """Count a neighbor out; a connection is closed, so that it counts this peer out too."""
        if self.phase == "agreeing":
            self._happened(0, f"{link.name} does not take part: {reason}")
            link.discount()
            (self.late if self.settled else self.lost).add(self._pair(link))
            if (self.contract.on_loss if link.ever else self.contract.on_absent) == "stop":
                silent = (o for o in self.links.values() if o.counted and not (o.ever or o.refusal))
                others = [other.name for other in silent]
                also = f" Nor did {' or '.join(others)} come." if others else ""
                self.interrupt(Stopping(f"{link.name} does not take part: {reason}.{also}"))
            elif not self.settled:
                self.start_again()
        else:
            self.count_out(link, reason)
        if link.connection is not None and not link.banned:
            link.connection.close(reason)
        self.wake()

    def count_out(self, link: Link, reason: str) -> None:
        """Go on without a neighbor, or stop if the network file says so."""
        if self.over and self.phase == "running":
            link.left = True  # it was there to the last round, and only a certificate is missing
            self.log(f"{link.name} was lost after the last round: {reason}.")
            return
        link.discount()
        self._happened(self.round, f"{link.name} was lost in round {self.round}: {reason}")
        self.tell_view(f"lost {link.name}: {reason}")
        if self.contract.on_loss == "stop" and self.phase == "running":
            why = f"{link.name} was lost in round {self.round} ({reason}), and the network file"
            self.interrupt(Stopping(f'{why} says on_loss = "stop".'))

    def _hear_restart(self, link: Link) -> None:
        """Take note that a neighbor's process is another one now."""
        if self.phase == "agreeing":
            # If others have told of it, this agreement is one with the new process already.
            if link.instance not in self.restarted:
                self.restarted.add(link.instance)
                self.start_again()
        elif link.counted:
            self.count_out(link, "its process was started again")

    def start_again(self) -> None:
        """Begin the agreement again without what was lost, and tell all."""
        self.lost |= self.late
        self.broadcast(Kind.LOST, Lost(sorted(self.lost), sorted(self.restarted)))
        self.interrupt(Restart())

    def _pair(self, link: Link) -> tuple[int, int]:
        return min(self.number, link.number), max(self.number, link.number)

    def _happened(self, round_: int, what: str) -> None:
        self.events.append((round_, what))
        self.log(f"{what}.")

    # Views

    def _share_views(self, link: Link) -> None:
        """Tell a neighbor of changes that may not have reached it."""
        for view in self.views.all() if self.phase == "running" else ():
            if view.seq:
                self.send(link, Kind.VIEW, view)

    def keep_view(self, run: bytes, view: View) -> None:
        """Keep a view of a run that this peer is about to be in."""
        if len(self._early) < MOST_VIEWS * self.contract.graph.m:
            self._early.append((run, view))

    def hear_view(self, view: View, but: Link | None = None) -> None:
        """Take in whom a peer counts, and pass it on if it is news."""
        if self.views.take(view):
            self.broadcast(Kind.VIEW, view, but)
            if view.peer == self.number and but is not None:
                # What an earlier process of this peer had told; tell what holds now.
                self.tell_view("was started again", always=True)
            self.wake()

    def tell_view(
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
        counts = sorted(link.number for link in self.links.values() if link.counted)
        old = self.views[self.number]
        if always or counts != list(old.counts) or ended is not None:
            round_ = self.round if round_ is None else round_
            self.hear_view(View(self.number, old.seq + 1, round_, counts, tame(reason), ended))
