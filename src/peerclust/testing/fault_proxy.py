"""A wire between two peers on this machine that can be cut, held up or spoiled, for trials.

It carries TCP bytes as they are; what travels is encrypted, so it cannot look inside.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

# Gives what becomes of bytes on their way, from the dialing side or to it; b"" swallows them.
Spoil = Callable[[bytes, bool], bytes]


class FaultProxies:
    """Wires that run in a thread of their own until they are closed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._wires: list[FaultProxy] = []

    def add(self, target: tuple[str, int]) -> FaultProxy:
        """Lay a wire to a target; its `port` on 127.0.0.1 is the near end."""
        wire = FaultProxy(self.loop, target)
        self._wires.append(wire)
        return wire

    def close(self) -> None:
        """Take up all wires."""
        for wire in self._wires:
            wire.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class FaultProxy:
    """One wire."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target: tuple[str, int]) -> None:
        self._loop, self._target = loop, target
        self._cut = False
        self._delay = 0.0
        self._held = {True: False, False: False}
        self._spoil: Spoil = lambda data, _: data
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = self._do(asyncio.start_server(self._carry, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self._cut = True
        self._do(self._break())

    def mend(self) -> None:
        """Carry everything again."""
        self._cut = False
        self._held = {True: False, False: False}
        self._delay, self._spoil = 0.0, lambda data, _: data

    def hold(self, *, forth: bool) -> None:
        """Carry nothing any more in one direction, `forth` from who dials; nobody is told."""
        self._held[forth] = True

    def delay(self, seconds: float) -> None:
        """Carry everything later."""
        self._delay = seconds

    def spoil(self, change: Spoil) -> None:
        """Change bytes on their way."""
        self._spoil = change

    def close(self) -> None:
        """Take up the wire."""
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

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        for task in (
            self._loop.create_task(self._pump(reader, far_writer, True)),
            self._loop.create_task(self._pump(far_reader, writer, False)),
        ):
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, forth: bool
    ) -> None:
        self._open.add(writer)
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(1 << 16):
                if self._delay:
                    await asyncio.sleep(self._delay)
                if not self._held[forth]:
                    writer.write(self._spoil(data, forth))
                    await writer.drain()
        if not self._held[forth]:
            self._open.discard(writer)
            writer.close()
