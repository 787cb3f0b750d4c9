"""Rounds a second of real peer processes, beside a bare exchange loop and with strangers about."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np

from peerclust import graphs
from peerclust.bench import Measure
from peerclust.bench.exchange import exchange
from peerclust.bench.strangers import Strangers
from peerclust.errors import PeerError
from peerclust.testing.local_cluster import LocalCluster
from peerclust.validation import check_count

_PEERS = 4

# So few that the network is measured, and not the assignment.
_ROWS = 30

# Name, K, d, the share of the rounds that is run, and the target. A message has 8 K d bytes.
_PAYLOADS = (("96B", 3, 4, 1.0, 0.5), ("63KB", 10, 784, 0.5, 0.7), ("246KB", 10, 3072, 0.2, 0.7))

_KNOCKS_A_SECOND = 10.0


def measure(
    say: Callable[[str], None], *, rounds: int = 4000, repeats: int = 5
) -> Iterator[Measure]:
    """Yield the ratios; of larger messages fewer `rounds` are run."""
    check_count(rounds, "rounds", "bench", at_least=20)
    check_count(repeats, "repeats", "bench")
    for name, K, d, share, target in _PAYLOADS:
        say(f"messages of {8 * K * d:,} bytes, {_PEERS} peers on a ring, beside a bare loop")
        with tempfile.TemporaryDirectory() as folder:
            yield _beside_bare_loop(
                Path(folder), name, K=K, d=d, rounds=int(share * rounds), repeats=repeats, to=target
            )
    say(f"{_KNOCKS_A_SECOND:g} strangers a second at one of {_PEERS} peers")
    with tempfile.TemporaryDirectory() as folder:
        yield _with_strangers(Path(folder), rounds=rounds, repeats=repeats)


def _beside_bare_loop(
    folder: Path, name: str, *, K: int, d: int, rounds: int, repeats: int, to: float
) -> Measure:
    size = 8 * K * d
    with _make_fleet(folder, K=K, d=d, rounds=rounds) as fleet:
        ours, bare = _in_turns(
            lambda: _run(fleet),
            lambda: exchange(fleet.contract, folder, size=size, rounds=rounds),
            repeats,
        )
    return Measure(
        f"rounds_{name}",
        ours / bare,
        f"rounds a second: peers {ours:,.0f}, bare websockets and TLS {bare:,.0f};"
        f" {_PEERS} processes on a ring, {size:,} bytes",
        at_least=to,
    )


def _with_strangers(folder: Path, *, rounds: int, repeats: int) -> Measure:
    knocks = 0
    with _make_fleet(folder, K=3, d=4, rounds=rounds) as fleet:

        def disturbed() -> float:
            nonlocal knocks
            with Strangers(
                fleet.contract, fleet.names[0], folder, a_second=_KNOCKS_A_SECOND
            ) as strangers:
                found = _run(fleet)
            knocks += strangers.knocks
            return found

        with_them, without = _in_turns(disturbed, lambda: _run(fleet), repeats)
    return Measure(
        "with_strangers",
        with_them / without,
        f"rounds a second: {with_them:,.0f} with strangers, {without:,.0f} without; {knocks}"
        " knocked, of eight kinds in turn",
        at_least=0.9,
    )


def _in_turns(
    one: Callable[[], float], other: Callable[[], float], repeats: int
) -> tuple[float, float]:
    """Give the medians of measurements taken in turns, after one of each that does not count."""
    one(), other()
    found = [(one(), other()) for _ in range(repeats)]
    ones, others = zip(*found, strict=True)
    return median(ones), median(others)


def _make_fleet(folder: Path, *, K: int, d: int, rounds: int) -> LocalCluster:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(_ROWS, d)) for _ in range(_PEERS)]
    return LocalCluster(
        folder, parts, graphs.ring(_PEERS),
        n_clusters=K, solver="dgc", rho=10.0, rounds=rounds, tol=0.0, scale="none", mean_of=1,
    )  # fmt: skip


def _run(fleet: LocalCluster) -> float:
    """Run all peers to the end; give rounds a second."""
    fleet.start(words=["--force"])
    codes = fleet.wait(seconds=600)
    # A run that is not asked to converge ends with "ran out of rounds".
    if not set(codes.values()) <= {0, 1}:
        said = {name: fleet.error(name) for name, code in codes.items() if code not in (0, 1)}
        raise PeerError(f"Peers did not end well: {said}.")
    told = [fleet.certificate(name) for name in fleet.names]
    return float(min(each["rounds"] / each["seconds"] for each in told))
