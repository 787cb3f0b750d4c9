"""What operators meet: each situation with real processes, and how each site must end in it.

There are four sites on a ring. The fault is at p2, whose neighbors are p1 and p3; p0 is none of
them. Seconds count from the start of the last process, or from what happened to it. `operators`
prints the table.
"""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import wait
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

import broken_sites
import busy_peers
from peer_runs import make_cluster, start_paced
from peerclust.runtimes.network import contract_file
from peerclust.runtimes.network.identity import make_identity, read_certificate
from peerclust.testing.local_cluster import LocalCluster, free_ports

M, SITE, FIRST = 4, "p2", "p2, first process"
OTHERS = ("p0", "p1", "p3")

# Seconds of a join that nobody should wait for, and in which everybody should have heard.
LONG, SOON = 60.0, 25.0

KILLED = -signal.SIGKILL

HEAD = "| situation | site | last line | exit code | seconds |\n|---|---|---|---|---|"


@dataclass(frozen=True)
class Expected:
    """The exit code, what the last line must match, and the most seconds."""

    code: int
    line: str
    seconds: float = 100.0


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    situation: str
    site: str
    line: str
    code: int | None
    seconds: float
    expected: Expected

    @property
    def is_good(self) -> bool:
        """Whether it is as expected."""
        return (
            self.code == self.expected.code
            and re.search(self.expected.line, self.line) is not None
            and self.seconds <= self.expected.seconds
        )

    def __str__(self) -> str:
        mark = "" if self.is_good else " **(not as expected)**"
        line = self.line.replace("|", "\\|") or "(none)"
        return (
            f"| {self.situation} | {self.site} | {line} | {self.code}{mark} | {self.seconds:.1f} |"
        )


class Stage:
    """Peers whose ends are noted in another thread."""

    def __init__(self, peers: LocalCluster) -> None:
        self.peers = peers
        self._begun = time.monotonic()
        self._ended: dict[Any, float] = {}
        self._written: dict[str, tuple[int, int]] = {}
        self._kept: dict[str, str] = {}
        self._over = Event()
        self._watch = Thread(target=self._note_ends, daemon=True)
        self._watch.start()

    def start(self, *names: str, **given: Any) -> None:
        """Start peers; what earlier processes of theirs have written does not count."""
        for name in names:
            self._written[name] = self._size(name)
        self.peers.start(*names, **given)
        self.begin()

    def start_slowly(self, *names: str) -> None:
        """Start peers whose run takes some seconds."""
        start_paced(self.peers, *names)
        self.begin()

    def begin(self) -> None:
        """Count seconds from now on."""
        self._begun = time.monotonic()

    def wait(self, *names: str) -> None:
        """Wait for the ends of peers, all if none is named."""
        self.peers.wait(*names, seconds=150)

    def close(self) -> None:
        """Stop the thread."""
        self._over.set()
        self._watch.join()

    def keep(self, site: str) -> None:
        """Note the last line of a process, before another one with its name goes on."""
        self._kept[site] = self._last_line(site)
        self._written[site] = self._size(site)

    def row(self, situation: str, site: str, expected: Expected) -> Row:
        """Return how the last process of a peer ended."""
        process = self.peers.processes[site]
        seconds = self._ended.get(process, time.monotonic()) - self._begun
        line = "" if process.exitcode == KILLED else self._last_line(site)
        return Row(situation, site, line, process.exitcode, max(seconds, 0.0), expected)

    def _last_line(self, site: str) -> str:
        if site in self._kept:
            return self._kept[site]
        name = site[:2]
        errors, out = (
            (self.peers.directory / f"{name}.{suffix}").read_bytes()[begin:].decode().splitlines()
            for suffix, begin in zip(("err", "out"), self._written.get(name, (0, 0)), strict=True)
        )
        # Of a result there is more to say after it; all else must end with this line.
        return next((line for line in (*out[:1], *errors[::-1])), "")

    def _size(self, name: str) -> tuple[int, int]:
        paths = [self.peers.directory / f"{name}.{suffix}" for suffix in ("err", "out")]
        error, out = (path.stat().st_size if path.exists() else 0 for path in paths)
        return error, out

    def _note_ends(self) -> None:
        while not self._over.wait(0.02):
            running = {
                process.sentinel: process
                for process in list(self.peers.processes.values())
                if process not in self._ended
            }
            # Only waited for: the exit code can be read once, by the thread that needs it.
            for ended in wait(list(running), timeout=0):
                self._ended[running[ended]] = time.monotonic()


