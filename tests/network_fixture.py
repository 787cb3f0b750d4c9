"""Connections over real loopback sockets, whose events are recorded at both ends."""

import asyncio
import ssl
from contextlib import suppress

from peerclust.runtimes.network.identity import read_certificate
from peerclust.runtimes.network.transport import Connection

LIMIT = 2_000_000


def der(identity):
    return read_certificate(identity.certificate)


class Events:
    """The events of one end, in order."""

    def __init__(self):
        self.said = asyncio.Queue()
        self.connections = []

    def make(self, context, uri=None, limit=LIMIT):
        made = Connection(
            context,
            uri=uri,
            limit=limit,
            opened=lambda connection: self.said.put_nowait(("opened", connection)),
            received=lambda _, data: self.said.put_nowait(("received", bytes(data))),
            closed=lambda _, reason: self.said.put_nowait(("closed", reason)),
        )
        self.connections.append(made)
        return made

    async def next(self, what):
        event, value = await self.said.get()
        assert event == what, (event, value)
        return value

    async def end(self):
        """Abort all connections."""
        for connection in self.connections:
            connection.abort("the test is over")
        await asyncio.sleep(0)

    async def settled(self):
        """Wait until whatever is under way has happened; there must be no more events."""
        for _ in range(20):
            await asyncio.sleep(0)
        assert self.said.empty(), self.said.get_nowait()


class Listener:
    """A peer that listens on loopback, with its events."""

    def __init__(self, context, limit=LIMIT):
        self.context, self.limit, self.events = context, limit, Events()

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(
            lambda: self.events.make(self.context, limit=self.limit), "127.0.0.1", 0
        )
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.events.end()

    async def dial(self, context, limit=LIMIT):
        """Return the events of a peer that dials."""
        events, uri = Events(), f"wss://127.0.0.1:{self.port}/"
        loop = asyncio.get_running_loop()
        await loop.create_connection(
            lambda: events.make(context, uri, limit), "127.0.0.1", self.port
        )
        return events

    async def open_pair(self, context, limit=LIMIT):
        """Open a connection; return the events of the peer that dials, and both ends."""
        events = await self.dial(context, limit)
        return events, await events.next("opened"), await self.events.next("opened")

    async def connect_and_send(self, data=b"", tls=None):
        """Connect as a stranger that sends bytes and waits for the end."""
        with suppress(OSError):  # also what TLS raises
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
            try:
                writer.write(data)
                await writer.drain()
                await reader.read()
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()


def run_scene(scene):
    async def limited():
        async with asyncio.timeout(20):
            await scene()

    asyncio.run(limited())


def run_pair(contexts, scene):
    """Run scene(listener, events, one, two) on an open connection.

    `events` and `one` belong to the peer that dials, `listener` and `two` to the other one.
    """

    async def opened():
        client, server = contexts
        async with Listener(server) as listener:
            await scene(listener, *await listener.open_pair(client))

    run_scene(opened)


def trusting_context(certificate=None):
    """Return the TLS context of a client that trusts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context
