"""Executes a schedule of faults on peer processes and records how each process ended."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from peerclust.errors import PeerError
from peerclust.runtimes.network.contract import Contract
from peerclust.testing.local_cluster import LocalCluster, free_ports

from . import machine
from .schedules import NAMES, Event, Schedule

# Seconds between two polls of the peers; within which all must answer after they were started; and
# after which, from then on, no event waits for its condition any longer.
_POLL, _START_TIMEOUT, _EVENT_TIMEOUT = 0.01, 20.0, 25.0

# After the last event: seconds without progress after which a process counts as hanging, several
# times the sum of all timeouts; and the limit in total.
_HANG_TIMEOUT, _TOTAL_TIMEOUT = 45.0, 300.0

# Seconds of a message's mean random delay on a link with jitter.
_JITTER = 0.01

# The files of `machine` that are there while a disk fails.
_DISK_FAULTS = {"fill": "full", "unsync": "sync"}

# Logs have events and causes, which the oracle reads.
_JSON = ["--log-format", "json"]

_SIGNALS = {
    "kill": signal.SIGKILL,
    "terminate": signal.SIGTERM,
    "stop": signal.SIGSTOP,
    "continue": signal.SIGCONT,
}


@dataclass(eq=False)
class PeerProcess:
    """One process of a peer.

    `name` is that of its files: p3, or p3-copy for a second process of p3. `code` is its exit code,
    None if it did not end by itself; `stderr` what it wrote there, from byte `stderr_begin` of its
    file on; `signals` those sent to it; `status` its status if it hung, and did not just run on.
    """

    name: str
    process: Any = field(repr=False)
    stderr_begin: int
    signals: set[int] = field(default_factory=set)
    code: int | None = None
    stderr: str = ""
    status: str = ""


@dataclass(frozen=True, eq=False)
class FaultRun:
    """The record of a schedule: all processes, and what the targets of events were doing."""

    schedule: Schedule
    folder: Path
    contract: Contract
    processes: list[PeerProcess]
    events: Counter[str]
    seconds: float

    def out(self, name: str) -> Path:
        """Return the result directory of a peer."""
        return self.folder / f"out-{name}"

    def data(self, name: str) -> Path:
        """Return the file with the rows of a peer."""
        return self.folder / f"{name}.csv"

    @property
    def honest(self) -> list[str]:
        """The names of the peers that do not lie, and of second processes."""
        names = dict.fromkeys([*NAMES, *(process.name for process in self.processes)])
        return [name for name in names if name != self.schedule.liar]

    def disk_failures(self, name: str) -> str:
        """Return the calls with which the disk of a process failed, one per line."""
        file = self.folder / f"{name}.failed"
        return file.read_text() if file.exists() else ""


def warm_up() -> None:
    """Start the fork server, so that the first peers start as fast as later ones."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["peerclust.testing.preload"])
    process = context.Process(target=time.sleep, args=(0,))
    process.start()
    process.join()