@dataclass(frozen=True)
class Situation:
    """What happens, how the peers are set up, and how each of them must end."""

    name: str
    play: Callable[[Stage], None]
    expected: dict[str, Expected]
    settings: dict[str, Any] = field(default_factory=dict)
    slow: bool = False

    def run(self, directory: Path) -> list[Row]:
        """Run it; return one row per site."""
        given = {"m": M, "on_absent": "stop", "join_timeout": LONG, **self.settings}
        with make_cluster(directory, **given) as peers:
            stage = Stage(peers)
            try:
                self.play(stage)
                stage.wait()
            finally:
                stage.close()
            return [stage.row(self.name, site, each) for site, each in self.expected.items()]


# What happens


def start_others(stage: Stage) -> None:
    stage.start(*OTHERS)


def start_all(stage: Stage) -> None:
    stage.start(*OTHERS, SITE)


def run_as(run: Callable[[list[str], Path], None]) -> Callable[[Stage], None]:
    """Return the play in which p2 has a fault that its process was made with."""

    def play(stage: Stage) -> None:
        stage.start(*OTHERS)
        stage.start(SITE, run=run)

    return play


def write_data(change: Callable[[str], str]) -> Callable[[Stage], None]:
    """Return the play in which the data file of p2 is changed."""

    def play(stage: Stage) -> None:
        data = stage.peers.data(SITE)
        data.write_text(change(data.read_text()))
        start_all(stage)

    return play


def spoil_a_row(text: str) -> str:
    header, first, *others = text.splitlines()
    return "\n".join([header, "nan" + first[first.index(",") :], *others]) + "\n"


def leave_the_range(text: str) -> str:
    header, first, *others = text.splitlines()
    return "\n".join([header, "210" + first[first.index(",") :], *others]) + "\n"


def come_late(stage: Stage) -> None:
    stage.start_slowly(*OTHERS)
    stage.peers.wait_for_round("p0", 150)
    stage.start(SITE)


def come_after_the_end(stage: Stage) -> None:
    stage.start(*OTHERS)
    for name in OTHERS:
        stage.peers.wait_for_end(name)
    stage.start(SITE)


def come_when_all_have_left(stage: Stage) -> None:
    stage.start(*OTHERS)
    stage.wait()
    stage.start(SITE)


def be_killed(stage: Stage) -> None:
    stage.start_slowly()
    stage.peers.wait_for_round("p0", 150)
    stage.peers.kill(SITE)
    stage.begin()


def return_after_a_kill(stage: Stage) -> None:
    be_killed(stage)
    stage.start(SITE)


def return_after_the_end(stage: Stage) -> None:
    be_killed(stage)
    for name in OTHERS:
        stage.peers.wait_for_end(name)
    stage.start(SITE)


def start_again_with_a_result(stage: Stage) -> None:
    start_all(stage)
    stage.wait()
    stage.start(SITE)


def write_later(stage: Stage) -> None:
    run_as(broken_sites.with_a_full_disk)(stage)
    stage.wait()
    stage.start(SITE)


def certify(now: datetime) -> Callable[[Stage], None]:
    """Return the play with a certificate of p2, valid for a day, that was made at another time."""

    def play(stage: Stage) -> None:
        peers = stage.peers
        made = make_identity(SITE, peers.directory, days=1, force=True, now=now)
        certificate = read_certificate(made.certificate)
        listed = [
            replace(peer, certificate=certificate) if peer.name == SITE else peer
            for peer in peers.contract.peers
        ]
        contract_file.write(peers.network, replace(peers.contract, peers=tuple(listed)))
        start_all(stage)

    return play


