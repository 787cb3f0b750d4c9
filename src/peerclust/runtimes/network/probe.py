"""Looks in on the neighbors without taking part in a run: whether they answer, and agree.

A visitor says hello with `visits`, hears the other's hello, and is gone; a peer that runs is not
disturbed by it. It dials every neighbor, whichever of the two dials in a run, and listens all the
while, so that two visitors see each other in both directions.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from peerclust.errors import WireError
from peerclust.runtimes.network import identity as identities, messages, wire
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import Identity
from peerclust.runtimes.network.messages import Bye, Hello
from peerclust.runtimes.network.transport import HANDSHAKE_TIMEOUT, Connection, explain, make_uri
from peerclust.runtimes.network.wire import Frame, Kind

# Pauses between attempts to dial, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0

# A hello holds all settings.
_LIMIT = 1 << 21


@dataclass
class Seen:
    """What a visit has learned of one neighbor.

    Attributes
    ----------
    answered, came : bool
        Whether it said hello when it was dialed, and whether it dialed this site.
    hello : Hello or None
        The last that it said.
    differs : list of sentences
        In what it does not agree.
    reason, silent : str, bool
        Why it could not be reached when it was last dialed, and whether nothing answered at all.
    ahead : float or None
        How many seconds its clock is ahead of this site's, to a second or so.
    """

    answered: bool = False
    came: bool = False
    hello: Hello | None = None
    differs: list[str] = field(default_factory=list)
    reason: str = "it was not dialed"
    silent: bool = True
    ahead: float | None = None


class Visit:
    """One visit of all neighbors; `seen` holds what came of it.

    `port` tells what keeps this site from listening, or ""; `runs` that this very peer does.
    """

    def __init__(
        self,
        contract: Contract,
        me: str,
        identity: Identity,
        *,
        listen: tuple[str, int] | None = None,
        dial: Mapping[str, tuple[str, int]] | None = None,
    ) -> None:
        self._contract, self._me, self._identity = contract, me, identity
        self._number = contract.number(me)
        self._listen = listen or contract.peers[self._number].endpoint
        self._dial = dial or {}
        self._names = {
            contract.peers[contract.number(name)].certificate: name
            for name in contract.neighbors(me)
        }
        self._network = contract.digest[: wire.TAG_BYTES]
        said = Hello(me, secrets.token_hex(8), "", "agreeing", False, contract.told, visits=True)
        self._hello = wire.encode(Frame(Kind.HELLO, self._network, messages.pack(said)))
        self._open: set[Connection] = set()
        self._changed = asyncio.Event()
        self.seen = {name: Seen() for name in contract.neighbors(me)}
        self.port = ""
        self.runs = False

    def endpoint(self, name: str) -> tuple[str, int]:
        """Give where a neighbor is dialed."""
        return self._dial.get(name) or self._contract.peers[self._contract.number(name)].endpoint

    async def pay(self, seconds: float, tell: Callable[[list[str]], None]) -> None:
        """Visit everyone, for at most so many seconds; `tell` hears who is waited for."""
        server = await self._begin_to_listen()
        tasks = [asyncio.create_task(self._keep_dialing(name)) for name in self.seen]
        try:
            async with asyncio.timeout(seconds):
                told: list[str] = []
                while waiting := [name for name in self.seen if not self._is_settled(name)]:
                    if waiting != told:
                        tell(waiting)
                    told = waiting
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            pass
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if server is not None:
            server.close()
        for connection in list(self._open):
            connection.close()
        # What was written last goes out before the loop ends.
        await asyncio.sleep(0.05)

    def _is_settled(self, name: str) -> bool:
        """Tell whether more cannot be learned; two visitors wait to see each other both ways."""
        seen = self.seen[name]
        if seen.hello is None or seen.differs:
            return bool(seen.differs)
        if seen.hello.visits and not self.port:
            return seen.answered and seen.came
        return seen.answered or (seen.came and name < self._me)

    async def _begin_to_listen(self) -> asyncio.Server | None:
        host, port = self._listen
        context = identities.server_context(self._identity, list(self._names))
        loop = asyncio.get_running_loop()
        try:
            return await loop.create_server(lambda: self._connection(context, None), host, port)
        except OSError as error:
            number = error.errno or 0
            # asyncio's own words repeat the address; a name that is not known has its own.
            self.port = explain(error)
            if number == errno.EADDRINUSE:
                self.runs = await self._find_itself()
        return None

    async def _find_itself(self) -> bool:
        """Tell whether who listens at this site's port has this peer's certificate."""
        host, port = self._listen
        own = self._contract.peers[self._number].certificate
        context = identities.client_context(self._identity, own)
        try:
            connection = await self._connect(context, host, port)
        except OSError:
            return False
        # It refuses this certificate, which is no neighbor's, but has proved its own by then.
        return connection.certificate == own

    async def _keep_dialing(self, name: str) -> None:
        seen, pause = self.seen[name], _FIRST_PAUSE
        host, port = self.endpoint(name)
        certificate = self._contract.peers[self._contract.number(name)].certificate
        context = identities.client_context(self._identity, certificate)
        while not seen.answered:
            try:
                await self._connect(context, host, port, seen)
            except OSError as error:
                seen.silent = True
                seen.reason = explain(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connect(
        self, context: Any, host: str, port: int, seen: Seen | None = None
    ) -> Connection:
        """Dial, and wait until the connection is closed again; TimeoutError is an OSError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(HANDSHAKE_TIMEOUT):
            _, connection = await loop.create_connection(
                lambda: self._connection(context, make_uri(host, port), seen), host, port
            )
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                await connection.gone.wait()
        except TimeoutError:
            connection.abort(f"it did not say hello in {HANDSHAKE_TIMEOUT:g} s")
        return connection

    def _connection(self, context: Any, uri: str | None, seen: Seen | None = None) -> _Visited:
        connection = _Visited(
            context,
            uri=uri,
            limit=_LIMIT + wire.HEADER_BYTES,
            opened=self._opened,
            received=self._received,
            closed=self._closed,
        )
        connection.seen, connection.dialed = seen, uri is not None
        self._open.add(connection)
        return connection

    def _opened(self, connection: Any) -> None:
        name = self._names.get(connection.certificate)
        if name is None:
            connection.close("its certificate is no neighbor's", refused=True)
            return
        connection.seen = self.seen[name]
        connection.send(self._hello)

    def _received(self, connection: Any, data: Any) -> None:
        try:
            frame = wire.decode(data, limit=_LIMIT)
            if frame.kind is Kind.BYE:
                connection.close(messages.tame(messages.unpack(frame.payload, Bye).reason))
                return
            if frame.kind is not Kind.HELLO:
                connection.close("its first frame must say hello", refused=True)
                return
            hello = messages.unpack(frame.payload, Hello)
        except WireError as error:
            connection.close(str(error), refused=True)
            return
        self._judge(connection, hello, frame)
        connection.close()

    def _judge(self, connection: Any, hello: Hello, frame: Frame) -> None:
        seen, name = connection.seen, self._names[connection.certificate]
        seen.hello = hello
        if connection.dialed:
            seen.answered, seen.ahead = True, _how_far_ahead(connection.date)
        else:
            seen.came = True
        seen.differs = []
        if hello.name != name:
            seen.differs = [f"It calls itself {hello.name!r}."]
        elif frame.network != self._network:
            seen.differs = self._contract.compare(hello.settings, name)
        self._changed.set()

    def _closed(self, connection: Any, reason: str) -> None:
        self._open.discard(connection)
        if connection.dialed and connection.seen is not None and not connection.seen.answered:
            connection.seen.reason, connection.seen.silent = reason, False


class _Visited(Connection):
    """A connection that knows whom it is with."""

    seen: Seen | None = None
    dialed = False


def _how_far_ahead(date: str) -> float | None:
    """Give by how many seconds a clock that shows an HTTP date is ahead of this one."""
    with suppress(ValueError, TypeError, OverflowError):
        return (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds()
    return None
