"""Connections over real loopback sockets, and ears that hear what their ends are told."""

import asyncio
import ssl
from contextlib import suppress

from peerclust.runtimes.network.identity import read_certificate
from peerclust.runtimes.network.transport import Connection

LIMIT = 2_000_000


def der(identity):
    return read_certificate(identity.certificate)


class Ear:
    """Hears what one end is told, in order."""

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

    async def settled(self):
        """Wait until whatever is under way has happened; nothing more must be told."""
        for _ in range(20):
            await asyncio.sleep(0)
        assert self.said.empty(), self.said.get_nowait()


class Stage:
    """A peer that listens on loopback, with its ear."""

    def __init__(self, context, limit=LIMIT):
        self.context, self.limit, self.ear = context, limit, Ear()

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(
            lambda: self.ear.make(self.context, limit=self.limit), "127.0.0.1", 0
        )
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for connection in self.ear.connections:
            connection.abort("the test is over")
        await asyncio.sleep(0)

    async def dial(self, context, limit=LIMIT):
        """Give the ear of a peer that dials."""
        ear, uri = Ear(), f"wss://127.0.0.1:{self.port}/"
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: ear.make(context, uri, limit), "127.0.0.1", self.port)
        return ear

    async def open_pair(self, context, limit=LIMIT):
        """Give both ears and both ends of an open connection."""
        ear = await self.dial(context, limit)
        return ear, await ear.next("opened"), await self.ear.next("opened")

    async def visit(self, data=b"", tls=None):
        """Come as a stranger that sends bytes and waits for the end."""
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


def play(scene):
    async def limited():
        async with asyncio.timeout(20):
            await scene()

    asyncio.run(limited())


def believing(certificate=None):
    """Give how somebody calls who believes whoever answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context
