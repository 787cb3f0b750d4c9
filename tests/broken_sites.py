"""Peer processes on a machine with one fault: its disk is full or read-only, its clock is wrong."""

import errno
import io
import os
import resource
import time
from datetime import datetime, timedelta
from pathlib import Path

from peerclust.cli import peer_printer
from peerclust.peers import commands, result_files, site_directory
from peerclust.runtimes.network import node
from peerclust.testing import preload


def with_a_full_disk(arguments, directory):
    """Run a peer that cannot write files as large as its labels, nor anything after that."""
    real = result_files.write_files

    def write_files(*args):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        try:
            return real(*args)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, resource.RLIM_INFINITY))

    result_files.write_files = write_files
    preload.run_peer(arguments, directory)


def with_a_read_only_disk(arguments, directory):
    """Run a peer that can write no file of its result directory."""
    for owner, name in ((os, "open"), (os, "mkdir"), (os, "replace"), (io, "open")):
        _make_read_only(owner, name)
    preload.run_peer(arguments, directory)


def with_a_disk_that_becomes_read_only(arguments, directory):
    """Run a peer whose disk is read-only from the end of its run on."""
    real = result_files.write_files

    def write_files(*args):
        for owner, name in ((os, "open"), (os, "mkdir"), (os, "replace"), (io, "open")):
            _make_read_only(owner, name)
        return real(*args)

    result_files.write_files = write_files
    preload.run_peer(arguments, directory)


def _make_read_only(owner, name):
    real = getattr(owner, name)

    def call(path, *args, **kwargs):
        writes = name != "open" or (args and args[0] not in (0, os.O_RDONLY, "r", "rb"))
        if writes and isinstance(path, str | os.PathLike) and "out-" in os.fspath(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(path))
        return real(path, *args, **kwargs)

    setattr(owner, name, call)


def with_a_clock_years_behind(arguments, directory):
    """Run a peer whose clock is reset, as that of a machine without a battery."""
    _set_clock(lambda: timedelta(days=-3000))
    preload.run_peer(arguments, directory)


def with_a_clock_that_is_set_back(arguments, directory):
    """Run a peer whose clock is set back once there is a file `set-back`, by as many seconds."""
    mark = Path(directory) / "set-back"
    _set_clock(lambda: -timedelta(seconds=float(mark.read_text() or 0) if mark.exists() else 0))
    preload.run_peer(arguments, directory)


def _set_clock(wrong):
    """Let all that this process reads of the time be wrong. OpenSSL has its own."""
    real, real_ns = time.time, time.time_ns

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + wrong()

    for module in (commands, site_directory, node, peer_printer):
        module.datetime = Clock
    time.time = lambda: real() + wrong().total_seconds()
    time.time_ns = lambda: real_ns() + int(wrong().total_seconds()) * 10**9
