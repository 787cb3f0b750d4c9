"""Imported by the fork server of `local_cluster`, so that peers start without delay.

It computes a little of everything that a peer computes, which imports all modules.
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
from peerclust.users.public_bounds import PublicBounds


def warm_up() -> None:
    """Cluster a few rows, and a few more, with each loss."""
    for half in (6, 30):
        rows = np.arange(4.0 * half).reshape(-1, 2)
        for loss in ("kmeans", "huber", "logistic", "fair"):
            parts = [rows[:half], rows[half:]]
            cluster(parts, n_clusters=2, loss=loss, rho=2, rounds=3, scale="standard")
    # Arrays from neighbors are read-only.
    rows.setflags(write=False)
    PublicBounds(rows[0].copy(), rows[1].copy()).refuse(rows)


def run_peer(arguments: list[str], directory: Path, name: str = "") -> None:
    """Run `peerclust` with these arguments in a directory, like a process of its own.

    What it prints goes to two files, which are named after the peer by default.
    """
    os.chdir(directory)
    name = name or arguments[arguments.index("--me") + 1]
    for stream, suffix in ((sys.stdout, "out"), (sys.stderr, "err")):
        stream.flush()
        file = os.open(f"{name}.{suffix}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, stream.fileno())
    sys.argv = ["peerclust", *arguments]
    cli.main()


warm_up()

# Imported so that peers need not import them.
__all__ = ["commands", "peer_display", "run_peer", "terminal", "warm_up"]
