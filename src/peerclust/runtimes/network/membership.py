"""Which neighbors of a peer are active, which are lost and which rejoin.

- After a broken connection, the neighbors reconnect and repeat frames that may have been lost. A
  neighbor is dropped only if this takes too long.
- During the set-up (`phase` "agreeing"), a lost link makes all peers restart the set-up without
  it, and so does a process that takes the place of another. Each process states which neighbors it
  has lost, so all peers come to know the same processes and lost links (`gossip`).
- During the run, each peer publishes its active neighbors (`views`). A restored link becomes active
  after the later of its two ends' rounds; neither end passes its own round before it knows which.
- An agreement of a run (`lockstep`) begins again if the view of a member changes. A barrier ends
  it: a peer that has passed it knows that all others have the result, too, so that none begins
  again. A neighbor that is lost at the barrier is therefore dropped only after it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from peerclust.errors import PeerError, WireError
from peerclust.log_events import LogEvent
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.gossip import Gossip
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.lockstep import Agreement, Interrupt, LockstepExchange
from peerclust.runtimes.network.messages import (
    Agreed,
    Bye,
    Ended,
    Evidence,
    Heartbeat,
    Hello,
    Incarnation,
    LinkUp,
    Losses,
    Presence,
    Proof,
    Record,
    Statement,
    StateReply,
    StateRequest,
    Subject,
    View,
    Waits,
    sanitize,
)
from peerclust.runtimes.network.record import Span, digest, find_rounds, is_majority, merge
from peerclust.runtimes.network.statements import Author
from peerclust.runtimes.network.transport import Connection
from peerclust.runtimes.network.views import MembershipViews, Pair, reachable_peers
from peerclust.runtimes.network.wire import TAG_BYTES, Frame, Kind

# Maximum number of changes of a peer's own neighbors of which it reports the rounds.
MAX_SPANS = 64

# A neighbor may start so many processes during the set-up, and state so much in `timeout` seconds
# for each of its links, before it is dropped.
_MAX_PROCESSES = 16
_MAX_STATEMENTS = 100

# A neighbor may rejoin so many times in `timeout` seconds before it is dropped.
_MAX_REJOINS = 10

# Maximum number of events that are kept for the result.
_MAX_EVENTS = 1000

# Statements of one origin are forwarded with at least this pause in between, in seconds; then only
# the latest ones are.
_MIN_PAUSE = 0.05


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

    def __init__(
        self, contract: Contract, me: str, author: Author, log: Callable[[str], None]
    ) -> None:
        super().__init__(contract, me)
        self.log, self.author = log, author
        self.gossip = Gossip(contract, author)
        # The neighbors that this process has lost in the set-up, and those lost after its end,
        # which are excluded only if it restarts.
        self._lost: set[int] = set()
        self._lost_late: set[int] = set()
        self.run_id, self.first_round = b"", 0
        # Whether too few peers are left, and whether this peer ever had others in the run.
        self._majority_lost = self._was_connected = False
        self.views_changed_at = 0.0
        # For whom peers wait, with the time at which they said so; and when this peer last did.
        self._waits: dict[int, tuple[Waits, float]] = {}
        self._waits_stated_at = 0.0
        # The neighbors with which this peer exchanged, from a round on.
        self._spans: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=MAX_SPANS)
        # What distinguishes the present attempt at the set-up, and whether this peer has reached
        # the barrier at its end.
        self._attempt: tuple[set[Pair], list[tuple[int, bytes]]] | None = None
        self.setup_done = False
        # Whether a process of this attempt has stated its losses anew.
        self._recalled = False
        self.views = MembershipViews(contract.graph, range(len(contract.peers)), ())
        # Statements that wait to be forwarded, and when one of each origin last was.
        self._waiting: dict[tuple[int, Subject], Statement] = {}
        self._forwarded_at: dict[int, float] = {}
        # Called with the name and the evidence if a peer contradicted itself.
        self.on_evidence: Callable[[str, Evidence], None] = lambda *_: None
        # Events with their rounds, for the result.
        self.events: deque[tuple[int, str]] = deque(maxlen=_MAX_EVENTS)

    @property
    def round(self) -> int:
        """The current round of this peer."""
        return self.at // self.contract.B * (self.phase != "agreeing")

    async def meet_members(self) -> tuple[set[Pair], tuple[int, ...]]:
        """Wait until a process of every peer that can be reached is known.

        Return the lost links and these peers.
        """
        limit = self.loop.time() + self.contract.patience
        self._attempt = None
        while True:
            self.cancel_interrupt(RestartSetup)
            lost = self.lost
            members = reachable_peers(self.contract.graph, lost, self.number)
            self._activate(members, lost)
            unknown = [i for i in members if i not in self.gossip.processes]
            if not unknown:
                return lost, members
            with suppress(RestartSetup):
                if not await self.wait_until(limit):
                    names = ", ".join(self.contract.names[i] for i in unknown)
                    raise PeerError(f"Nothing was heard of {names}, not even by its neighbors.")

    def start_setup(self, run: bytes, members: tuple[int, ...]) -> None:
        """Start a set-up among these members, at its first exchange."""
        self.run, self.at, self.setup_done = run, 0, False
        self._attempt, self._recalled = self._describe_attempt(), False
        self._activate(members, self.lost)
        for link in self.links.values():
            self.sync_phase(link)

    def _activate(self, members: tuple[int, ...], lost: set[Pair]) -> None:
        """Take part with the neighbors among these members, of which each is awaited."""
        for link in self.links.values():
            link.active = link.number in members and self._pair(link) not in lost
            link.outbox.clear()

    def start_run(self, run: bytes, agreed: Agreed, round_: int) -> None:
        """Start a run, with the links that were agreed on and what others say of it, at a round."""
        views = MembershipViews(self.contract.graph, agreed.members, agreed.lost)
        self.phase, self.run_id, self.run = "running", run, run[:TAG_BYTES]
        self.at, self.views, self.first_round = round_ * self.contract.B, views, round_
        self._publish("agreed", digest(agreed))
        # Others may have started before.
        self.gossip.drop_other_runs("view", run)
        for peer in range(self.contract.graph.m):
            statement = self.gossip.latest(peer, "view")
            if statement is not None and peer != self.number:
                self._use_view(statement)
        self.agreement, self.agreed = None, 0
        self.cancel_interrupt(RestartSetup)
        if isinstance(self._interrupt, StateReceived) and self._interrupt.reply.record is None:
            self._interrupt = None  # from a second neighbor; this peer is in the run already
        mine = views[self.number].counts
        for link in self.links.values():
            link.active = link.active and link.number in mine
            link.active_from = 0
            link.state_requested = False
            link.refusal = ""
        active = [link.number for link in self.links.values() if link.active]
        self._spans.append((round_, tuple(active)))
        self.publish_view()
        self.broadcast_heartbeat()

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

    def hello(self, link: Link, nonce: bytes) -> bytes:
        """Return the HELLO frame for a neighbor."""
        hello = Hello(
            self.name,
            self.author.incarnation,
            link.process,
            nonce,
            self.phase,
            link.active,
            self.contract.settings_json,
        )
        return self.make_frame(Kind.HELLO, hello)

    def check_process(self, link: Link, hello: Hello) -> str:
        """Return why the process of a neighbor that sent HELLO is refused, or ""."""
        try:
            self.gossip.verifier.check_incarnation(hello.process)
            if hello.known is not None:
                self.gossip.verifier.check_incarnation(hello.known)
        except WireError as error:
            return str(error)
        if hello.process.peer != link.number:
            return "its process must be its own"
        known, mine = hello.known, self.author.incarnation
        if known is not None and known.peer == self.number and known.order > mine.order:
            # The clock of this machine was set back, or another process runs with this key.
            if self.phase == "agreeing":
                self.author.start_after(known)
                self.gossip.meet(self.author.incarnation)
                self._state_losses()
            return f"it knows a later process of {self.name}"
        if link.process is not None and hello.process.key != link.process.key:
            if link.connected:
                return f"another process of {link.name} is running and connected already"
            if hello.process.order < link.process.order:
                return f"a later process of {link.name} was here before"
        return ""

    def prove(self, hello: Hello, own_nonce: bytes) -> bytes:
        """Return the PROOF frame in answer to HELLO."""
        signature = self.author.prove(hello.process, own_nonce, hello.nonce)
        return self.make_frame(Kind.PROOF, Proof(signature))

    def on_proof(
        self,
        link: Link,
        connection: Connection,
        hello: Hello,
        frame: Frame,
        own_nonce: bytes,
        proof: Proof,
    ) -> str:
        """Accept a neighbor that sent HELLO and PROOF, or return the reason for refusing it."""
        mine = self.author.incarnation
        try:
            self.gossip.verifier.check_proof(
                hello.process, mine, hello.nonce, own_nonce, proof.signature
            )
        except WireError as error:
            return str(error)
        if link.banned:
            return f"it was dropped from this run: {link.banned}"
        if reason := self.check_process(link, hello):
            return reason
        known = link.process
        same = known is not None and known.key == hello.process.key
        if known is not None and not same:
            self._on_restart(link, hello.process)
        if not same and self.phase == "agreeing":
            link.processes += 1
            if link.processes > _MAX_PROCESSES:
                self.ban(link, f"it started {link.processes} processes during the set-up")
                return link.banned
        resumed = same and hello.known is not None and hello.known.key == mine.key
        if not link.seen:
            here = f"{link.name} is here.{self._list_awaited(but=link)}"
            self.log(LogEvent("connected", here, peer=link.name))
        link.attach(connection, self.loop.time())
        link.process, link.phase, link.counts_me = hello.process, hello.phase, hello.counts
        link.run, link.at = frame.run, frame.exchange
        for statement in self.gossip.all():
            self.send(link, Kind.STATEMENT, statement)
        for evidence in self.gossip.liars.values():
            self.send(link, Kind.EVIDENCE, evidence)
        if self.phase == "running" and link.active and not (resumed and hello.counts):
            self.deactivate(link, "it had dropped this peer")
        if link.active and not isinstance(self._interrupt, RestartSetup):
            # A set-up that restarts needs no more frames.
            for data in link.outbox:
                self.send_frame(link, data)
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
            if link.count_rejoins(self.loop.time(), self.contract.timeout) > _MAX_REJOINS:
                self.ban(link, "it left and rejoined too often")
                return
            link.active = True
            rejoins = f"{link.name} rejoins from round {link.active_from} on"
            self._record_event(link.active_from, rejoins, "rejoined", link.name)
            self.publish_view(round_=link.active_from)
            # Before it was in the run, it could not know which views are of this run.
            for statement in self.gossip.all():
                self.send(link, Kind.STATEMENT, statement)

    # Losses

    def on_mismatch(self, link: Link, reason: str) -> None:
        """Drop a neighbor at once with which this peer can never take part, and say why."""
        if self.phase == "agreeing" and not link.banned and link.number not in self._lost:
            link.refusal = reason
            self.on_loss(link, reason)

    def on_disconnect(self, link: Link, reason: str) -> None:
        """Handle the end of a connection; the neighbor has `timeout` seconds to reconnect."""
        link.detach()
        if link.active and link.phase != "done":
            broke = f"The connection to {link.name} broke: {reason or 'it was closed here'}."
            self.log(LogEvent("disconnected", broke, peer=link.name))
        self.wake()

    def ban(self, link: Link, reason: str) -> None:
        """Drop a neighbor that violates the protocol, for the rest of the run."""
        link.banned = reason
        if link.active or self.phase == "agreeing":
            self.on_loss(link, reason)
        else:
            refused = f"{link.name} is refused: {reason}"
            self._record_event(self.round, refused, "refused", link.name)
        if link.connection is not None:
            self.send(link, Kind.BYE, Bye("refuses", sanitize(reason)))
            link.connection.close(reason, refused=True)

    def on_loss(self, link: Link, reason: str) -> None:
        """Drop a neighbor, and close its connection so that it drops this peer, too."""
        if self.phase == "agreeing":
            missing = f"{link.name} does not take part: {reason}"
            self._record_event(0, missing, "lost", link.name)
            link.reset()
            (self._lost_late if self.setup_done else self._lost).add(link.number)
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
            gone = f"{link.name} was lost after an agreement: {reason}"
            self._record_event(self.round, gone, "lost", link.name)
            return
        link.reset()
        gone = f"{link.name} was lost in round {self.round}: {reason}"
        self._record_event(self.round, gone, "lost", link.name)
        self.publish_view(f"lost {link.name}: {reason}")
        if self.contract.on_loss == "stop" and self.phase == "running":
            why = f"{link.name} was lost in round {self.round} ({reason}), and the network file"
            self.interrupt(Stopping(f'{why} says on_loss = "stop".'))

    def _list_awaited(self, but: Link | None = None) -> str:
        """Return a sentence with the neighbors that have not come yet, or ""."""
        links = self.links.values()
        names = [link.name for link in links if not (link.seen or link.banned or link is but)]
        return f" Waiting for {', '.join(names)}." if names and self.phase == "agreeing" else ""

    def _on_restart(self, link: Link, process: Incarnation) -> None:
        """Handle a neighbor whose process was restarted."""
        if self.phase == "agreeing":
            met = self.gossip.processes.get(link.number)
            if met is None or met.key != process.key or self.setup_done:
                # Its first statement restarts the set-up, which has not met it yet.
                link.reset()
        elif link.active:
            self.deactivate(link, "its process was restarted")

    def restart_setup(self) -> None:
        """Restart the set-up without the links that this process has lost, and tell all."""
        self._state_losses()
        self._restart_if_outdated(tell=False)

    def _restart_if_outdated(self, *, tell: bool) -> None:
        """Restart a set-up unless it already excludes what is lost, by the same processes.

        The others are in the same attempt then, and would not repeat their frames. At the barrier,
        some may have started the run, in which a new process takes part late; so only a member that
        is not there yet makes the others restart. It tells them by stating its losses anew.
        """
        if self.phase != "agreeing" or self._attempt == self._describe_attempt():
            return
        if self.setup_done and not self._recalled:
            return
        pending = self._attempt is None or isinstance(self._interrupt, RestartSetup)
        if not pending and (tell or self._lost_late):
            self._state_losses()
        self.interrupt(RestartSetup())

    def _describe_attempt(self) -> tuple[set[Pair], list[tuple[int, bytes]]]:
        """Return what distinguishes attempts at the set-up: the lost links, and the processes."""
        lost = self.lost
        members = reachable_peers(self.contract.graph, lost, self.number)
        known = self.gossip.processes
        return lost, [(i, known[i].key) for i in members if i in known]

    def _state_losses(self) -> None:
        """State which neighbors this process has lost in the set-up."""
        self._lost |= self._lost_late
        self._publish("losses", messages.pack(Losses(sorted(self._lost))), b"")

    @property
    def lost(self) -> set[Pair]:
        """The links that the set-up excludes: a process at one of their ends has lost them."""
        lost = set()
        for i in range(self.contract.graph.m):
            statement = self.gossip.latest(i, "losses")
            if (
                statement is not None
                and i not in self.gossip.liars
                and not self._is_past_setup(statement.origin)
            ):
                for j in messages.unpack(statement.body, Losses).neighbors:
                    lost.add((min(i, j), max(i, j)))
        # Nobody takes part with a peer that contradicts itself.
        for i in self.gossip.liars:
            lost |= {(min(i, j), max(i, j)) for j in self.contract.graph.neighbors(i).tolist()}
        return lost

    def _is_past_setup(self, process: Incarnation) -> bool:
        """Return whether a process has started a run; what it lost before matters no more."""
        if self.gossip.latest(process.peer, "agreed") is not None:
            return True
        link = self.links.get(self.contract.names[process.peer])
        near = link is not None and link.process is not None and link.process.key == process.key
        return near and link is not None and link.phase != "agreeing"

    def _pair(self, link: Link) -> tuple[int, int]:
        return min(self.number, link.number), max(self.number, link.number)

    def _record_event(self, round_: int, what: str, event: str, peer: str) -> None:
        what = what.removesuffix(".")
        self.events.append((round_, what))
        self.log(LogEvent(event, f"{what}.", peer=peer, round=round_))

    # Statements

    def receive_statement(self, statement: Statement, link: Link) -> None:
        """Store a statement that a neighbor sent, act on it, and forward it if it is new."""
        known = self.gossip.processes.get(statement.origin.peer)
        found = self.gossip.receive(statement)
        if isinstance(found, Evidence):
            self.receive_evidence(found)
            return
        if not found:
            return
        try:
            if statement.origin.peer == link.number:
                self._check_own_statement(statement, link)
            is_new = known is None or known.key != statement.origin.key
            self._use_statement(statement, is_new)
        except WireError as error:
            # Its origin signed it; a relay is not to blame.
            self.gossip.withdraw(statement)
            if statement.origin.peer == link.number:
                self.ban(link, str(error))
            return
        self._forward(statement, but=link)
        self.wake()

    def _check_own_statement(self, statement: Statement, link: Link) -> None:
        """Raise WireError if a neighbor states too much about itself, or as another process."""
        if link.process is not None and statement.origin.key != link.process.key:
            raise WireError("A neighbor must state only what its own process says.")
        now = self.loop.time()
        limit = _MAX_STATEMENTS * len(self.contract.graph.neighbors(link.number))
        link.stated_at.append(now)
        while link.stated_at[0] < now - self.contract.timeout:
            link.stated_at.popleft()
        if len(link.stated_at) > limit:
            raise WireError(
                f"A peer must not state more than {limit} times in {self.contract.timeout:g} s."
            )

    def _use_statement(self, statement: Statement, is_new_process: bool) -> None:
        """Act on a new statement; raise WireError if its contents are invalid."""
        peer = statement.origin.peer
        if statement.kind == "losses":
            lost = messages.unpack(statement.body, Losses)
            if not set(lost.neighbors) <= set(self.contract.graph.neighbors(peer).tolist()):
                raise WireError("A statement of losses must list only neighbors of its peer.")
        elif statement.kind == "view":
            self._use_view(statement)
        elif statement.kind == "waits":
            waits = messages.unpack(statement.body, Waits)
            if not set(waits.neighbors) <= set(self.contract.graph.neighbors(peer).tolist()):
                raise WireError("A peer must wait only for neighbors.")
            self._waits[peer] = waits, self.loop.time()
        if statement.kind == "losses" or is_new_process:
            origin = statement.origin
            took_part = self._attempt is not None and (peer, origin.key) in self._attempt[1]
            self._recalled |= took_part
            self._restart_if_outdated(tell=not took_part)

    def receive_evidence(self, evidence: Evidence, but: Link | None = None) -> None:
        """Drop a peer that contradicted itself, and tell all neighbors."""
        liar = self.gossip.convict(evidence)
        if liar is None:
            return
        name, kind = self.contract.names[liar], evidence.first.kind
        dropped = f"{name} is dropped: it signed two different {kind}s as one"
        self._record_event(self.round, dropped, "evidence", name)
        self.on_evidence(name, evidence)
        self.broadcast(Kind.EVIDENCE, evidence, but)
        link = self.links.get(name)
        if link is not None and not link.banned:
            self.ban(link, f"it signed two different {kind}s as one")
        else:
            self._restart_if_outdated(tell=True)
        self.wake()

    def _publish(self, kind: Subject, body: bytes, run: bytes | None = None) -> None:
        """Sign a statement, about this run by default, and send it to all neighbors."""
        statement = self.gossip.state(kind, body, self.run_id if run is None else run)
        self.broadcast(Kind.STATEMENT, statement)

    def _forward(self, statement: Statement, but: Link | None = None) -> None:
        """Forward a statement, at once unless its origin has stated others a moment ago."""
        origin, now = statement.origin.peer, self.loop.time()
        wait = self._forwarded_at.get(origin, 0.0) + _MIN_PAUSE - now
        if wait <= 0:
            self._forwarded_at[origin] = now
            self.broadcast(Kind.STATEMENT, statement, but)
            return
        if not any(peer == origin for peer, _ in self._waiting):
            self.loop.call_later(wait, self._forward_latest, origin)
        self._waiting[origin, statement.kind] = statement

    def _forward_latest(self, origin: int) -> None:
        self._forwarded_at[origin] = self.loop.time()
        for key in [key for key in self._waiting if key[0] == origin]:
            self.broadcast(Kind.STATEMENT, self._waiting.pop(key))

    # Waiting

    def state_waits(self, now: float) -> None:
        """State for whom this peer has waited for a while, so that nobody takes it for stuck."""
        pause = self.contract.timeout / 2
        if self._awaited is None or now - max(self._awaited_since, self._waits_stated_at) < pause:
            return
        self._waits_stated_at = now
        number, at = 0, self.at
        if self.agreement is not None:
            number, at = self.agreement.number, self.agreement.at
        waits = Waits(self.run, number, at, sorted(self._missing))
        self._publish("waits", messages.pack(waits))

    def is_excused(self, link: Link, now: float) -> bool:
        """Return whether a neighbor whose frame is missing waits for others in its turn.

        It does not if it says to wait for this peer, which has sent its frame, or for peers of
        which one waits for it: in a cycle somebody lies, and each neighbor leaves the cycle by
        itself. Nor does it if it waits for peers that are lost.
        """
        here = set(self.views.component(self.number)) if self.phase == "running" else None
        seen, edge = {link.number}, [link.number]
        first = True
        while edge:
            last, edge = edge, []
            for i in last:
                waits, at = self._waits.get(i, (None, 0.0))
                fresh = waits is not None and now - at <= 2.0 * self.contract.timeout
                if waits is None or not fresh or waits.run != self.run:
                    if first:
                        return False
                    continue
                awaited = set(waits.neighbors) if here is None else set(waits.neighbors) & here
                if not awaited and first:
                    return False
                if awaited & {link.number, self.number}:
                    return False
                edge += [j for j in awaited if j not in seen]
                seen |= awaited
            first = False
        return True

    # Views

    def _use_view(self, statement: Statement) -> None:
        """Store the view of another peer of this run; raise WireError if it is invalid."""
        view = messages.unpack(statement.body, View)
        stated = statement.origin.peer, statement.origin.start, statement.seq
        if (view.peer, view.start, view.seq) != stated:
            raise WireError("A view must be that of its origin.")
        check_view(view, self.contract)
        if self.phase == "agreeing":
            return  # it is stored when the run starts
        if statement.run != self.run_id:
            raise WireError("A view must be of this run.")
        link = self.links.get(self.contract.names[view.peer])
        if link is not None and view.ended is not None:
            link.phase = "done"
        self._store_view(view)

    def _store_view(self, view: View) -> None:
        if self.views.update(view):
            self.views_changed_at = self.loop.time()
            self._check_majority()
            now = self.agreement
            if now is not None and view.peer in now.members and view.agreed < now.number:
                self.interrupt(ViewChanged())
            self.follow_neighbors()
            self.wake()

    def follow_neighbors(self) -> None:
        """Begin an agreement again if a neighbor has begun it in the present views.

        They are not those of this peer's agreement if a peer that is no member changed its view.
        The neighbor had not completed the agreement, so nobody has passed the barrier.
        """
        now, view = self.agreement, self.views.checksum
        if now is not None and now.view != view:
            links = self.links.values()
            if any(link.has_begun(now.number, view) for link in links if link.active):
                self.interrupt(ViewChanged())

    # The end

    async def sign_record(
        self, members: Sequence[int], rounds: int, make: Callable[[list[list[Span]]], Record]
    ) -> Record:
        """Agree on when peers took part, and sign the record that all members make of it.

        `make` is called with the rounds of each listed peer. A member that is lost meanwhile is
        awaited for `timeout` seconds.
        """
        mine = Presence(self.agreed, self.first_round, self._list_spans(rounds))
        self._publish("presence", messages.pack(mine))
        limit = self.loop.time() + self.contract.timeout
        while True:
            stated = {i: self._read_presence(i) for i in members}
            if all(stated.values()) or not await self.wait_until(limit):
                break
        known = {i: presence for i, presence in stated.items() if presence is not None}
        record = make(find_rounds(self.contract, members, known, rounds))
        self._publish("record", digest(record))
        return record

    def _list_spans(self, rounds: int) -> list[tuple[int, int, int]]:
        """Return (neighbor, first, last) for the rounds in which this peer exchanged with it."""
        spans: dict[int, list[Span]] = {}
        for n, (first, counts) in enumerate(self._spans):
            last = self._spans[n + 1][0] if n + 1 < len(self._spans) else rounds
            for j in counts:
                spans.setdefault(j, []).append((first, last - 1))
        return [(j, *span) for j in sorted(spans) for span in merge(spans[j])]

    def _read_presence(self, peer: int) -> Presence | None:
        """Return what a peer stated of its presence after the last agreement."""
        statement = self.gossip.latest(peer, "presence")
        if statement is None or statement.run != self.run_id:
            return None
        try:
            presence = messages.unpack(statement.body, Presence)
        except WireError:
            return None
        near = set(self.contract.graph.neighbors(peer).tolist())
        # More than an honest peer can have would make the record too large to be sent.
        few = len(presence.neighbors) <= MAX_SPANS * len(near)
        valid = few and all(j in near for j, _, _ in presence.neighbors)
        return presence if valid and presence.agreement == self.agreed else None

    def signatures(self, record: Record) -> list[Statement]:
        """Return the statements of all peers that sign this record."""
        return self.gossip.who_stated("record", record.run, digest(record))

    def _check_majority(self) -> None:
        """Say so at once if the peers that are left cannot end the run, and if they can again."""
        m = self.contract.graph.m
        here = len(self.views.component(self.number))
        lost = not is_majority(here, m)
        # A peer that joins late is alone until its first link is active.
        self._was_connected |= here > 1
        if lost != self._majority_lost and self.phase == "running" and self._was_connected:
            self._majority_lost = lost
            more = m // 2 + 1 - here
            sentence = f"The majority is back: {here} of {m} peers are connected."
            if lost:
                sentence = (
                    f"The majority is lost: {here} of {m} peers are left, and the run cannot"
                    f" converge unless {more} return{'s' * (more == 1)}."
                )
            self.log(LogEvent("majority-lost" if lost else "majority-back", sentence, peers=here))

    def publish_view(
        self, reason: str = "", *, round_: int | None = None, ended: Ended | None = None
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
        if counts == list(old.counts) and ended is None:
            return
        round_ = self.round if round_ is None else round_
        view = View(
            self.number, self.author.incarnation.start, self.author.next_seq("view"), round_,
            counts, sanitize(reason), ended, agreed,
        )  # fmt: skip
        self._publish("view", messages.pack(view))
        self._spans.append((round_, tuple(counts)))
        self._store_view(view)


def check_view(view: View, contract: Contract) -> None:
    """Raise WireError if a view is not possible in this network."""
    near = contract.graph.neighbors(view.peer).tolist()
    if not set(view.counts) <= set(near):
        raise WireError("A view must list only neighbors of its peer.")
    finite = view.ended is None or math.isfinite(view.ended.residual)
    if not finite or view.round > contract.max_round + 1:
        raise WireError("A view must have finite numbers and a valid round.")
