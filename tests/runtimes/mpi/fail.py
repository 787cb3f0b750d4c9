"""Run by the ranks of a job, of which one, or all, do something wrong, in the ways that are named.

An error of `cluster` is caught and printed, and the next way is tried.
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


def go_wrong(way):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    parts = np.split(rows, 6)
    options = {"n_clusters": 2, "random_state": 0, "rho": 10, "runtime": "mpi"}
    if way in ("loss", "killed"):
        options["loss"] = Loss()
    elif way == "arguments" and ranks.rank == 1:
        options["n_clusters"] = 3
    elif way == "ranks":
        parts = parts[:2]
    elif way == "rows" and ranks.rank == 1:
        parts = [part.copy() for part in parts]
        for part in parts:
            part[3, 1] = np.nan
    elif way == "features" and ranks.rank == 1:
        parts = [part[:, :1] for part in parts]
    elif way == "users" and ranks.rank == 2:
        parts = parts[:5]
    elif way == "clusters":
        options["n_clusters"] = 61
    elif way == "twice":
        parts = {ranks.rank: parts[0], 5: parts[1]}
    elif way == "missing":
        parts = {2 * ranks.rank: parts[0]}
    elif way == "none":
        parts = {} if ranks.rank == 1 else {ranks.rank: parts[0]}
    elif way == "weights" and ranks.rank == 1:
        options["weights"] = [np.ones(10)] * 6
    elif way == "graph":
        edges = [(0, i) if ranks.rank == 1 else (i - 1, i) for i in range(1, 6)]
        options["graph"] = pc.graphs.from_edges(edges)
    elif way == "offsets":
        parts = rows, np.array([0, 10, 20, 59])
    elif way == "script" and ranks.rank == 1:
        # Outside of cluster it is mpi4py that ends the job.
        raise KeyError("a mistake of the script's own")

    site, K = np.arange(60) % 6, 2 + (ranks.rank == 1)
    if way == "detector":
        pc.PeerOutlierDetector(K, runtime="mpi").fit(rows, users=site)
    if way == "estimator":
        rows[3, 1] = np.nan if ranks.rank == 1 else 0.0
        pc.PeerClustering(2, runtime="mpi").fit(rows, users=site)
    pc.cluster(parts, **options)


def main():
    for way in sys.argv[1:]:
        try:
            go_wrong(way)
        except pc.errors.PeerclustError as error:
            print(f"rank {ranks.rank}, {way}: {error}", flush=True)
        else:
            print("no error", flush=True)


if __name__ == "__main__":
    main()
