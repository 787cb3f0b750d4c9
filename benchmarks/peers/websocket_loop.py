"""A bare exchange of bytes over websockets and TLS: the baseline of `peers`.

This is what one would write without peerclust: the client and server of the websockets library,
mutual TLS 1.3 with the peers' certificates, and in each round one message to and from every
neighbor. There is no computation, no check, no stopping rule and no fault tolerance.
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

# Number of rounds before the clock starts.
_WARM_UP = 20

# Seconds between attempts to connect to a neighbor that is not listening yet.
_RETRY = 0.05


def rounds_per_second(contract: Contract, keys: Path, *, size: int, rounds: int) -> float:
    """Exchange messages of `size` bytes, one process per peer; return rounds per second."""
    context = multiprocessing.get_context("forkserver")
    m = len(contract.peers)
    with ProcessPoolExecutor(m, mp_context=context) as pool:
        arguments = repeat(contract), contract.names, repeat(keys), repeat(size), repeat(rounds)
        return rounds / max(pool.map(_run_peer, *arguments))


def _run_peer(contract: Contract, me: str, keys: Path, size: int, rounds: int) -> float:
    return asyncio.run(_time_peer(contract, me, keys, size, rounds))


async def _time_peer(contract: Contract, me: str, keys: Path, size: int, rounds: int) -> float:
    identity = Identity(me, keys / f"{me}.key", keys / f"{me}.crt")
    peers = {peer.name: peer for peer in contract.peers}
    neighbors = contract.neighbors(me)
    plain: dict[str, Any] = {"compression": None, "max_size": None}
    links: asyncio.Queue[Any] = asyncio.Queue()

    async def accept(link: Any) -> None:
        await links.put(link)
        await link.wait_closed()

    host, port = peers[me].endpoint
    trusted = server_context(identity, [peers[name].certificate for name in neighbors])
    async with serve(accept, host, port, ssl=trusted, **plain):
        for name in neighbors:
            if me < name:
                there, port = peers[name].endpoint
                pinned = client_context(identity, peers[name].certificate)
                await links.put(await _connect(f"wss://{there}:{port}/", ssl=pinned, **plain))
        open_links = [await links.get() for _ in neighbors]
        await _exchange(open_links, bytes(size), _WARM_UP)
        begin = perf_counter()
        await _exchange(open_links, bytes(size), rounds)
        seconds = perf_counter() - begin
        for link in open_links:
            await link.close()
    return seconds


async def _exchange(links: list[Any], message: bytes, rounds: int) -> None:
    for _ in range(rounds):
        for link in links:
            await link.send(message)
        for link in links:
            await link.recv()


async def _connect(uri: str, **options: Any) -> Any:
    while True:
        try:
            return await connect(uri, proxy=None, **options)
        except OSError:
            await asyncio.sleep(_RETRY)
