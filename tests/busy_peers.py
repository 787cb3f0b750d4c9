"""Peer processes that are busy for a minute, where a real one may be with many rows."""

import os
import signal
import sys
import time
from pathlib import Path

from peerclust import tables
from peerclust.peers import result_files, setup
from peerclust.runtimes.network.flooding import Flooding
from peerclust.runtimes.network.membership import Membership
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


def _run_busy(arguments, directory, owner, name, act=_block):
    """Run a peer that is busy before it calls a function of an owner."""
    real = getattr(owner, name)

    def busy(*args, **kwargs):
        act()
        return real(*args, **kwargs)

    setattr(owner, name, busy)
    preload.run_peer(arguments, directory)


def reading(arguments, directory):
    _run_busy(arguments, directory, tables, "read")


def computing_in_the_main_thread(arguments, directory):
    _run_busy(arguments, directory, tables, "read", _compute)


def agreeing(arguments, directory):
    _run_busy(arguments, directory, setup, "agree")


def computing_a_start(arguments, directory):
    _run_busy(arguments, directory, setup, "agree", _compute)


def computing_a_step(arguments, directory):
    _run_busy(arguments, directory, RoundLoop, "_first_snapshot", _compute)


def writing(arguments, directory):
    _run_busy(arguments, directory, result_files, "write_files")


def compiling(arguments, directory):
    """Run a peer that has no compiled kernel and compiles each at its first call."""
    os.chdir(directory)
    name = arguments[arguments.index("--me") + 1]
    for number, suffix in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{name}.{suffix}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), number)
    cache = {"NUMBA_CACHE_DIR": str(directory / "cache"), "PEERCLUST_COMPILE": "always"}
    # A new program: the fork server has loaded its kernels already.
    command = [sys.executable, "-c", "from peerclust.cli import main; main()", *arguments]
    os.execve(sys.executable, command, os.environ | cache | {"PYTHONPATH": ":".join(sys.path)})


def asked_to_end_once_it_has_signed(arguments, directory):
    end_run = Membership.end_run

    def end_and_ask(self, *given):
        end_run(self, *given)
        os.kill(os.getpid(), signal.SIGTERM)

    Membership.end_run = end_and_ask
    preload.run_peer(arguments, directory)


def signing_late(arguments, directory):
    publish = Flooding.publish

    def publish_late(self, kind, *given):
        if kind == "record":
            time.sleep(0.3)
        publish(self, kind, *given)

    Flooding.publish = publish_late
    preload.run_peer(arguments, directory)
