"""Listens and dials: turns strangers away and gives the node a connection for each neighbor.

Of two neighbors the one with the smaller name dials, again and again, with longer and longer
pauses. A connection counts once both have said hello: a TLS 1.3 client's handshake succeeds even if
the server then refuses its certificate.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from peerclust.errors import ParameterError, WireError
from peerclust.runtimes.network import identity as identities, messages, wire
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.link import Link
from peerclust.runtimes.network.messages import Bye, Hello
from peerclust.runtimes.network.transport import HANDSHAKE_TIMEOUT, Connection, explain, make_uri
from peerclust.runtimes.network.wire import Frame, Kind

# Pauses between attempts to dial, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 3.0

# So many reasons are logged once; those of neighbors always are.
_MOST_TOLD = 1000

# So many connections may be in their handshakes at once; more are turned away unread.
_PENDING = 32


class Listener(Protocol):
    """Who is told of connections: the node."""

    def hello(self, link: Link) -> bytes:
        """Give the frame that says who this is and where it stands."""

    def greeted(self, link: Link, connection: Connection, hello: Hello, frame: Frame) -> str:
        """Take up a neighbor that said hello; give a reason if it is refused."""

    def received(self, link: Link, frame: Frame) -> None:
        """Take in a frame of a neighbor."""

    def ban(self, link: Link, reason: str) -> None:
        """Drop a neighbor whose bytes are no frame."""

    def dropped(self, link: Link, reason: str) -> None:
        """Take note that a neighbor's connection is gone."""


