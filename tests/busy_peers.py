"""Peer processes that are busy for a minute, where a real one may be with many rows."""

import time
from pathlib import Path

from peerclust import tables
from peerclust.peers import setup, site_directory
from peerclust.runtimes.network.rounds import RoundLoop
from peerclust.testing import preload

BUSY = 60.0


def _block():
    """Stay in one call, in which Python handles no signal."""
    Path("busy").touch()
    end = time.monotonic() + BUSY
    while time.monotonic() < end:
        time.sleep(BUSY)


def _compute():
    """Compute in Python, which leaves other threads little time."""
    Path("busy").touch()
    end, n = time.monotonic() + BUSY, 0
    while time.monotonic() < end:
        n += sum(range(100_000))


def _be_busy_in(owner, name, act=_block):
    real = getattr(owner, name)

    def busy(*args, **kwargs):
        act()
        return real(*args, **kwargs)

    setattr(owner, name, busy)


def reading(arguments, directory):
    _be_busy_in(tables, "read")
    preload.run_peer(arguments, directory)


def computing_in_the_main_thread(arguments, directory):
    _be_busy_in(tables, "read", _compute)
    preload.run_peer(arguments, directory)


def agreeing(arguments, directory):
    _be_busy_in(setup, "agree")
    preload.run_peer(arguments, directory)


def computing_a_start(arguments, directory):
    _be_busy_in(setup, "agree", _compute)
    preload.run_peer(arguments, directory)


def computing_a_step(arguments, directory):
    _be_busy_in(RoundLoop, "_first_snapshot", _compute)
    preload.run_peer(arguments, directory)


def writing(arguments, directory):
    _be_busy_in(site_directory, "write_files")
    preload.run_peer(arguments, directory)
