"""Carries a schedule of faults out on real peers, and notes what became of each process."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peerclust.bench.schedules import NAMES, Event, Schedule
from peerclust.errors import PeerError
from peerclust.runtimes.network.contract import Contract
from peerclust.testing.local_cluster import LocalCluster

# Seconds between two looks at the peers; how long all may take to answer after they were started;
# and when, after that, no event waits for its moment any longer.
_LOOK, _ANSWER, _MOMENT = 0.01, 20.0, 25.0

# After the last event: seconds without any progress after which a process hangs, some times what
# all timeouts add up to; and the most seconds in all.
_STILL, _BOUND = 45.0, 300.0

_SIGNALS = {
    "kill": signal.SIGKILL,
    "terminate": signal.SIGTERM,
    "stop": signal.SIGSTOP,
    "continue": signal.SIGCONT,
}


@dataclass(eq=False)
class Life:
    """One process of a peer.

    `code` is its exit code, None if it did not end by itself; `said` what it wrote to stderr;
    `signals` those that were sent to it; `standing` how it was doing if it hung.
    """

    name: str
    process: Any = field(repr=False)
    begins: int
    signals: set[int] = field(default_factory=set)
    code: int | None = None
    said: str = ""
    standing: str = ""


@dataclass(frozen=True, eq=False)
class Trial:
    """What a schedule did: the lives of all peers, and what the targets of events were doing."""

    schedule: Schedule
    folder: Path
    contract: Contract
    lives: list[Life]
    hits: Counter[str]
    seconds: float

    def out(self, name: str) -> Path:
        """Give the folder of a peer's result."""
        return self.folder / f"out-{name}"

    def data(self, name: str) -> Path:
        """Give the file of a peer's rows."""
        return self.folder / f"{name}.csv"


