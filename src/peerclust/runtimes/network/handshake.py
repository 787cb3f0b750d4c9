"""Which process of a neighbor is accepted: HELLO says which it is, and PROOF proves it."""

from __future__ import annotations

from typing import NamedTuple

from peerclust.errors import WireError
from peerclust.log_events import LogEvent
from peerclust.runtimes.network.attempts import MAX_PROCESSES, SetupAttempts
from peerclust.runtimes.network.flooding import Flooding
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.membership import Membership
from peerclust.runtimes.network.messages import Hello, Incarnation, Proof
from peerclust.runtimes.network.session import RestartSetup, Session
from peerclust.runtimes.network.states import Cause
from peerclust.runtimes.network.transport import Connection
from peerclust.runtimes.network.wire import Frame, Kind

# The latest start, in the year 2116: no process of a peer could be later than one with it.
_LATEST_START = (1 << 62) - 1


class Greeting(NamedTuple):
    """A connection of a neighbor that has sent HELLO: the message, its frame, and our nonce."""

    link: Link
    connection: Connection
    hello: Hello
    frame: Frame
    own_nonce: bytes


class Handshake:
    """Accepts one process of each neighbor, and resumes its link if it is the same as before."""

    def __init__(
        self,
        session: Session,
        flooding: Flooding,
        attempts: SetupAttempts,
        membership: Membership,
    ) -> None:
        self._session, self._flooding = session, flooding
        self._attempts, self._membership = attempts, membership
        self._author, self._gossip = flooding.author, flooding.gossip

    def hello(self, link: Link, nonce: bytes) -> bytes:
        """Return the HELLO frame for a neighbor."""
        session = self._session
        known, latest = link.process, self._gossip.processes.get(link.number)
        if session.phase == "agreeing" and latest is not None:
            # Another peer may have told of a later process than the last one that was connected.
            known = latest if known is None or latest.order > known.order else known
        hello = Hello(
            session.name,
            self._author.incarnation,
            known,
            nonce,
            session.phase,
            link.active,
            session.contract.settings_json,
        )
        return session.make_frame(Kind.HELLO, hello)

    def prove(self, greeting: Greeting) -> bytes:
        """Return the PROOF frame in answer to HELLO."""
        hello = greeting.hello
        signature = self._author.prove(hello.process, greeting.own_nonce, hello.nonce)
        return self._session.make_frame(Kind.PROOF, Proof(signature))

    def refuse(self, greeting: Greeting) -> str:
        """Return why the process of a neighbor that sent HELLO is refused, or ""."""
        link, hello = greeting.link, greeting.hello
        try:
            self._gossip.verifier.check_incarnation(hello.process)
            if hello.known is not None:
                self._gossip.verifier.check_incarnation(hello.known)
        except WireError as error:
            return str(error)
        if hello.process.peer != link.number:
            return "its process must be its own"
        known, mine = hello.known, self._author.incarnation
        if known is not None and known.peer == mine.peer and known.order > mine.order:
            # The clock of this machine was set back, or another process runs with this key.
            if self._session.phase == "agreeing" and known.start < _LATEST_START:
                self._author.start_after(known)
                self._gossip.meet(self._author.incarnation)
                self._attempts.state_losses()
            return f"it knows a later process of {self._session.name}"
        if link.process is not None and hello.process.key != link.process.key:
            if link.connected:
                return f"another process of {link.name} is running and connected already"
            if hello.process.order < link.process.order:
                return f"a later process of {link.name} was here before"
        return ""

    def accept(self, greeting: Greeting, proof: Proof) -> str:
        """Accept a neighbor that sent HELLO and PROOF, or return the reason for refusing it."""
        link, connection, hello, frame, own_nonce = greeting
        session, mine = self._session, self._author.incarnation
        try:
            self._gossip.verifier.check_proof(
                hello.process, mine, hello.nonce, own_nonce, proof.signature
            )
        except WireError as error:
            return str(error)
        if link.banned:
            return f"it was dropped from this run: {link.banned}"
        if reason := self.refuse(greeting):
            return reason
        same = link.process is not None and link.process.key == hello.process.key
        if not same and not self._accept_new(link, hello.process):
            return link.banned
        resumed = same and hello.known is not None and hello.known.key == mine.key
        if not link.seen:
            here = f"{link.name} is here.{self._list_awaited(but=link)}"
            session.log(LogEvent("connected", here, peer=link.name))
        link.attach(connection, session.loop.time())
        link.refusal = ""
        link.process, link.phase = hello.process, hello.phase
        link.run = frame.run
        self._flooding.send_all(link)
        if session.phase == "running" and link.active and not (resumed and hello.counts):
            self._membership.drop(link, Cause.FORGOT)
        if link.active and not session.is_pending(RestartSetup):
            # A set-up that restarts needs no more frames.
            for data in link.outbox:
                session.send_frame(link, data)
        self._membership.sync_phase(link)
        session.wake()
        return ""

    def _accept_new(self, link: Link, process: Incarnation) -> bool:
        """Handle a neighbor's process that was not here before; return False if it is dropped."""
        if self._session.phase != "agreeing":
            if link.active:
                self._membership.drop(link, Cause.RESTARTED)
            return True
        if link.process is not None:
            self._attempts.on_new_process(link, process)
        link.processes += 1
        if link.processes > MAX_PROCESSES:
            often = f"it started {link.processes} processes during the set-up"
            self._membership.drop(link, Cause.EXCESS, often)
            return False
        return True

    def _list_awaited(self, but: Link) -> str:
        """Return a sentence with the neighbors that have not come yet, or ""."""
        links = self._session.links.values()
        names = [link.name for link in links if not (link.seen or link.banned or link is but)]
        agreeing = self._session.phase == "agreeing"
        return f" Waiting for {', '.join(names)}." if names and agreeing else ""
