"""Attempts at the set-up: which peers take part, and when it begins again.

A lost link makes all peers restart the set-up without it, and so does a process that takes the
place of another. Each process states which neighbors it has lost, so all peers come to know the
same processes and lost links (`flooding`).
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from peerclust.errors import PeerError, WireError
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.flooding import Flooding
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.messages import Incarnation, Losses, Statement
from peerclust.runtimes.network.session import RestartSetup, Session, Stopping
from peerclust.runtimes.network.states import Cause, LinkEvent, RunEvent, RunState
from peerclust.runtimes.network.views import Pair, reachable_peers

# A process may state its losses so many times for each peer of the network. It does so when it
# starts, when it loses a neighbor, and when others start or lose theirs.
_MAX_LOSSES = 32

# So many processes of a peer may start during the set-up, for each of its links, before its
# neighbors drop it; others may hear of all of these before the set-up ends for everybody.
MAX_PROCESSES = 16

# What distinguishes attempts: the lost links, and the processes of the members.
_Description = tuple[set[Pair], list[tuple[int, bytes]]]


class SetupAttempts:
    """The attempts of one peer at the set-up."""

    def __init__(self, session: Session, flooding: Flooding) -> None:
        self._session, self._flooding, self._gossip = session, flooding, flooding.gossip
        flooding.readers["losses"] = self._read_losses
        flooding.on_news = self._on_news
        # The neighbors that this process has lost in the set-up, and those lost at its barrier,
        # which are excluded only if it restarts.
        self._lost: set[int] = set()
        self._lost_late: set[int] = set()
        self._attempt: _Description | None = None
        # How many processes of each peer were heard of.
        self._processes: Counter[int] = Counter()
        # Whether a process of this attempt has stated its losses anew.
        self._recalled = False

    async def meet_members(self) -> tuple[set[Pair], tuple[int, ...]]:
        """Wait until a process of every peer that can be reached is known.

        Return the lost links and these peers.
        """
        session = self._session
        limit = session.loop.time() + session.contract.patience
        session.move(RunEvent.MEET)
        self._attempt = None
        while True:
            session.cancel_interrupt(RestartSetup)
            lost = self.lost
            members = reachable_peers(session.contract.graph, lost, session.number)
            self._activate(members, lost)
            unknown = [i for i in members if i not in self._gossip.processes]
            if not unknown:
                return lost, members
            with suppress(RestartSetup):
                if not await session.wait_until(limit):
                    names = ", ".join(session.contract.names[i] for i in unknown)
                    raise PeerError(f"Nothing was heard of {names}, not even by its neighbors.")

    def start(self, run: bytes, members: tuple[int, ...]) -> None:
        """Start a set-up among these members, at its first exchange."""
        session = self._session
        session.move(RunEvent.ATTEMPT)
        session.run, session.at = run, 0
        self._attempt, self._recalled = self._describe(), False
        self._activate(members, self.lost)

    def _activate(self, members: tuple[int, ...], lost: set[Pair]) -> None:
        """Take part with the neighbors among these members, of which each is awaited."""
        for link in self._session.links.values():
            takes_part = link.number in members and self._session.pair(link) not in lost
            link.move(LinkEvent.TAKE_PART if takes_part else LinkEvent.STAY_OUT)
            link.outbox.clear()

    def leave_out(self, link: Link, cause: Cause, reason: str) -> None:
        """Restart the set-up without a neighbor, or stop if the network file says so."""
        session, contract = self._session, self._session.contract
        absent = f"{link.name} does not take part: {reason}"
        session.record_event(0, absent, "lost", link.name, cause)
        link.reset()
        at_barrier = session.state is RunState.SETUP_BARRIER
        (self._lost_late if at_barrier else self._lost).add(link.number)
        if (contract.on_loss if link.seen else contract.on_absent) == "stop":
            others = [other for other in session.links.values() if other.active]
            absent += f".{self._list_other_absent(others, known=bool(link.refusal))}"
            session.interrupt(Stopping(absent))
        elif not at_barrier:
            self.state_losses()
            self.restart_if_outdated(tell=False)

    def _list_other_absent(self, others: list[Link], *, known: bool) -> str:
        """Return sentences on neighbors that do not take part either, or "".

        Those of which nothing was heard are not to blame if the cause is known.
        """
        names = [] if known else [each.name for each in others if not (each.seen or each.refusal)]
        also = f" Nor did {' or '.join(names)} connect." if names else ""
        refused = (each for each in others if each.refusal)
        return also + "".join(f" Nor does {each.name}: {each.refusal}." for each in refused)

    def has_lost(self, link: Link) -> bool:
        """Return whether this process has lost a neighbor in the set-up."""
        return link.number in self._lost

    def on_new_process(self, link: Link, process: Incarnation) -> None:
        """Handle a neighbor whose process was restarted during the set-up."""
        met = self._gossip.processes.get(link.number)
        at_barrier = self._session.state is RunState.SETUP_BARRIER
        if met is None or met.key != process.key or at_barrier:
            # Its first statement restarts the set-up, which has not met it yet.
            link.reset(LinkEvent.STAY_OUT)

    def state_losses(self) -> None:
        """State which neighbors this process has lost in the set-up."""
        self._lost |= self._lost_late
        self._flooding.publish("losses", messages.pack(Losses(sorted(self._lost))), b"")

    def restart_if_outdated(self, *, tell: bool) -> None:
        """Restart a set-up unless it already excludes what is lost, by the same processes.

        The others are in the same attempt then, and would not repeat their frames. At the barrier,
        some may have started the run, in which a new process takes part late; so only a member that
        is not there yet makes the others restart. It tells them by stating its losses anew.
        """
        session = self._session
        if session.phase != "agreeing" or self._attempt == self._describe():
            return
        if session.state is RunState.SETUP_BARRIER and not self._recalled:
            return
        pending = self._attempt is None or session.is_pending(RestartSetup)
        if not pending and (tell or self._lost_late):
            self.state_losses()
        session.interrupt(RestartSetup())

    def _describe(self) -> _Description:
        lost = self.lost
        members = reachable_peers(self._session.contract.graph, lost, self._session.number)
        known = self._gossip.processes
        return lost, [(i, known[i].key) for i in members if i in known]

    @property
    def lost(self) -> set[Pair]:
        """The links that the set-up excludes: a process at one of their ends has lost them."""
        graph, lost = self._session.contract.graph, set()
        for i in range(graph.m):
            near = graph.neighbors(i).tolist()
            statement = self._gossip.latest(i, "losses")
            if i in self._gossip.liars:
                # Nobody takes part with a peer that contradicts itself.
                lost |= {(min(i, j), max(i, j)) for j in near}
            # What a process lost before it started a run matters no more. Only what it states of
            # that counts, so that all peers know of the same lost links.
            elif statement is not None and self._gossip.latest(i, "agreed") is None:
                gone = messages.unpack(statement.body, Losses).neighbors
                lost |= {(min(i, j), max(i, j)) for j in gone}
        return lost

    # Statements

    def _read_losses(self, statement: Statement) -> None:
        graph = self._session.contract.graph
        if statement.seq > _MAX_LOSSES * graph.m:
            raise WireError(f"A process must not state its losses {statement.seq} times.")
        near = graph.neighbors(statement.origin.peer).tolist()
        if not set(messages.unpack(statement.body, Losses).neighbors) <= set(near):
            raise WireError("A statement of losses must list only neighbors of its peer.")

    def _on_news(self, statement: Statement, is_new_process: bool) -> None:
        if is_new_process and self._session.phase == "agreeing":
            self._count_process(statement.origin.peer)
        if statement.kind == "losses" or is_new_process:
            origin = statement.origin
            took_part = self._attempt is not None and (origin.peer, origin.key) in self._attempt[1]
            self._recalled |= took_part
            self.restart_if_outdated(tell=not took_part)
        elif statement.kind == "agreed":
            # What it has lost counts no more.
            self.restart_if_outdated(tell=False)

    def _count_process(self, peer: int) -> None:
        """Stop if more processes of a peer come than its neighbors accept: some are liars, too."""
        session, graph = self._session, self._session.contract.graph
        self._processes[peer] += 1
        if self._processes[peer] > MAX_PROCESSES * (len(graph.neighbors(peer)) + 1):
            often = f"has started {self._processes[peer]} processes during the set-up"
            session.interrupt(Stopping(f"{session.contract.names[peer]} {often}."))