def set_the_clock_back(hours: float, *, restart: bool) -> Callable[[Stage], None]:
    """Return the play in which the clock of p2 is set back, and p2 perhaps restarted after that."""

    def play(stage: Stage) -> None:
        start_paced(stage.peers, *OTHERS)
        stage.start(SITE, run=broken_sites.with_a_clock_that_is_set_back)
        stage.peers.wait_for_round(SITE, 100)
        (stage.peers.directory / "set-back").write_text(str(3600 * hours))
        stage.begin()
        if restart:
            stage.peers.kill(SITE)
            stage.start(SITE, run=broken_sites.with_a_clock_that_is_set_back)

    return play


def use_another_key(stage: Stage) -> None:
    directory = stage.peers.directory
    (directory / "other").mkdir()
    make_identity(SITE, directory / "other").key.rename(directory / f"{SITE}.key")
    start_all(stage)


def use_another_certificate(stage: Stage) -> None:
    make_identity(SITE, stage.peers.directory, force=True)
    start_all(stage)


def edit_the_network_file(stage: Stage) -> None:
    peers = stage.peers
    contract_file.write(peers.directory / "edited.toml", replace(peers.contract, n_clusters=4))
    stage.start(*OTHERS)
    stage.start(SITE, options=["--network", "edited.toml"])


def lose_the_port(stage: Stage) -> None:
    endpoint = stage.peers.contract.peers[2].endpoint
    with socket.create_server(endpoint):
        start_all(stage)
        stage.wait(SITE)


def start_twice(stage: Stage) -> None:
    stage.start_slowly()
    stage.peers.wait_for_round("p0", 120)
    first = stage.peers.processes[SITE]
    port = free_ports(1)[0]
    stage.start(SITE, options=["--out", "again", "--listen", f"127.0.0.1:{port}"])
    stage.wait(SITE)
    stage.keep(SITE)
    stage.peers.processes[FIRST] = first


