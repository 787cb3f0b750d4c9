"""Listening and dialing: one accepted connection per neighbor; everyone else is refused.

Of two neighbors, the one with the smaller name dials, with exponential backoff. A connection is
accepted only after both sides have sent HELLO and PROOF, because a TLS 1.3 client's handshake
succeeds even if the server then rejects its certificate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, Protocol

from peerclust.errors import ParameterError, WireError
from peerclust.runtimes.network import identity as identities, messages, wire
from peerclust.runtimes.network.connection_errors import explain, explain_listening
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.dialing import Backoff, dial
from peerclust.runtimes.network.handshake import Greeting, Handshake
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.listener import Listener, Pool
from peerclust.runtimes.network.messages import Bye, Hello, Proof
from peerclust.runtimes.network.refusal_log import RefusalLog
from peerclust.runtimes.network.statements import draw_nonce
from peerclust.runtimes.network.transport import HANDSHAKE_TIMEOUT, Connection
from peerclust.runtimes.network.wire import Frame, Kind
from peerclust.text import sanitize

# Backoff between attempts to dial, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 3.0

# How many connections per listed peer may be waiting for their HELLO.
_MAX_PROVED = 4


class ConnectionHandler(Protocol):
    """What handles the events of connections: the node."""

    def on_frame(self, link: Link, frame: Frame) -> None:
        """Handle a frame from a neighbor."""

    def on_invalid(self, link: Link, reason: str) -> None:
        """Handle bytes of a neighbor that are not a valid frame."""

    def on_mismatch(self, link: Link, reason: str) -> None:
        """Handle a neighbor that has other settings, or says that this peer has."""

    def on_farewell(self, link: Link, bye: Bye) -> None:
        """Handle a neighbor that connects only to say why it does not take part."""

    def on_disconnect(self, link: Link, reason: str) -> None:
        """Handle the end of a neighbor's connection."""


