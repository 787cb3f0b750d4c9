"""What hostile bytes do to the decoder of frames: millions of valid frames, each changed somehow.

A changed frame goes through `wire.decode` and, if it is a message, through `messages.unpack`, as in
a peer. Nothing but a WireError may come of it, soon and with little memory. How frames are changed
is in `hostile`.
"""

from __future__ import annotations

import math
import multiprocessing
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter

import numpy as np

from peerclust.bench import Measure
from peerclust.bench.hostile import changed_frames, valid_frames
from peerclust.errors import WireError
from peerclust.kernels import threads
from peerclust.runtimes.network import messages, wire
from peerclust.runtimes.network.messages import Message
from peerclust.runtimes.network.wire import Kind
from peerclust.validation import check_count

# Of a payload, as it is given to `decode`; headers claim up to 4 GB.
LIMIT = 1 << 20

# No frame is to take longer; a valid one of these takes about 0.01 ms.
_SLOW_MS = 100.0

# Frames a block; a block has a random stream of its own. One of so many frames is decoded once
# more with its memory traced.
_BLOCK = 10_000
_TRACED = 16

_TYPES: dict[Kind, type[Message]] = {
    Kind.HELLO: messages.Hello,
    Kind.ALIVE: messages.Alive,
    Kind.LOST: messages.Lost,
    Kind.UP: messages.Up,
    Kind.NEED: messages.Need,
    Kind.WELCOME: messages.Welcome,
    Kind.VIEW: messages.View,
    Kind.BYE: messages.Bye,
}


@dataclass(frozen=True)
class Found:
    """What came of some frames; a crash is told with its frame in hex."""

    frames: int
    decoded: int
    unpacked: int
    forged: int
    slowest: float
    allocation: int
    crashes: tuple[str, ...]


def measure(
    say: Callable[[str], None], *, frames: int = 10_000_000, seed: int = 0
) -> Iterator[Measure]:
    """Yield what so many changed frames did, the same for the same seed on any machine."""
    check_count(frames, "frames", "bench")
    check_count(seed, "seed", "bench", at_least=0)
    found: list[Found] = []
    done, told, begin = 0, 0, perf_counter()
    for each in _run_blocks(frames, seed):
        found.append(each)
        done += each.frames
        if done - told >= 500_000 or done == frames:
            told = done
            say(f"{done:,} of {frames:,} frames, {done / (perf_counter() - begin):,.0f} a second")
    crashes = [crash for each in found for crash in each.crashes]
    decoded, unpacked = sum(each.decoded for each in found), sum(each.unpacked for each in found)
    yield Measure(
        "crashes",
        len(crashes),
        f"of {frames:,} frames, seed {seed}; {decoded:,} were decoded, {unpacked:,} as messages"
        + "".join(f"; {crash}" for crash in crashes[:3]),
        at_most=0,
    )
    yield Measure(
        "forged",
        sum(each.forged for each in found),
        "changed frames that were taken, though their checksum was not mended",
        at_most=0,
    )
    yield Measure(
        "largest_allocation",
        max(each.allocation for each in found),
        f"bytes, of one frame in {_TRACED}; the limit of a payload, headers claim up to 4 GB",
        at_most=LIMIT,
    )
    slowest = 1e3 * max(each.slowest for each in found)
    yield Measure(
        "slowest_ms",
        slowest,
        "one frame, decoded and unpacked, the least of ten tries",
        at_most=_SLOW_MS,
    )


def _run_blocks(frames: int, seed: int) -> Iterator[Found]:
    blocks = math.ceil(frames / _BLOCK)
    sizes = [_BLOCK] * (blocks - 1) + [frames - _BLOCK * (blocks - 1)]
    # A process takes about as long to start as 20 blocks.
    workers = min(threads.cores(), math.ceil(blocks / 20))
    if workers == 1:
        yield from map(run_block, repeat(seed), range(blocks), sizes)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        yield from pool.map(run_block, repeat(seed), range(blocks), sizes, chunksize=10)


def run_block(seed: int, block: int, n: int) -> Found:
    """Decode n changed frames of one random stream."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,)))
    good = valid_frames()
    originals = set(good)
    decoded = unpacked = forged = allocation = 0
    slowest, crashes = 0.0, []
    for i, (data, mended) in enumerate(changed_frames(good, n, rng)):
        begin = perf_counter()
        what, crash = _try(data)
        took = perf_counter() - begin
        decoded += what >= 1
        unpacked += what == 2
        forged += what >= 1 and not mended and data not in originals
        if crash:
            crashes.append(f"{crash} of {data.hex()}")
        if took > slowest:
            # Another process may have had the core: the least of ten tries is this frame's own.
            slowest = max(slowest, min(took, *(_time(data) for _ in range(9))))
        if i % _TRACED == 0:
            allocation = max(allocation, _trace(data))
    return Found(n, decoded, unpacked, forged, slowest, allocation, tuple(crashes))


def _try(data: bytes) -> tuple[int, str]:
    """Give how far a frame got, 1 if decoded and 2 if unpacked as well, and what it crashed."""
    got = 0
    try:
        frame = wire.decode(data, limit=LIMIT)
        got = 1
        if frame.kind in _TYPES:
            messages.unpack(frame.payload, _TYPES[frame.kind])
            got = 2
    except WireError:
        return got, ""
    except Exception as error:
        return got, f"{type(error).__name__}: {error}"
    return got, ""


def _time(data: bytes) -> float:
    begin = perf_counter()
    _try(data)
    return perf_counter() - begin


def _trace(data: bytes) -> int:
    """Give how many bytes decoding a frame held at most."""
    tracemalloc.start()
    _try(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