class Switchboard:
    """The connections of one peer."""

    def __init__(
        self,
        contract: Contract,
        links: Mapping[str, Link],
        identity: Identity,
        listener: Listener,
        *,
        listen: tuple[str, int],
        dial: Mapping[str, tuple[str, int]],
        limit: int,
        log: Callable[[str], None],
    ) -> None:
        self._contract, self._links, self._identity = contract, links, identity
        self._listener, self._listen, self._dial = listener, listen, dial
        self._limit, self._log = limit, log
        self._owner: dict[Connection, Link] = {}
        self._dialed: dict[Connection, Link] = {}
        self._pending: set[Connection] = set()
        self._told: set[tuple[str, str]] = set()
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._by_certificate = {
            contract.peers[link.number].certificate: link for link in links.values()
        }

    async def open(self) -> None:
        """Begin to listen and to dial."""
        loop = asyncio.get_running_loop()
        host, port = self._listen
        # All that are listed are let in, so that one that is no neighbor can be told so by name.
        listed = [peer.certificate for peer in self._contract.peers]
        context = identities.server_context(self._identity, listed)

        def accept() -> Connection:
            connection = self._connection(context, None)
            if len(self._pending) >= _PENDING:
                loop.call_soon(connection.abort, "too many others are connecting")
            self._pending.add(connection)
            return connection

        try:
            self._server = await loop.create_server(accept, host, port)
        except OSError as error:
            raise ParameterError(
                f"{host}:{port} cannot be listened on: {explain(error)}."
                + (
                    " Is this peer running already?"
                    if error.errno == errno.EADDRINUSE
                    else " Give an address of this machine with --listen, such as 0.0.0.0:PORT."
                )
            ) from None
        for link in self._links.values():
            if link.dials:
                self._tasks.append(loop.create_task(self._keep_dialing(link)))

    async def close(self) -> None:
        """Stop listening and dialing; connections are closed in good order."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for connection in [*self._owner, *self._pending]:
            connection.close()
        # What was written last goes out before the loop ends.
        await asyncio.sleep(0.05)
        # A connection may be on its way in just now.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            await asyncio.wait(left, timeout=1)

    async def _keep_dialing(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        host, port = self._dial.get(link.name) or self._contract.peers[link.number].endpoint
        certificate = self._contract.peers[link.number].certificate
        context = identities.client_context(self._identity, certificate)
        pause = _FIRST_PAUSE
        while not link.banned:
            begin = loop.time()
            try:
                async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                    _, connection = await loop.create_connection(
                        lambda: self._connection(context, make_uri(host, port)), host, port
                    )
            except OSError as error:
                said = explain(error)
                self._tell(link.name, f"cannot be reached at {host}:{port} ({said})")
            else:
                self._dialed[connection] = link
                await connection.gone.wait()
                # One that was soon refused is not asked again at once.
                if loop.time() - begin > _LONGEST_PAUSE:
                    pause = _FIRST_PAUSE
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _connection(self, context: Any, uri: str | None) -> Connection:
        return Connection(
            context,
            uri=uri,
            limit=self._limit + wire.HEADER_BYTES,
            opened=self._opened,
            received=self._received,
            closed=self._closed,
        )

    def _opened(self, connection: Connection) -> None:
        link = self._by_certificate.get(connection.certificate)
        if link is None:
            named = {peer.certificate: peer.name for peer in self._contract.peers}
            name = named.get(connection.certificate, "the peer")
            self._pending.add(connection)
            why = "this is that peer" if name == self._identity.name else "its file is another one"
            self._refuse(connection, f"{name} is no neighbor here: {why}")
            return
        self._owner[connection] = link
        self._pending.add(connection)
        connection.send(self._listener.hello(link))
        loop = asyncio.get_running_loop()
        loop.call_later(HANDSHAKE_TIMEOUT, self._end_silence, connection)

    def _end_silence(self, connection: Connection) -> None:
        if connection in self._pending:
            connection.abort(f"it did not say hello in {HANDSHAKE_TIMEOUT:g} s")

    def _received(self, connection: Connection, data: Any) -> None:
        link = self._owner[connection]
        try:
            frame = wire.decode(data, limit=self._limit)
        except WireError as error:
            if connection in self._pending:
                self._refuse(connection, str(error))
            else:
                self._listener.ban(link, str(error))
            return
        if connection not in self._pending:
            self._listener.received(link, frame)
            return
        reason = self._greet(link, connection, frame)
        if reason:
            self._refuse(connection, reason)

    def _greet(self, link: Link, connection: Connection, frame: Frame) -> str:
        """Check the first frame of a connection; give the reason for a refusal, or nothing."""
        if frame.kind is Kind.BYE:
            self._hear_refusal(link, frame)
            return ""
        if frame.kind is not Kind.HELLO:
            return "its first frame must say hello"
        try:
            hello = messages.unpack(frame.payload, Hello)
        except WireError as error:
            return str(error)
        if hello.name != link.name:
            return f"it calls itself {hello.name!r}, and its certificate is that of {link.name}"
        if frame.network != self._contract.digest[: wire.TAG_BYTES]:
            told = self._contract.compare(hello.settings, link.name)
            link.refusal = f"it has another network file: {' '.join(told).removesuffix('.')}"
            return link.refusal
        if hello.visits:
            # This peer's own hello has been sent, which is all that it came for.
            connection.close("it only checks")
            return ""
        reason = self._listener.greeted(link, connection, hello, frame)
        if not reason:
            self._pending.discard(connection)
        return reason

    def _hear_refusal(self, link: Link, frame: Frame) -> None:
        try:
            bye = messages.unpack(frame.payload, Bye)
        except WireError:
            return
        link.refusal = f"it refused this peer: {messages.tame(bye.reason)}"
        self._tell(link.name, link.refusal)

    def _refuse(self, connection: Connection, reason: str) -> None:
        bye = messages.pack(Bye("refuses", messages.tame(reason)))
        connection.send(wire.encode(Frame(Kind.BYE, self._contract.digest[: wire.TAG_BYTES], bye)))
        connection.close(reason, refused=True)

    def _closed(self, connection: Connection, reason: str) -> None:
        pending = connection in self._pending
        self._pending.discard(connection)
        link = self._owner.pop(connection, None)
        dialed = self._dialed.pop(connection, None)
        if link is not None and link.connection is connection:
            self._listener.dropped(link, reason)
        elif link is not None and pending:
            self._tell(link.name, f"was not taken up: {reason}")
        elif dialed is not None:
            dialed.refusal = reason
            self._tell(dialed.name, f"could not be connected with: {reason}")
        elif link is None:
            self._tell(connection.host, f"was refused: {reason}")

    def _tell(self, who: str, what: str) -> None:
        """Log a reason once for each who; strangers come again and again."""
        known = who in self._links
        if (who, what) not in self._told and (known or len(self._told) < _MOST_TOLD):
            self._told.add((who, what))
            self._log(f"{who} {what}.")
