"""A bare exchange of bytes over websockets and TLS, as a yardstick for `peers`.

What one would write without peerclust: the library's own client and server, mutual TLS 1.3 with the
peers' certificates, and in each round a message to every neighbor and one from each. No computing,
no checks, no stopping, and nobody may fail.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import Any

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.identity import Identity, client_context, server_context

# Rounds before the clock starts.
_WARM_UP = 20

# Seconds between two attempts to reach a neighbor that does not listen yet.
_PAUSE = 0.05


def exchange(contract: Contract, keys: Path, *, size: int, rounds: int) -> float:
    """Exchange messages of so many bytes, a process for each peer; give rounds a second."""
    context = multiprocessing.get_context("forkserver")
    m = len(contract.peers)
    with ProcessPoolExecutor(m, mp_context=context) as pool:
        given = repeat(contract), contract.names, repeat(keys), repeat(size), repeat(rounds)
        return rounds / max(pool.map(_run_process, *given))


def _run_process(contract: Contract, me: str, keys: Path, size: int, rounds: int) -> float:
    return asyncio.run(_take_part(contract, me, keys, size, rounds))


async def _take_part(contract: Contract, me: str, keys: Path, size: int, rounds: int) -> float:
    identity = Identity(me, keys / f"{me}.key", keys / f"{me}.crt")
    peers = {peer.name: peer for peer in contract.peers}
    neighbors = contract.neighbors(me)
    plain: dict[str, Any] = {"compression": None, "max_size": None}
    links: asyncio.Queue[Any] = asyncio.Queue()

    async def answer(link: Any) -> None:
        await links.put(link)
        await link.wait_closed()

    host, port = peers[me].endpoint
    trusted = server_context(identity, [peers[name].certificate for name in neighbors])
    async with serve(answer, host, port, ssl=trusted, **plain):
        for name in neighbors:
            if me < name:
                there, at = peers[name].endpoint
                pinned = client_context(identity, peers[name].certificate)
                await links.put(await _dial(f"wss://{there}:{at}/", ssl=pinned, **plain))
        held = [await links.get() for _ in neighbors]
        await _exchange(held, bytes(size), _WARM_UP)
        begin = perf_counter()
        await _exchange(held, bytes(size), rounds)
        seconds = perf_counter() - begin
        for link in held:
            await link.close()
    return seconds


async def _exchange(links: list[Any], message: bytes, rounds: int) -> None:
    for _ in range(rounds):
        for link in links:
            await link.send(message)
        for link in links:
            await link.recv()


async def _dial(uri: str, **options: Any) -> Any:
    while True:
        try:
            return await connect(uri, proxy=None, **options)
        except OSError:
            await asyncio.sleep(_PAUSE)
