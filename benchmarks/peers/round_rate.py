"""Rounds per second of peer processes: against a bare loop, and with unauthorized clients."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.measures import Measure, Progress
from benchmarks.peers import websocket_loop
from benchmarks.peers.unauthorized_clients import UnauthorizedClients
from peerclust import graphs
from peerclust.errors import PeerError
from peerclust.testing.local_cluster import LocalCluster
from peerclust.validation import check_count

_PEERS = 4

# So few rows per peer that the network is measured and not the assignment.
_ROWS = 30

# Name, K, d, the fraction of the rounds that is run, and the target. A message has 8 K d bytes.
_PAYLOADS = (("96B", 3, 4, 1.0, 0.4), ("63KB", 10, 784, 0.5, 0.4), ("246KB", 10, 3072, 0.2, 0.4))

_CONNECTIONS_PER_SECOND = 10.0


def measure(progress: Progress, *, rounds: int = 4000, repeats: int = 5) -> Iterator[Measure]:
    """Yield the ratios; with larger messages, fewer than `rounds` rounds are run."""
    check_count(rounds, "rounds", "benchmarks", at_least=20)
    check_count(repeats, "repeats", "benchmarks")
    for name, K, d, fraction, target in _PAYLOADS:
        progress(f"messages of {8 * K * d:,} bytes, {_PEERS} peers, compared with a bare loop")
        with tempfile.TemporaryDirectory() as folder:
            yield _compare_with_bare_loop(
                Path(folder),
                name,
                K=K,
                d=d,
                rounds=int(fraction * rounds),
                repeats=repeats,
                target=target,
            )
    progress(
        f"{_CONNECTIONS_PER_SECOND:g} unauthorized connections per second to one of {_PEERS} peers"
    )
    with tempfile.TemporaryDirectory() as folder:
        yield _under_connections(Path(folder), rounds=rounds, repeats=repeats)


def _compare_with_bare_loop(
    folder: Path, name: str, *, K: int, d: int, rounds: int, repeats: int, target: float
) -> Measure:
    size = 8 * K * d
    with _make_cluster(folder, K=K, d=d, rounds=rounds) as cluster:
        ours, bare = _alternate(
            lambda: _run(cluster),
            lambda: websocket_loop.rounds_per_second(
                cluster.contract, folder, size=size, rounds=rounds
            ),
            repeats,
        )
    return Measure(
        f"rounds_{name}",
        ours / bare,
        f"rounds per second: peers {ours:,.0f}, bare websockets and TLS {bare:,.0f};"
        f" {_PEERS} processes on a ring, {size:,} bytes",
        at_least=target,
    )


def _under_connections(folder: Path, *, rounds: int, repeats: int) -> Measure:
    accepted = 0
    with _make_cluster(folder, K=3, d=4, rounds=rounds) as cluster:

        def is_running() -> bool:
            with suppress(PeerError):
                return bool(cluster.status(cluster.names[0])["phase"] == "running")
            return False

        def disturbed() -> float:
            nonlocal accepted
            with UnauthorizedClients(
                cluster.contract,
                cluster.names[0],
                folder,
                per_second=_CONNECTIONS_PER_SECOND,
                is_running=is_running,
            ) as clients:
                rate = _run(cluster)
            accepted += clients.accepted
            return rate

        with_them, without = _alternate(disturbed, lambda: _run(cluster), repeats)
    return Measure(
        "with_strangers",
        with_them / without,
        f"rounds per second: {with_them:,.0f} with unauthorized clients, {without:,.0f} without;"
        f" {accepted} connections, of eight kinds in turn",
        at_least=0.9,
    )


def _alternate(
    one: Callable[[], float], other: Callable[[], float], repeats: int
) -> tuple[float, float]:
    """Return the medians of alternating measurements, after one of each that does not count."""
    one(), other()
    ones, others = zip(*((one(), other()) for _ in range(repeats)), strict=True)
    return median(ones), median(others)


def _make_cluster(folder: Path, *, K: int, d: int, rounds: int) -> LocalCluster:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(_ROWS, d)) for _ in range(_PEERS)]
    return LocalCluster(
        folder, parts, graphs.ring(_PEERS),
        n_clusters=K, solver="dgc", rho=10.0, rounds=rounds, tol=0.0, scale="none", mean_of=1,
    )  # fmt: skip


def _run(cluster: LocalCluster) -> float:
    """Run all peers to the end and return rounds per second."""
    cluster.start(options=["--force"])
    codes = cluster.wait(seconds=600)
    # With tol = 0 a run ends with "ran out of rounds", which is exit code 1.
    if not set(codes.values()) <= {0, 1}:
        errors = {name: cluster.error(name) for name, code in codes.items() if code not in (0, 1)}
        raise PeerError(f"Peers failed: {errors}.")
    certificates = [cluster.certificate(name) for name in cluster.names]
    return float(min(each["rounds"] / each["seconds"] for each in certificates))
