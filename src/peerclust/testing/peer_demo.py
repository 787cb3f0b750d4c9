"""The demo of peers: ten real processes on loopback, one killed, started again, all replayed."""

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
# The round from which on it is killed.
AT = 200

_SETTINGS: dict[str, Any] = {
    "n_clusters": 3,
    "loss": "huber",
    # Without momentum the run is long enough for someone to be killed in it and to come back.
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
    """What came out: the round of the kill, each peer's status and last round, and the replay."""

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
        """Whether all converged in the same round, and the replay gave the same bits."""
        same = len(set(self.rounds.values())) == 1 and set(self.status.values()) == {"converged"}
        return same and self.replayed

    def as_dict(self) -> dict[str, Any]:
        """Give the demo as JSON can hold it."""
        return asdict(self) | {"holds": self.holds}


def run(folder: Path, seed: int, say: Callable[[str], None]) -> Demo:
    """Run the demo in a folder; `say` hears what happens."""
    begin = time.monotonic()
    rows, species = datasets.iris()
    parts = [rows[mine] for mine in partition.homogeneous(species, PEERS, random_state=seed)]
    graph = erdos_renyi(PEERS, 0.35, random_state=seed)
    with LocalCluster(folder, parts, graph, seed=seed, **_SETTINGS) as fleet:
        links = len(fleet.contract.links)
        say(f"{PEERS} peers with a key each and 15 flowers each, {links} links over TLS 1.3")
        fleet.start()
        at = fleet.wait_for_round(KILLED, AT)
        fleet.kill(KILLED)
        say(f"{KILLED} killed in round {at} (kill -9); the others notice")
        fleet.start(KILLED)
        say(f"{KILLED} started again; it comes back with its checkpoint")
        codes = fleet.wait(seconds=120)
        if None in codes.values() or not all(fleet.ended(name) for name in fleet.names):
            raise PeerError(f"A peer did not come to an end; its log is in {folder}.")
        told = {name: fleet.certificate(name) for name in fleet.names}
        say("all have ended; computing the run again from their rows and journals")
        replayed = fleet.replay()
        centers = np.stack([fleet.centers(name) for name in fleet.names])
        return Demo(
            killed=KILLED,
            killed_in_round=at,
            contributed=told["p0"]["contributed"][KILLED],
            rounds={name: each["rounds"] for name, each in told.items()},
            status={name: each["status"]["name"] for name, each in told.items()},
            # One that came back only after the end knows none.
            largest_residual=max(each["largest_residual"] or 0.0 for each in told.values()),
            farthest=float(np.abs(centers - centers.mean(axis=0)).max()),
            replayed=all(replayed[name]["same"] for name in fleet.names),
            seconds=time.monotonic() - begin,
        )