def ask_to_end(ready: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Return the play in which p2 is asked to end as soon as it is where it should be."""

    def play(stage: Stage) -> None:
        ready(stage)
        stage.begin()
        stage.peers.signal(SITE, signal.SIGINT)
        stage.wait(SITE)
        for name in set(stage.peers.processes) - {SITE}:
            stage.peers.signal(name, signal.SIGTERM)

    return play


def read(stage: Stage) -> None:
    run_as(busy_peers.reading)(stage)
    _wait_for((stage.peers.directory / "busy").exists)


def compile_kernels(stage: Stage) -> None:
    run_as(busy_peers.compiling)(stage)
    cache = stage.peers.directory / "cache"
    _wait_for(lambda: any(cache.rglob("*.types")))


def join(stage: Stage) -> None:
    stage.start(SITE)
    _wait_for(lambda: "Waiting for" in _read(stage.peers.directory / f"{SITE}.err"))


def run_rounds(stage: Stage) -> None:
    stage.start_slowly()
    stage.peers.wait_for_round(SITE, 120)


def linger(stage: Stage) -> None:
    stage.start("p0", "p1", SITE)
    _wait_for(lambda: "Waiting 60 s" in _read(stage.peers.out(SITE) / "log.txt"))


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _wait_for(ready: Callable[[], bool]) -> None:
    limit = time.monotonic() + 100
    while not ready():
        if time.monotonic() > limit:
            raise TimeoutError
        time.sleep(0.02)


# How it must end


def error(line: str, seconds: float = SOON) -> Expected:
    return Expected(2, rf"{line}.* \(docs/exit-codes\.md#an-error\)$", seconds)


def stopped(why: str, seconds: float = SOON) -> Expected:
    return error(f"The run was stopped: .*{why}", seconds)


def left(line: str = "") -> Expected:
    return Expected(3, rf"^p2 .*{line}.*\(docs/exit-codes\.md#asked-to-end\)$", 4.0)


def everywhere(expected: Expected, *but: str) -> dict[str, Expected]:
    return {name: expected for name in ("p1", "p3", "p0") if name not in but}


CONVERGED = Expected(0, r"^converged: .*\(docs/exit-codes\.md#converged\)$")
WITHOUT = Expected(
    0, r"^converged without some peers: .*Without p2.*#converged-without-some-peers\)$"
)
WITHOUT_WAITING = replace(WITHOUT, seconds=SOON)
LATE = Expected(0, r"^joined late: the run ended .*\(docs/exit-codes\.md#joined-late\)$", SOON)

# A run that ends without the site that is absent, of a second or two.
STARTS = {"on_absent": "start", "rho": 20.0}
# The same, in which it is awaited for 2 s; and one that goes on until it is there.
SHORT = {**STARTS, "join_timeout": 2.0}
PACED = {"rho": 150.0}
RANGES = {"ranges": {f"x{j}": (0.0, 20.0) for j in range(4)}}
NOW = datetime.now(UTC)

DATA = "p2 does not take part: its data cannot be used: "
EXPIRED = "p2 does not take part: its certificate has expired: it is valid from 2"

SITUATIONS = [
    Situation("never started", start_others, everywhere(stopped(
        "p2 does not take part: it did not connect within 3 s", 20.0)), {"join_timeout": 3.0}),
    Situation('never started, on_absent = "start"', start_others, everywhere(WITHOUT),
              {**SHORT, "linger": 0.5}),
    Situation("late, during the run", come_late, {SITE: CONVERGED, **everywhere(CONVERGED)},
              {**PACED, **RANGES, "on_absent": "start", "join_timeout": 2.0}),
    Situation("late, after the end", come_after_the_end, {SITE: LATE, **everywhere(WITHOUT)},
              {**SHORT, "linger": 15.0}, slow=True),
    Situation("late, after all others have left", come_when_all_have_left,
              {SITE: error("p2 could reach none of its neighbors: p1: .*; p3: "),
               **everywhere(WITHOUT)}, {**SHORT, "linger": 0.5}),
    Situation("killed", be_killed, {SITE: Expected(KILLED, "^$"), **everywhere(WITHOUT)},
              {**PACED, "linger": 0.5}),
    Situation("killed, restarted during the run", return_after_a_kill,
              {SITE: CONVERGED, **everywhere(CONVERGED)}, {**PACED, "rho": 300.0}),
    Situation("killed, restarted after the end", return_after_the_end,
              {SITE: LATE, **everywhere(WITHOUT)}, {**PACED, "linger": 15.0}, slow=True),
    Situation("restarted with a result", start_again_with_a_result,
              {SITE: error("--out` of peer run must not contain a result yet; choose another"),
               **everywhere(CONVERGED)}, STARTS),
    Situation("full disk at the end", run_as(broken_sites.with_a_full_disk),
              {SITE: error("out-p2/.*csv cannot be written: File too large.*"
                           "The result is kept in out-p2/checkpoint: the same command", 100.0),
               **everywhere(CONVERGED)}, STARTS),
    Situation("full disk at the end, started again", write_later,
              {SITE: CONVERGED, **everywhere(CONVERGED)}, STARTS),
    Situation("read-only disk", run_as(broken_sites.with_a_read_only_disk),
              {SITE: error("out-p2.* cannot be used: Read-only file system"),
               **everywhere(stopped(
                   "p2 does not take part: its result directory cannot be used"))}),
    Situation("disk read-only at the end", run_as(broken_sites.with_a_disk_that_becomes_read_only),
              {SITE: error("out-p2.* cannot be written: Read-only file system.*"
                           "The result is kept in out-p2/checkpoint: the same command", 100.0),
               **everywhere(CONVERGED)}, STARTS),
    Situation("expired certificate", certify(NOW - timedelta(days=400)),
              {SITE: error("p2.crt must be valid now.* Got one valid from .*keygen NAME --force"),
               **everywhere(stopped(EXPIRED))}),
    Situation('expired certificate, on_absent = "start"', certify(NOW - timedelta(days=400)),
              {SITE: error("p2.crt must be valid now"), **everywhere(WITHOUT_WAITING)},
              {**STARTS, "linger": 0.5}),
    Situation("certificate not valid yet", certify(NOW + timedelta(days=400)),
              {SITE: error("p2.crt must be valid now.*keygen NAME --force.*or set the clock"),
               **everywhere(stopped("p2 does not take part: its certificate is not valid yet"))}),
    Situation("clock years behind", run_as(broken_sites.with_a_clock_years_behind),
              {SITE: error("p2.crt must be valid now.*or set the clock"),
               **everywhere(stopped("p2 does not take part: its certificate is not valid by its"
                                    " clock, which shows 20"))}),
    Situation("clock set back by a day during the run", set_the_clock_back(24, restart=False),
              {SITE: CONVERGED, **everywhere(CONVERGED)}, PACED),
    Situation("clock set back by half an hour, restarted", set_the_clock_back(0.5, restart=True),
              {SITE: CONVERGED, **everywhere(CONVERGED)}, {**PACED, "rho": 300.0}),
    Situation("clock set back to before its certificate, restarted",
              set_the_clock_back(24, restart=True),
              {SITE: error("p2.crt must be valid now.*or set the clock"), **everywhere(WITHOUT)},
              {**PACED, "linger": 0.5}),
    Situation("wrong key", use_another_key,
              {SITE: error("The key p2.key does not belong to the certificate p2.crt"),
               **everywhere(stopped("p2 does not take part: it did not connect within 5 s"))},
              {"join_timeout": 5.0}),
    Situation("key made anew, network file not", use_another_certificate,
              {SITE: error("p2.crt must be that of p2 in the network file. Got another; ask for"),
               **everywhere(stopped("p2 does not take part: it did not connect within 5 s"))},
              {"join_timeout": 5.0}),
    Situation("other columns", write_data(lambda text: text.replace("x1", "y1")),
              {SITE: error("There is no column 'x1' in p2.csv.* The network file requires it"),
               **everywhere(stopped(DATA + "it must have the columns of the network file"))}),
    Situation("network file edited at one site", edit_the_network_file,
              {SITE: stopped("p[13].* its network file differs: .*has n_clusters = 3, here it is 4"
                             "|n_clusters = 4, here it is 3"),
               **everywhere(stopped("p2 .*its network file differs: p2 has n_clusters = 4, here it"
                                    " is 3|n_clusters = 3, here it is 4"))}),
    Situation("bad data: a number is missing", write_data(spoil_a_row),
              {SITE: error("Column 'x0' of p2.csv must be finite numbers. Got .* in row 0"),
               **everywhere(stopped(DATA + "it must be a readable table of finite numbers"))}),
    Situation('bad data, on_absent = "start"', write_data(spoil_a_row),
              {SITE: error("Column 'x0' of p2.csv"), **everywhere(WITHOUT_WAITING)},
              {**STARTS, "linger": 0.5}),
    Situation("bad data: out of range", write_data(leave_the_range),
              {SITE: error("Column 'x0' of p2.csv must lie in its range .*0 to 20. Got 210 in"),
               **everywhere(stopped(DATA + "column 'x0' must lie in its range of the network file,"
                                    " 0 to 20"))}, RANGES),
    Situation("more clusters than rows of all sites", start_all,
              {name: stopped("`n_clusters` of the network file must be at most the number of"
                             " rows of all sites, 4. Got 5") for name in (SITE, "p1", "p3", "p0")},
              {"parts": [np.eye(4)[[i]] for i in range(M)], "n_clusters": 5}),
    Situation("port in use", lose_the_port,
              {SITE: error("cannot be listened on: Address already in use. Is this peer running"),
               **everywhere(stopped("p2 does not take part: it cannot listen at its address"))}),
    Situation("second process with the same key", start_twice,
              {SITE: error("another process of p2 is running and connected already", 100.0),
               FIRST: CONVERGED, **everywhere(CONVERGED)},
              {**PACED, "rho": 400.0, "join_timeout": 4.0}),
    Situation("Ctrl-C while reading", ask_to_end(read), {SITE: left("was asked to end")}),
    Situation("Ctrl-C while compiling", ask_to_end(compile_kernels), {SITE: left()}, slow=True),
    Situation("Ctrl-C while joining", ask_to_end(join),
              {SITE: left("left before the run started")}),
    Situation("Ctrl-C in the rounds", ask_to_end(run_rounds),
              {SITE: left("left the run in round .*; the same command resumes")}, PACED),
    Situation("Ctrl-C while lingering", ask_to_end(linger),
              {SITE: Expected(0, "^converged without some peers: ", 4.0)},
              {**SHORT, "linger": 60.0}),
]  # fmt: skip
