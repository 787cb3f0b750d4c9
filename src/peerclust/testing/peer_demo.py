"""The demo of peers: ten real processes on loopback; one is killed and restarted; a replay."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from peerclust import datasets, partition
from peerclust.errors import PeerError
from peerclust.graphs import erdos_renyi
from peerclust.testing.local_cluster import LocalCluster

PEERS = 10
KILLED = "p3"
# The round in which it is killed, at the earliest.
AT = 200

_SETTINGS: dict[str, Any] = {
    "n_clusters": 3,
    "loss": "huber",
    # Without momentum the run is long enough for a peer to be killed and to rejoin.
    "solver": "dgc",
    "rho": 150.0,
    "tol": 1e-5,
    "rounds": 20_000,
    "timeout": 5.0,
    "join_timeout": 30.0,
    "linger": 2.0,
    "checkpoint_every": 0.2,
}


@dataclass(frozen=True)
class Demo:
    """The result: the round of the kill, each peer's status and rounds, and the replay."""

    killed: str
    killed_in_round: int
    contributed: list[list[int]]
    rounds: dict[str, int]
    status: dict[str, str]
    largest_residual: float
    farthest: float
    replayed: bool
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether all converged in the same round, and the replay ends with the same bits."""
        same = len(set(self.rounds.values())) == 1 and set(self.status.values()) == {"converged"}
        return same and self.replayed

    def as_dict(self) -> dict[str, Any]:
        """Return the demo as JSON-compatible values."""
        return asdict(self) | {"holds": self.holds}


def run(directory: Path, seed: int, on_log: Callable[[str], None]) -> Demo:
    """Run the demo in a directory; `on_log` is called with a line per event."""
    start = time.monotonic()
    rows, species = datasets.iris()
    parts = [rows[mine] for mine in partition.homogeneous(species, PEERS, random_state=seed)]
    graph = erdos_renyi(PEERS, 0.35, random_state=seed)
    with LocalCluster(directory, parts, graph, seed=seed, **_SETTINGS) as cluster:
        links = len(cluster.contract.links)
        on_log(f"{PEERS} peers, each with its own key and 15 flowers, {links} links over TLS 1.3")
        cluster.start()
        at = cluster.wait_for_round(KILLED, AT)
        cluster.kill(KILLED)
        on_log(f"{KILLED} killed in round {at} (kill -9); the others notice")
        cluster.start(KILLED)
        on_log(f"{KILLED} started again; it rejoins from its checkpoint")
        codes = cluster.wait(seconds=120)
        if None in codes.values() or not all(cluster.ended(name) for name in cluster.names):
            raise PeerError(f"A peer did not reach the end; its log is in {directory}.")
        records = {name: cluster.certificate(name) for name in cluster.names}
        on_log("all have ended; replaying the run from their rows and journals")
        replayed = cluster.replay()
        centers = np.stack([cluster.centers(name) for name in cluster.names])
        return Demo(
            killed=KILLED,
            killed_in_round=at,
            contributed=records["p0"]["contributed"][KILLED],
            rounds={name: each["rounds"] for name, each in records.items()},
            status={name: each["status"]["name"] for name, each in records.items()},
            # A peer that returned after the end has none.
            largest_residual=max(each["largest_residual"] or 0.0 for each in records.values()),
            farthest=float(np.abs(centers - centers.mean(axis=0)).max()),
            replayed=all(replayed[name]["same"] for name in cluster.names),
            seconds=time.monotonic() - start,
        )
