"""Imported once by the process that `fleet` forks peers from, so that each starts in no time.

It does a small round of everything a peer computes, which loads the compiled kernels.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from peerclust import cli
from peerclust.cli import peer_display
from peerclust.clustering.cluster import cluster
from peerclust.peers import commands
from peerclust.report import terminal
from peerclust.runtimes.network.rounds import Box


def warm_up() -> None:
    """Load the compiled kernels by clustering a few rows, and a few more, with each loss.

    Peers with many rows or features need others (see `lazy`), which they load by themselves.
    """
    for half in (6, 30):
        rows = np.arange(4.0 * half).reshape(-1, 2)
        for loss in ("kmeans", "huber", "logistic", "fair"):
            parts = [rows[:half], rows[half:]]
            cluster(parts, n_clusters=2, loss=loss, rho=2, rounds=3, scale="standard")
    # What comes from a neighbor cannot be written to.
    rows.setflags(write=False)
    Box(rows[0].copy(), rows[1].copy()).refuse(rows)


def run_peer(words: list[str], folder: Path) -> None:
    """Run `peerclust` with these words in a folder, as a process of its own does."""
    os.chdir(folder)
    name = words[words.index("--me") + 1]
    for stream, suffix in ((sys.stdout, "out"), (sys.stderr, "err")):
        stream.flush()
        held = os.open(f"{name}.{suffix}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(held, stream.fileno())
    sys.argv = ["peerclust", *words]
    cli.main()


warm_up()

# Imported so that no peer need import them again.
__all__ = ["commands", "peer_display", "run_peer", "terminal", "warm_up"]
