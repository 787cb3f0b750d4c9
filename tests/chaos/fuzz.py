"""Fuzzes the decoders of frames with millions of mutated valid frames.

A mutated frame, in a websocket frame that comes in pieces, goes through the websockets library,
`wire.decode` and, if it is a message, through `messages.unpack`, as in a peer. Nothing but a
WireError may be raised, quickly and with little memory. `frame_mutations` has the mutations.
"""

from __future__ import annotations

import math
import multiprocessing
import tracemalloc
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat
from time import perf_counter

import numpy as np
from websockets.frames import CloseCode
from websockets.protocol import State
from websockets.server import ServerProtocol

from benchmarks.measures import Measure, Progress
from peerclust.errors import WireError
from peerclust.kernels import threads
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.messages import Message
from peerclust.runtimes.network.transport import read_messages
from peerclust.runtimes.network.wire import Kind
from peerclust.validation import check_count

from .frame_mutations import mutated_frames, valid_frames

# The limit of a payload that `decode` is called with; headers claim up to 4 GB.
LIMIT = 1 << 20

# No frame may take longer; a valid one takes about 0.01 ms.
_SLOW_MS = 100.0

# Frames per block; each block has a random stream of its own.
_BLOCK = 10_000

# One frame in this many is decoded once more with its memory traced.
_TRACE_EVERY = 16

_TYPES: dict[Kind, type[Message]] = {
    Kind.HELLO: messages.Hello,
    Kind.HEARTBEAT: messages.Heartbeat,
    Kind.STATEMENT: messages.Statement,
    Kind.LINK_UP: messages.LinkUp,
    Kind.STATE_REQUEST: messages.StateRequest,
    Kind.STATE_REPLY: messages.StateReply,
    Kind.PROOF: messages.Proof,
    Kind.BYE: messages.Bye,
    Kind.EVIDENCE: messages.Evidence,
}


@dataclass(frozen=True)
class BlockResult:
    """The results of a block of frames; a crash is described with its frame in hex."""

    frames: int
    decoded: int
    unpacked: int
    forged: int
    slowest: float
    allocation: int
    crashes: tuple[str, ...]


def measure(progress: Progress, *, frames: int = 10_000_000, seed: int = 0) -> Iterator[Measure]:
    """Yield the failures of mutated frames, which are the same for the same seed everywhere."""
    check_count(frames, "frames", "chaos")
    check_count(seed, "seed", "chaos", at_least=0)
    results: list[BlockResult] = []
    done, reported, begin = 0, 0, perf_counter()
    for each in _run_blocks(frames, seed):
        results.append(each)
        done += each.frames
        if done - reported >= 500_000 or done == frames:
            reported = done
            rate = done / (perf_counter() - begin)
            progress(f"{done:,} of {frames:,} frames, {rate:,.0f} per second")
    crashes = [crash for each in results for crash in each.crashes]
    decoded, unpacked = (
        sum(each.decoded for each in results),
        sum(each.unpacked for each in results),
    )
    yield Measure(
        "crashes",
        len(crashes),
        f"of {frames:,} frames, seed {seed}; {decoded:,} were decoded, {unpacked:,} as messages"
        + "".join(f"; {crash}" for crash in crashes[:3]),
        at_most=0,
    )
    yield Measure(
        "forged",
        sum(each.forged for each in results),
        "mutated frames that were accepted although their checksum was not corrected",
        at_most=0,
    )
    yield Measure(
        "largest_allocation",
        max(each.allocation for each in results),
        f"bytes for a frame of a few KB, one in {_TRACE_EVERY} traced, although headers claim up to"
        " 2**64",
        at_most=1 << 16,
    )
    slowest = 1e3 * max(each.slowest for each in results)
    yield Measure(
        "slowest_ms",
        slowest,
        "to decode and unpack a frame, the fastest of ten attempts",
        at_most=_SLOW_MS,
    )


def _run_blocks(frames: int, seed: int) -> Iterator[BlockResult]:
    blocks = math.ceil(frames / _BLOCK)
    sizes = [_BLOCK] * (blocks - 1) + [frames - _BLOCK * (blocks - 1)]
    # Starting a process takes about as long as 20 blocks.
    workers = min(threads.cores(), math.ceil(blocks / 20))
    if workers == 1:
        yield from map(run_block, repeat(seed), range(blocks), sizes)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(run_block, repeat(seed), range(blocks), sizes, chunksize=10)


def run_block(seed: int, block: int, n: int) -> BlockResult:
    """Decode n mutated frames from one random stream."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,)))
    good = valid_frames()
    originals = set(good)
    decoded = unpacked = forged = 0
    slowest, crashes, traced = 0.0, [], []
    for i, (corrected, websocket) in enumerate(mutated_frames(good, n, rng)):
        begin = perf_counter()
        read = _read(websocket)
        took = perf_counter() - begin
        decoded += bool(read.decoded)
        unpacked += read.unpacked
        forged += not corrected and not originals.issuperset(read.decoded)
        if read.crash:
            crashes.append(f"{read.crash}, from {websocket.hex()}")
        if took > slowest:
            # Another process may have had the core, so take the fastest of ten attempts.
            slowest = max(slowest, min(took, *(_time(websocket) for _ in range(9))))
        if i % _TRACE_EVERY == 0:
            traced.append(websocket)
    return BlockResult(n, decoded, unpacked, forged, slowest, _trace(traced), tuple(crashes))


@dataclass
class _Read:
    """The frames that were decoded, whether a message was unpacked, and the crash, if any."""

    decoded: list[bytes] = field(default_factory=list)
    unpacked: bool = False
    crash: str = ""


def _read(websocket: bytes) -> _Read:
    """Read the bytes of websocket frames as a peer does."""
    read = _Read()
    ws = open_websocket(LIMIT + wire.HEADER_BYTES)
    # Some come in small pieces.
    step = 7 if websocket[-1] < 16 else 1 << 13
    try:
        for at in range(0, len(websocket), step):
            for data in read_messages(ws, websocket[at : at + step]):
                frame = wire.decode(data, limit=LIMIT)
                read.decoded.append(bytes(data))
                if frame.kind in _TYPES:
                    messages.unpack(frame.message, _TYPES[frame.kind])
                    read.unpacked = True
    except WireError:
        # This is how the library ends a connection after an exception that it does not expect.
        if ws.close_sent is not None and ws.close_sent.code == CloseCode.INTERNAL_ERROR:
            read.crash = repr(ws.parser_exc)
    except Exception as error:
        read.crash = f"{type(error).__name__}: {error}"
    return read


def open_websocket(limit: int) -> ServerProtocol:
    """Return an open websocket as in a peer that was dialed."""
    return ServerProtocol(state=State.OPEN, max_size=limit)


def _time(websocket: bytes) -> float:
    begin = perf_counter()
    _read(websocket)
    return perf_counter() - begin


def _trace(websockets: Iterable[bytes]) -> int:
    """Return the peak memory of decoding one of some frames, in bytes."""
    largest = 0
    # Each start takes memory that is not freed.
    tracemalloc.start()
    for websocket in websockets:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        _read(websocket)
        largest = max(largest, tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return largest
