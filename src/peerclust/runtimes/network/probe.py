"""A probe of the neighbors, outside of a run: whether they answer, with the same settings.

A probe sends HELLO with `visits`, receives the neighbor's HELLO and closes the connection; this
does not disturb a peer that is running. It dials every neighbor, including those that dial in a
run, and listens meanwhile, so that two probes test both directions. A site that cannot take part in
a run probes its neighbors to tell them why, with a `farewell`.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from peerclust.errors import WireError
from peerclust.runtimes.network import identity as identities, messages, wire
from peerclust.runtimes.network.connection_errors import explain
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.dialing import Backoff, dial
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.listener import Listener
from peerclust.runtimes.network.messages import Bye, Hello
from peerclust.runtimes.network.statements import Author, draw_nonce
from peerclust.runtimes.network.transport import HANDSHAKE_TIMEOUT, Connection
from peerclust.runtimes.network.wire import Frame, Kind
from peerclust.text import sanitize

# Backoff between attempts to dial, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0

# The maximum size of a payload; HELLO has all settings.
_LIMIT = 1 << 21


@dataclass
class ProbeResult:
    """The result of a probe for one neighbor.

    Attributes
    ----------
    answered, dialed_us : bool
        Whether it sent HELLO when it was dialed, and whether it dialed this site.
    hello : Hello or None
        The last HELLO that it sent.
    differences : list of sentences
        How its settings differ.
    reason, unreachable : str, bool
        Why it could not be reached when it was last dialed, and whether there was no answer at all.
    clock_ahead : float or None
        By how many seconds its clock is ahead of this site's, to about a second.
    """

    answered: bool = False
    dialed_us: bool = False
    hello: Hello | None = None
    differences: list[str] = field(default_factory=list)
    reason: str = "it was not dialed"
    unreachable: bool = True
    clock_ahead: float | None = None


class Probe:
    """A probe of all neighbors; `results` has one entry per neighbor.

    `listen_error` is why this site cannot listen, or "". `already_running` is whether this peer
    itself uses the port. A `farewell` ends once all neighbors of `names` have it; if this peer is
    running, it says nothing.
    """

    def __init__(
        self,
        contract: Contract,
        me: str,
        identity: Identity,
        *,
        listen: tuple[str, int] | None = None,
        dial: Mapping[str, tuple[str, int]] | None = None,
        farewell: Bye | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self._contract, self._me, self._identity = contract, me, identity
        # The clock of a site may be the reason for its farewell.
        self._farewell, self._any_date = farewell, farewell is not None
        names = contract.neighbors(me) if names is None else names
        self._number = contract.number(me)
        self._listen = listen or contract.peers[self._number].endpoint
        self._dial = dial or {}
        self._names = {contract.peer(name).certificate: name for name in names}
        self._network = contract.digest[: wire.TAG_BYTES]
        author = Author(contract, self._number, identities.private_key(identity), 0)
        hello = Hello(
            me, author.incarnation, None, draw_nonce(), "agreeing", False, contract.settings_json,
            visits=True, farewell=farewell,
        )  # fmt: skip
        self._hello = wire.encode(Frame(Kind.HELLO, self._network, messages.pack(hello)))
        self._open: set[Connection] = set()
        # The results of connections that this site has dialed.
        self._dialed: dict[Connection, ProbeResult] = {}
        self._listener: Listener | None = None
        self._changed = asyncio.Event()
        self.results = {name: ProbeResult() for name in names}
        self.listen_error = ""
        self.already_running = False

    def endpoint(self, name: str) -> tuple[str, int]:
        """Return the host and port at which a neighbor is dialed."""
        return self._dial.get(name) or self._contract.peer(name).endpoint

    async def run(self, seconds: float, on_wait: Callable[[list[str]], None]) -> None:
        """Probe all neighbors, for at most `seconds`; `on_wait` gets the names still missing."""
        await self._listen_here()
        silent = self._farewell is not None and self.already_running
        names = [] if silent else list(self.results)
        tasks = [asyncio.create_task(self._dial_repeatedly(name)) for name in names]
        try:
            async with asyncio.timeout(seconds):
                reported: list[str] = []
                while waiting := [name for name in names if not self._is_settled(name)]:
                    if waiting != reported:
                        on_wait(waiting)
                    reported = waiting
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            pass
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._open):
            connection.close()
        # Let the last writes go out before the loop ends.
        await asyncio.sleep(0.05)

    def _is_settled(self, name: str) -> bool:
        """Return whether a neighbor's result is final; two probes wait for both directions."""
        result = self.results[name]
        if self._farewell is not None:
            return result.answered or result.dialed_us
        if result.hello is None or result.differences:
            return bool(result.differences)
        if result.hello.visits and not self.listen_error:
            return result.answered and result.dialed_us
        return result.answered or (result.dialed_us and name < self._me)

    async def _listen_here(self) -> None:
        host, port = self._listen
        trusted = list(self._names)
        context = identities.server_context(self._identity, trusted, any_date=self._any_date)
        self._listener = Listener(
            lambda first: self._connection(context, first=first),
            lambda *_: None,
            self._contract.server_name(self._me),
        )
        try:
            await self._listener.open(host, port)
        except OSError as error:
            self.listen_error = explain(error)
            if error.errno == errno.EADDRINUSE:
                self.already_running = await self._is_running_here()

    async def _is_running_here(self) -> bool:
        """Return whether the process that listens at this site's port has its certificate."""
        host, port = self._listen
        own = self._contract.peers[self._number].certificate
        context = identities.client_context(self._identity, own, any_date=self._any_date)
        try:
            connection = await self._connect(context, self._me, host, port)
        except OSError:
            return False
        # It refuses this certificate, which is not a neighbor's, but has proved its own by then.
        return connection.certificate == own

    async def _dial_repeatedly(self, name: str) -> None:
        result, backoff = self.results[name], Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        host, port = self.endpoint(name)
        certificate = self._contract.peer(name).certificate
        context = identities.client_context(self._identity, certificate, any_date=self._any_date)
        while not result.answered:
            try:
                await self._connect(context, name, host, port, result)
            except OSError as error:
                result.unreachable = True
                result.reason = explain(error)
            await backoff.sleep()

    async def _connect(
        self,
        context: ssl.SSLContext,
        name: str,
        host: str,
        port: int,
        result: ProbeResult | None = None,
    ) -> Connection:
        """Dial a peer, and wait until the connection is closed."""
        called = self._contract.server_name(name)
        connection = await dial(
            lambda uri: self._connection(context, uri, called, result), host, port
        )
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                await connection.gone.wait()
        except TimeoutError:
            connection.abort(f"it did not send HELLO within {HANDSHAKE_TIMEOUT:g} s")
        return connection

    def _connection(
        self,
        context: ssl.SSLContext,
        uri: str | None = None,
        server_name: str | None = None,
        result: ProbeResult | None = None,
        first: bytes = b"",
    ) -> Connection:
        connection = Connection(
            context,
            uri=uri,
            limit=_LIMIT + wire.HEADER_BYTES,
            opened=self._opened,
            received=self._received,
            closed=self._closed,
            secured=self._release,
            server_name=server_name,
            first=first,
        )
        self._open.add(connection)
        if result is not None:
            self._dialed[connection] = result
        return connection

    def _release(self, connection: Connection) -> None:
        if self._listener is not None:
            self._listener.release(connection)

    def _opened(self, connection: Connection) -> None:
        if connection.certificate in self._names:
            connection.send(self._hello)
        else:
            connection.close("its certificate is not a neighbor's", refused=True)

    def _received(self, connection: Connection, data: bytes | memoryview) -> None:
        try:
            frame = wire.decode(data, limit=_LIMIT)
            if frame.kind is Kind.BYE:
                connection.close(sanitize(messages.unpack(frame.message, Bye).reason))
                return
            if frame.kind is not Kind.HELLO:
                connection.close("its first frame must be HELLO", refused=True)
                return
            hello = messages.unpack(frame.message, Hello)
        except WireError as error:
            connection.close(str(error), refused=True)
            return
        self._record_hello(connection, hello, frame)
        connection.close()

    def _record_hello(self, connection: Connection, hello: Hello, frame: Frame) -> None:
        name = self._names[connection.certificate]
        result = self.results[name]
        result.hello = hello
        if connection in self._dialed:
            result.answered, result.clock_ahead = True, _clock_ahead(connection.date)
        else:
            result.dialed_us = True
        result.differences = []
        if hello.name != name:
            result.differences = [f"It calls itself {hello.name!r}."]
        elif frame.network != self._network:
            result.differences = self._contract.explain_differences(hello.settings, name)
        self._changed.set()

    def _closed(self, connection: Connection, reason: str) -> None:
        self._open.discard(connection)
        self._release(connection)
        result = self._dialed.pop(connection, None)
        if result is not None and not result.answered:
            result.reason, result.unreachable = reason, False


def _clock_ahead(date: str) -> float | None:
    """Return by how many seconds a clock that shows an HTTP date is ahead of this one."""
    with suppress(ValueError, TypeError, OverflowError):
        return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    return None
