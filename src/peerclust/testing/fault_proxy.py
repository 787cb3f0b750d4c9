"""A TCP proxy between two peers on this machine that can cut, stall, delay or corrupt a link.

It forwards bytes as they are; they are encrypted, so it cannot read the messages.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

# Maps bytes, and whether they come from the dialing side, to the bytes to forward; b"" drops them.
Corrupt = Callable[[bytes, bool], bytes]


class FaultProxies:
    """Proxies that run in a thread of their own until they are closed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._proxies: list[FaultProxy] = []

    def add(self, target: tuple[str, int]) -> FaultProxy:
        """Return a new proxy for a target; it listens at its `port` on 127.0.0.1."""
        proxy = FaultProxy(self.loop, target)
        self._proxies.append(proxy)
        return proxy

    def close(self) -> None:
        """Close all proxies and end the thread."""
        for proxy in self._proxies:
            proxy.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class FaultProxy:
    """The proxy of one link."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: tuple[str, int]) -> None:
        self._loop, self._target = loop, target
        self._cut = False
        self._delay = self._jitter = 0.0
        self._stalled = {True: False, False: False}
        self._corrupt: Corrupt = lambda data, _: data
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = self._do(asyncio.start_server(self._connect, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self._cut = True
        self._do(self._break())

    def restore(self) -> None:
        """Forward everything again, unchanged and without delay."""
        self._cut = False
        self._stalled = {True: False, False: False}
        self._delay = self._jitter = 0.0
        self._corrupt = lambda data, _: data

    def stall(self, *, from_dialer: bool) -> None:
        """Forward nothing in one direction, from the dialing side or to it; stay connected."""
        self._stalled[from_dialer] = True

    def delay(self, seconds: float, jitter: float = 0.0) -> None:
        """Forward everything with a delay, to which a random one is added, on average `jitter`."""
        self._delay, self._jitter = seconds, jitter

    def corrupt(self, change: Corrupt) -> None:
        """Forward changed bytes."""
        self._corrupt = change

    def close(self) -> None:
        """Close the proxy and its connections."""
        self._do(self._end())

    def _do(self, work: Any) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(10)

    async def _break(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        await self._break()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        for task in (
            self._loop.create_task(self._forward(reader, far_writer, True)),
            self._loop.create_task(self._forward(far_reader, writer, False)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_dialer: bool
    ) -> None:
        self._open.add(writer)
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(1 << 16):
                if delay := self._delay + self._jitter * random.expovariate(1.0):
                    await asyncio.sleep(delay)
                if not self._stalled[from_dialer]:
                    writer.write(self._corrupt(data, from_dialer))
                    await writer.drain()
        if not self._stalled[from_dialer]:
            self._open.discard(writer)
            writer.close()