class FaultRunner:
    """Executes one schedule."""

    def __init__(self, schedule: Schedule, folder: Path) -> None:
        self.schedule, self.folder = schedule, folder
        self.cluster = LocalCluster(
            folder, schedule.parts, schedule.graph, proxied=True, **schedule.settings
        )
        self.processes: list[PeerProcess] = []
        self.stopped: set[str] = set()
        self.events: Counter[str] = Counter()
        self._turn = 0
        self._residuals: dict[str, float] = {}
        self._first_round: float | None = None
        self._first_end: float | None = None

    def run(self) -> FaultRun:
        """Run all events and wait until every process has ended."""
        begin = time.monotonic()
        with self.cluster:
            for a, b in self.schedule.links:
                self.cluster.proxy(a, b).delay(self.schedule.delay)
            for name in NAMES:
                if name not in self.schedule.absent:
                    self._start(name)
            self._wait_for_answers()
            self._began = self._last_event = time.monotonic()
            for event in self.schedule.events:
                self._wait_for_event(event)
                self._execute(event)
                self._last_event = time.monotonic()
            time.sleep(self.schedule.rest)
            for name in sorted(self.stopped):
                self._signal("continue", name)
            self._wait()
            self._start_with_good_disks()
        return FaultRun(
            self.schedule,
            self.folder,
            self.cluster.contract,
            self.processes,
            self.events,
            time.monotonic() - begin,
        )

    def _wait_for_answers(self) -> None:
        """Wait until all peers that were started answer or have ended."""
        limit = time.monotonic() + _START_TIMEOUT
        for process in self.processes:
            while process.process.is_alive() and not self._query(process.name):
                if time.monotonic() > limit:
                    return
                time.sleep(_POLL)

    def _wait_for_event(self, event: Event) -> None:
        if event.when in ("start", "after"):
            self._sleep_until(self._began if event.when == "start" else self._last_event, event.at)
            return
        while time.monotonic() < self._began + _EVENT_TIMEOUT:
            if self._largest_residual() <= event.at and event.when == "near":
                return
            since = self._first_round if event.when == "running" else self._first_end
            if since is not None:
                self._sleep_until(since, event.at)
                return
            if not self._active():
                return
            time.sleep(_POLL)

    def _sleep_until(self, since: float, seconds: float) -> None:
        time.sleep(max(0.0, since + seconds - time.monotonic()))

    def _active(self) -> list[str]:
        """Return the peers that run and are not stopped."""
        processes = self.cluster.processes.items()
        return [name for name, each in processes if name not in self.stopped and each.is_alive()]

    def _largest_residual(self) -> float:
        """Return the largest residual of active peers in multiples of tol; query one per call."""
        self._turn += 1
        name = NAMES[self._turn % len(NAMES)]
        status, now = self._query(name), time.monotonic()
        if status.get("phase") == "done" or (self.cluster.out(name) / "certificate.json").exists():
            self._first_end = self._first_end or now
        if self._first_end or status.get("phase") == "running":
            self._first_round = self._first_round or now
        residual = status.get("residual") or float("inf")
        self._residuals[name] = residual / self.schedule.settings["tol"]
        active = self._active()
        return max((self._residuals.get(each, float("inf")) for each in active), default=0.0)

    def _query(self, name: str) -> dict[str, Any]:
        """Return the status of a peer; empty if it is stopped or does not answer."""
        if name not in self._active():
            return {}
        try:
            return self.cluster.status(name)
        except PeerError:
            return {}

    def _execute(self, event: Event) -> None:
        """Execute an event, and count it with the phase of the peer that it names first."""
        name = event.names[0]
        self._keep_checkpoints()
        if event.action == "start":
            self._restart(name)
            return
        if event.action == "roll-back":
            self._roll_back(name)
            return
        alive = name in self.cluster.processes and self.cluster.processes[name].is_alive()
        phase = "stopped" if name in self.stopped else self._query(name).get("phase", "starting")
        self.events[f"{event.action} while {phase if alive else 'gone'}"] += 1
        if event.action in _SIGNALS:
            if alive:
                self._signal(event.action, name)
        elif event.action == "copy":
            self._start_copy(name)
        elif event.action == "clock":
            (self.folder / f"{name}.clock").write_text(str(3600 * event.amount))
        elif event.action == "repair":
            self._repair(name)
        elif event.action in _DISK_FAULTS:
            (self.folder / f"{name}.{_DISK_FAULTS[event.action]}").touch()
        else:
            self._change_link(event)

    def _change_link(self, event: Event) -> None:
        proxy = self.cluster.proxy(*event.names)
        if event.action == "cut":
            proxy.cut()
        elif event.action == "stall":
            proxy.stall(from_dialer=event.names[0] < event.names[1])
        elif event.action == "jitter":
            proxy.delay(self.schedule.delay, _JITTER)
        else:
            proxy.restore()
            proxy.delay(self.schedule.delay)

    def _signal(self, action: str, name: str) -> None:
        process = self.cluster.processes[name]
        if process.is_alive():
            self.cluster.signal(name, _SIGNALS[action])
            record = next(each for each in self.processes if each.process is process)
            record.signals.add(_SIGNALS[action])
        if action == "stop":
            self.stopped.add(name)
        elif action in ("kill", "continue"):
            self.stopped.discard(name)
        if action == "kill":
            process.join(10)

    def _restart(self, name: str) -> None:
        """Start a peer; an earlier process that was asked to end has two seconds to do so."""
        old = self.cluster.processes.get(name)
        if old is not None:
            old.join(2)
        if old is not None and old.is_alive():
            self.events["start while another runs"] += 1
            return
        others = [self._query(other).get("phase", "") for other in NAMES if other != name]
        phases = [phase for phase in ("running", "agreeing", "done") if phase in others]
        self.events[f"start while others are {phases[0] if phases else 'gone'}"] += 1
        self._start(name)

    def _start(self, name: str) -> None:
        stderr = self.folder / f"{name}.err"
        begin = stderr.stat().st_size if stderr.exists() else 0
        lie = self.schedule.lie if name == self.schedule.liar else ""
        run = partial(machine.run_peer, name=name, lie=lie)
        self.cluster.start(name, options=_JSON, run=run)
        self.processes.append(PeerProcess(name, self.cluster.processes[name], begin))

    def _start_copy(self, name: str) -> None:
        """Start a second process of a peer, with the same key, in another directory."""
        first, copy = self.cluster.processes.pop(name, None), f"{name}-copy"
        options = [*_JSON, "--out", self.cluster.out(copy).name]
        options += ["--listen", f"127.0.0.1:{free_ports(1)[0]}"]
        self.cluster.start(name, options=options, run=partial(machine.run_peer, name=copy))
        self.cluster.processes[copy] = self.cluster.processes.pop(name)
        if first is not None:
            self.cluster.processes[name] = first
        self.processes.append(PeerProcess(copy, self.cluster.processes[copy], 0))

    def _keep_checkpoints(self) -> None:
        """Copy the first checkpoint that is seen of each peer."""
        for name in NAMES:
            kept = self.folder / f"{name}.checkpoint"
            if not kept.exists():
                with suppress(FileNotFoundError):
                    shutil.copy(self.cluster.out(name) / "checkpoint", kept)

    def _roll_back(self, name: str) -> None:
        """Put the first checkpoint back; a process that was asked to end may write another."""
        kept, process = self.folder / f"{name}.checkpoint", self.cluster.processes.get(name)
        if process is not None:
            process.join(2)
        self.events["roll-back" if kept.exists() else "roll-back without a checkpoint"] += 1
        if kept.exists():
            shutil.copy(kept, self.cluster.out(name) / "checkpoint")

    def _repair(self, name: str) -> None:
        for fault in _DISK_FAULTS.values():
            (self.folder / f"{name}.{fault}").unlink(missing_ok=True)

    def _start_with_good_disks(self) -> None:
        """Start peers once more that ended with an error after their disk had failed."""
        last = {each.name: each for each in self.processes if each.name in NAMES}
        for name, process in last.items():
            self._repair(name)
            failed = (self.folder / f"{name}.failed").exists()
            if failed and process.code == 2 and name != self.schedule.liar:
                self.events["start with a good disk"] += 1
                self._start(name)
                self._wait()

    def _wait(self) -> None:
        """Wait for every honest process to end, and record the status of those that hang."""
        begin = time.monotonic()
        # The last round seen of each, and when it was first seen.
        seen: dict[str, tuple[Any, float]] = {}
        while honest := set(self._active()) - {self.schedule.liar}:
            now = time.monotonic()
            for name in honest:
                round_ = self._query(name).get("round")
                if name not in seen or seen[name][0] != round_:
                    seen[name] = round_, now
            last = max(seen[name][1] for name in honest)
            if now - last > _HANG_TIMEOUT or now - begin > _TOTAL_TIMEOUT:
                break
            time.sleep(0.2)
        for i, each in enumerate(self.processes):
            each.code = each.process.exitcode
            # A search may take longer than all else; it has an end, as rounds are limited.
            stands = time.monotonic() - seen.get(each.name, ("", begin))[1]
            if each.code is None and stands > _HANG_TIMEOUT:
                each.status = str(self._query(each.name)) or "no answer"
            later = [p.stderr_begin for p in self.processes[i + 1 :] if p.name == each.name]
            file = self.folder / f"{each.name}.err"
            text = file.read_bytes() if file.exists() else b""
            each.stderr = text[each.stderr_begin : later[0] if later else None].decode()
