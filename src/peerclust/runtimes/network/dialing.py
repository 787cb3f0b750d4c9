"""Dialing a peer: the URI, one attempt, and the pauses between attempts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from peerclust.runtimes.network.transport import HANDSHAKE_TIMEOUT, Connection


async def dial(make: Callable[[str], Connection], host: str, port: int) -> Connection:
    """Return a connection to a peer, made for its URI; raise OSError if it is not reached."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(HANDSHAKE_TIMEOUT):
        _, connection = await loop.create_connection(lambda: make(make_uri(host, port)), host, port)
    return connection


class Backoff:
    """The pauses between attempts to dial, each about twice as long as the one before."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self.reset()

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._pause = self._first

    async def sleep(self) -> None:
        """Sleep for the next pause."""
        await asyncio.sleep(self._pause * random.uniform(0.75, 1.25))
        self._pause = min(2 * self._pause, self._longest)


def make_uri(host: str, port: int) -> str:
    """Return the URI of a peer's websocket.

    >>> make_uri("::1", 4000)
    'wss://[::1]:4000/'
    """
    return f"wss://{f'[{host}]' if ':' in host else host}:{port}/"
