"""Run by the ranks of a job, of which one, or all, make the mistakes that are named.

An error of `cluster` is caught and printed, and the next mistake is made.
"""

import os
import signal
import sys
from dataclasses import dataclass

import numpy as np

import peerclust as pc
from peerclust.runtimes.mpi import world

ranks = world()


@dataclass(frozen=True)
class Loss:
    """Breaks down after some time, on one rank only."""

    smoothness: float = 1.0

    def value(self, r2):
        return 0.5 * r2

    def gamma(self, r2):
        Loss.calls = getattr(Loss, "calls", 0) + 1
        if ranks.rank == 1 and Loss.calls > 20:
            if "killed" in sys.argv:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError("the loss broke down")
        return np.ones_like(r2)


def go_wrong(mistake):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    parts = np.split(rows, 6)
    options = {"n_clusters": 2, "random_state": 0, "rho": 10, "runtime": "mpi"}
    if mistake in ("loss", "killed"):
        options["loss"] = Loss()
    elif mistake == "arguments" and ranks.rank == 1:
        options["n_clusters"] = 3
    elif mistake == "ranks":
        parts = parts[:2]
    elif mistake == "rows" and ranks.rank == 1:
        parts = [part.copy() for part in parts]
        for part in parts:
            part[3, 1] = np.nan
    elif mistake == "features" and ranks.rank == 1:
        parts = [part[:, :1] for part in parts]
    elif mistake == "users" and ranks.rank == 2:
        parts = parts[:5]
    elif mistake == "clusters":
        options["n_clusters"] = 61
    elif mistake == "twice":
        parts = {ranks.rank: parts[0], 5: parts[1]}
    elif mistake == "missing":
        parts = {2 * ranks.rank: parts[0]}
    elif mistake == "none":
        parts = {} if ranks.rank == 1 else {ranks.rank: parts[0]}
    elif mistake == "weights" and ranks.rank == 1:
        options["weights"] = [np.ones(10)] * 6
    elif mistake == "graph":
        edges = [(0, i) if ranks.rank == 1 else (i - 1, i) for i in range(1, 6)]
        options["graph"] = pc.graphs.from_edges(edges)
    elif mistake == "offsets":
        parts = rows, np.array([0, 10, 20, 59])
    elif mistake == "script" and ranks.rank == 1:
        # Outside of cluster mpi4py aborts the job.
        raise KeyError("a mistake of the script's own")

    site, K = np.arange(60) % 6, 2 + (ranks.rank == 1)
    if mistake == "detector":
        pc.PeerOutlierDetector(K, runtime="mpi").fit(rows, users=site)
    if mistake == "estimator":
        rows[3, 1] = np.nan if ranks.rank == 1 else 0.0
        pc.PeerClustering(2, runtime="mpi").fit(rows, users=site)
    pc.cluster(parts, **options)


def main():
    for mistake in sys.argv[1:]:
        try:
            go_wrong(mistake)
        except pc.errors.PeerclustError as error:
            print(f"rank {ranks.rank}, {mistake}: {error}", flush=True)
        else:
            print("no error", flush=True)


if __name__ == "__main__":
    main()