class ConnectionManager:
    """The connections of one peer."""

    def __init__(
        self,
        contract: Contract,
        links: Mapping[str, Link],
        identity: Identity,
        handler: ConnectionHandler,
        handshake: Handshake,
        *,
        listen: tuple[str, int],
        dial: Mapping[str, tuple[str, int]],
        limit: int,
        log: Callable[[str], None],
    ) -> None:
        self._contract, self._links, self._identity = contract, links, identity
        self._handler, self._handshake = handler, handshake
        self._listen, self._dial = listen, dial
        self._limit, self.refusals = limit, RefusalLog(log)
        self._owner: dict[Connection, Link] = {}
        self._dialed: dict[Connection, Link] = {}
        # What a connection needs until it has proved which process is at its other end.
        self._nonces: dict[Connection, bytes] = {}
        self._greetings: dict[Connection, Greeting] = {}
        # Connections of listed peers that are not accepted yet.
        self._pending = Pool[Connection](_MAX_PROVED * len(contract.peers))
        self._make_connection = partial(
            Connection,
            limit=limit + wire.HEADER_BYTES,
            opened=self._opened,
            received=self._received,
            closed=self._closed,
            secured=self._secured,
        )
        self._listener: Listener | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._by_certificate = {
            contract.peers[link.number].certificate: link for link in links.values()
        }

    async def open(self) -> None:
        """Start listening and dialing."""
        loop = asyncio.get_running_loop()
        host, port = self._listen
        # All listed certificates pass TLS, so that a non-neighbor can be refused by name.
        listed = [peer.certificate for peer in self._contract.peers]
        context = identities.server_context(self._identity, listed)

        self._listener = Listener(
            lambda first: self._make_connection(context, uri=None, first=first),
            self.refusals.note_stranger,
            self._contract.server_name(self._identity.name),
        )
        try:
            await self._listener.open(host, port)
        except OSError as error:
            raise ParameterError(explain_listening(error, host, port)) from None
        for link in self._links.values():
            if link.dials:
                self._tasks.append(loop.create_task(self._dial_repeatedly(link)))

    async def close(self) -> None:
        """Stop listening and dialing, and close all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        for connection in [*self._owner, *self._pending]:
            connection.close()
        self.refusals.close()
        # Let the last writes go out before the loop ends.
        await asyncio.sleep(0.05)
        # A connection may just be coming in.
        remaining = asyncio.all_tasks() - {asyncio.current_task()}
        if remaining:
            await asyncio.wait(remaining, timeout=1)

    async def _dial_repeatedly(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        host, port = self._dial.get(link.name) or self._contract.peers[link.number].endpoint
        certificate = self._contract.peers[link.number].certificate
        context = identities.client_context(self._identity, certificate)
        server_name = self._contract.server_name(link.name)
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while not link.banned:
            begin = loop.time()
            try:
                connection = await dial(
                    lambda uri: self._make_connection(context, uri=uri, server_name=server_name),
                    host,
                    port,
                )
            except OSError as error:
                reason = explain(error)
                away = f"cannot be reached at {host}:{port} ({reason})"
                self.refusals.note_neighbor(link.name, away, event="note")
            else:
                self._dialed[connection] = link
                await connection.gone.wait()
                # After a quick refusal the backoff continues.
                if loop.time() - begin > _LONGEST_PAUSE:
                    backoff.reset()
            await backoff.sleep()

    def _secured(self, connection: Connection) -> None:
        self._release(connection)
        if evicted := self._pending.add(connection, (True, connection.certificate)):
            evicted.abort("it opens too many connections")

    def _release(self, connection: Connection) -> None:
        self._pending.discard(connection)
        if self._listener is not None:
            self._listener.release(connection)

    def _opened(self, connection: Connection) -> None:
        link = self._by_certificate.get(connection.certificate)
        if link is None:
            named = {peer.certificate: peer.name for peer in self._contract.peers}
            name = named.get(connection.certificate, "the peer")
            why = f"{name} is not a neighbor here: its network file differs"
            if name == self._identity.name:
                why = f"it is {name} itself, as in a `peer check`; if not, correct its address"
            self._refuse(connection, why)
            return
        self._owner[connection] = link
        nonce = self._nonces[connection] = draw_nonce()
        connection.send(self._handshake.hello(link, nonce))
        loop = asyncio.get_running_loop()
        loop.call_later(HANDSHAKE_TIMEOUT, self._abort_if_silent, connection)

    def _abort_if_silent(self, connection: Connection) -> None:
        if connection in self._pending:
            connection.abort(f"it did not send HELLO and PROOF within {HANDSHAKE_TIMEOUT:g} s")

    def _received(self, connection: Connection, data: bytes | memoryview) -> None:
        link = self._owner[connection]
        try:
            frame = wire.decode(data, limit=self._limit)
        except WireError as error:
            if connection in self._pending:
                self._refuse(connection, str(error))
            else:
                self._handler.on_invalid(link, str(error))
            return
        if connection not in self._pending:
            self._handler.on_frame(link, frame)
            return
        if frame.kind is Kind.BYE:
            self._on_refusal(link, frame)
            return
        greeting = self._greetings.get(connection)
        try:
            if greeting is None:
                reason = self._check_hello(link, connection, frame)
            else:
                reason = self._check_proof(greeting, frame)
        except WireError as error:
            reason = str(error)
        if reason:
            differs = frame.network != self._contract.digest[: wire.TAG_BYTES]
            self._refuse(connection, reason, "differs" if differs else "refuses")

    def _check_hello(self, link: Link, connection: Connection, frame: Frame) -> str:
        """Check the first frame of a connection; return the reason for a refusal, or ""."""
        if frame.kind is not Kind.HELLO:
            return "its first frame must be HELLO"
        hello = messages.unpack(frame.message, Hello)
        if hello.name != link.name:
            return f"it calls itself {hello.name!r}, but its certificate is that of {link.name}"
        if frame.network != self._contract.digest[: wire.TAG_BYTES]:
            differences = " ".join(self._contract.explain_differences(hello.settings, link.name))
            reason = f"its network file differs: {differences.removesuffix('.')}"
            self._handler.on_mismatch(link, reason)
            return reason
        if hello.visits:
            if hello.farewell is not None:
                # The handler logs it.
                self._pending.discard(connection)
                self._dialed.pop(connection, None)
                self._handler.on_farewell(link, hello.farewell)
            # The probe already has this peer's HELLO and needs nothing else.
            connection.close("it is only a check")
            return ""
        greeting = Greeting(link, connection, hello, frame, self._nonces[connection])
        if reason := self._handshake.refuse(greeting):
            return reason
        self._greetings[connection] = greeting
        connection.send(self._handshake.prove(greeting))
        return ""

    def _check_proof(self, greeting: Greeting, frame: Frame) -> str:
        """Check the second frame of a connection; return the reason for a refusal, or ""."""
        if frame.kind is not Kind.PROOF:
            return "its second frame must be PROOF"
        reason = self._handshake.accept(greeting, messages.unpack(frame.message, Proof))
        if not reason:
            # It may be closed by now, if the neighbor is in another run.
            self._pending.discard(greeting.connection)
            self._nonces.pop(greeting.connection, None)
            self._greetings.pop(greeting.connection, None)
        return reason

    def _on_refusal(self, link: Link, frame: Frame) -> None:
        try:
            bye = messages.unpack(frame.message, Bye)
        except WireError:
            return
        reason = sanitize(bye.reason).removesuffix(".")
        link.refusal = f"it refused this peer: {reason}"
        self.refusals.note_neighbor(link.name, f"refused this peer: {reason}")
        if bye.why == "differs":
            self._handler.on_mismatch(link, link.refusal)

    def _refuse(
        self, connection: Connection, reason: str, why: Literal["refuses", "differs"] = "refuses"
    ) -> None:
        bye = messages.pack(Bye(why, sanitize(reason)))
        connection.send(wire.encode(Frame(Kind.BYE, self._contract.digest[: wire.TAG_BYTES], bye)))
        connection.close(reason, refused=True)

    def _closed(self, connection: Connection, reason: str) -> None:
        pending = connection in self._pending
        self._release(connection)
        self._nonces.pop(connection, None)
        self._greetings.pop(connection, None)
        link = self._owner.pop(connection, None)
        dialed = self._dialed.pop(connection, None)
        if link is not None and link.connection is connection:
            self._handler.on_disconnect(link, reason)
        elif not reason:
            pass  # this process leaves
        elif link is not None and pending:
            self.refusals.note_neighbor(link.name, f"was not accepted: {reason}")
        elif dialed is not None:
            dialed.refusal = reason
            self.refusals.note_neighbor(
                dialed.name, f"could not be connected to: {reason}", event="note"
            )
        elif link is None and (known := self._by_certificate.get(connection.certificate)):
            self.refusals.note_neighbor(known.name, f"was not accepted: {reason}")
        elif link is None:
            self.refusals.note_stranger(connection.host, reason)