def warm_up() -> None:
    """Begin the process that peers are forked from, so that the first ones start as fast."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["peerclust.testing.preload"])
    process = context.Process(target=time.sleep, args=(0,))
    process.start()
    process.join()


class Ordeal:
    """One schedule on its way."""

    def __init__(self, schedule: Schedule, folder: Path) -> None:
        self.schedule, self.folder = schedule, folder
        self.fleet = LocalCluster(
            folder, schedule.parts, schedule.graph, proxied=True, **schedule.settings
        )
        self.lives: list[Life] = []
        self.stopped: set[str] = set()
        self.hits: Counter[str] = Counter()
        self._turn = 0
        self._residuals: dict[str, float] = {}
        self._ended: float | None = None

    def run(self) -> Trial:
        """Let it all happen and wait for the end."""
        begin = time.monotonic()
        with self.fleet:
            for a, b in self.schedule.links:
                self.fleet.wire(a, b).delay(self.schedule.delay)
            for name in NAMES:
                if name not in self.schedule.absent:
                    self._start(name)
            self._await_answers()
            self._began = self._acted = time.monotonic()
            for event in self.schedule.events:
                self._await_moment(event)
                self._do(event)
                self._acted = time.monotonic()
            time.sleep(self.schedule.rest)
            for name in sorted(self.stopped):
                self._signal("continue", name)
            self._wait()
        return Trial(
            self.schedule,
            self.folder,
            self.fleet.contract,
            self.lives,
            self.hits,
            time.monotonic() - begin,
        )

    def _await_answers(self) -> None:
        """Wait until all peers that were started answer, or have ended."""
        limit = time.monotonic() + _ANSWER
        for life in self.lives:
            while life.process.is_alive() and not self._ask(life.name):
                if time.monotonic() > limit:
                    return
                time.sleep(_LOOK)

    def _await_moment(self, event: Event) -> None:
        if event.when in ("start", "after"):
            since = self._began if event.when == "start" else self._acted
            time.sleep(max(0.0, since + event.at - time.monotonic()))
            return
        while time.monotonic() < self._began + _MOMENT:
            if self._largest_residual() <= event.at and event.when == "near":
                return
            if self._ended is not None:
                time.sleep(max(0.0, self._ended + event.at - time.monotonic()))
                return
            if not self._going():
                return
            time.sleep(_LOOK)

    def _going(self) -> list[str]:
        """Give the peers that run and are not stopped."""
        held = self.fleet.processes.items()
        return [name for name, each in held if name not in self.stopped and each.is_alive()]

    def _largest_residual(self) -> float:
        """Give the largest residual of those who run, as a multiple of tol; ask one at a time."""
        self._turn += 1
        name = NAMES[self._turn % len(NAMES)]
        told = self._ask(name)
        if told.get("phase") == "done" or (self.fleet.out(name) / "certificate.json").exists():
            self._ended = self._ended or time.monotonic()
        residual = told.get("residual") or float("inf")
        self._residuals[name] = residual / self.schedule.settings["tol"]
        going = self._going()
        return max((self._residuals.get(each, float("inf")) for each in going), default=0.0)

    def _ask(self, name: str) -> dict[str, Any]:
        """Ask a peer how it is doing; one that is stopped cannot answer."""
        if name not in self._going():
            return {}
        try:
            return self.fleet.status(name)
        except PeerError:
            return {}

    def _do(self, event: Event) -> None:
        """Do what an event says, and count what its first peer was doing."""
        name = event.names[0]
        if event.act == "start":
            self._restart(name)
            return
        alive = name in self.fleet.processes and self.fleet.processes[name].is_alive()
        doing = "stopped" if name in self.stopped else self._ask(name).get("phase", "starting")
        self.hits[f"{event.act} while {doing if alive else 'gone'}"] += 1
        if event.act in _SIGNALS:
            if alive:
                self._signal(event.act, name)
            return
        wire = self.fleet.wire(*event.names)
        if event.act == "cut":
            wire.cut()
        elif event.act == "hold":
            wire.hold(forth=event.names[0] < event.names[1])
        else:
            wire.mend()
            wire.delay(self.schedule.delay)

    def _signal(self, act: str, name: str) -> None:
        process = self.fleet.processes[name]
        if process.is_alive():
            self.fleet.signal(name, _SIGNALS[act])
            next(life for life in self.lives if life.process is process).signals.add(_SIGNALS[act])
        if act == "stop":
            self.stopped.add(name)
        elif act in ("kill", "continue"):
            self.stopped.discard(name)
        if act == "kill":
            process.join(10)

    def _restart(self, name: str) -> None:
        """Start a peer; a process of it that was asked to end has a moment to do so."""
        old = self.fleet.processes.get(name)
        if old is not None:
            old.join(2)
        if old is not None and old.is_alive():
            self.hits["start while another runs"] += 1
            return
        others = [self._ask(other).get("phase", "") for other in NAMES if other != name]
        known = [phase for phase in ("running", "agreeing", "done") if phase in others]
        self.hits[f"start while others are {known[0] if known else 'gone'}"] += 1
        self._start(name)

    def _start(self, name: str) -> None:
        told = self.folder / f"{name}.err"
        begins = told.stat().st_size if told.exists() else 0
        self.fleet.start(name)
        self.lives.append(Life(name, self.fleet.processes[name], begins))

    def _wait(self) -> None:
        """Wait for every process to end; ask those that do not how they are doing."""
        begin = moved = time.monotonic()
        before: dict[str, Any] = {}
        while self._going():
            now = time.monotonic()
            standing = {name: self._ask(name).get("round") for name in self._going()}
            if standing != before:
                before, moved = standing, now
            if now - moved > _STILL or now - begin > _BOUND:
                break
            time.sleep(0.2)
        for i, life in enumerate(self.lives):
            life.code = life.process.exitcode
            if life.code is None:
                life.standing = str(self._ask(life.name))
            later = [other.begins for other in self.lives[i + 1 :] if other.name == life.name]
            told = self.folder / f"{life.name}.err"
            text = told.read_bytes() if told.exists() else b""
            life.said = text[life.begins : later[0] if later else None].decode()
