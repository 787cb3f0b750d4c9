"""Runs many random schedules of faults on six peer processes, each schedule from its own seed.

`schedules` draws a schedule, `fault_runner` executes it, and `oracle` checks the outcome.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.measures import Measure, Progress
from peerclust.validation import check_count

from .fault_runner import FaultRunner, warm_up
from .oracle import BLAMED, BROKEN, FALSE_SUCCESS, FORGED, HANG, Finding, check_run
from .schedules import Schedule, draw

# Number of schedules that run at the same time: peers mostly wait for each other.
_CONCURRENT = 3

# Lines of each log in the report of a failure.
_LOG_LINES = 12


@dataclass(frozen=True)
class ScheduleResult:
    """The outcome of one schedule; `report` describes it if something failed."""

    schedule: Schedule
    findings: tuple[Finding, ...]
    outcomes: Counter[str]
    events: Counter[str]
    seconds: float
    report: str


def measure(progress: Progress, *, count: int = 200, seed: int = 0) -> Iterator[Measure]:
    """Yield the number of failures of the schedules of the seeds `seed`, `seed` + 1, ..."""
    check_count(count, "count", "chaos")
    check_count(seed, "seed", "chaos", at_least=0)
    begin = perf_counter()
    results: list[ScheduleResult] = []
    for result in run_schedules(range(seed, seed + count)):
        results.append(result)
        if result.report:
            progress(result.report)
        if len(results) % 10 == 0 or len(results) == count:
            failed = sum(bool(each.findings) for each in results)
            minutes = (perf_counter() - begin) / 60
            progress(f"{len(results)} of {count} schedules, {failed} failed, {minutes:.1f} minutes")
    outcomes = sum((each.outcomes for each in results), Counter[str]())
    events = sum((each.events for each in results), Counter[str]())
    schedules = [each.schedule for each in results]
    lies = Counter(each.lie for each in schedules if each.liar)
    solvers = Counter(str(each.settings["solver"]) for each in schedules)
    for name, kind, detail in (
        ("hangs", HANG, f"processes: {_list_counts(outcomes)}"),
        (
            "false_successes",
            FALSE_SUCCESS,
            f"{count} schedules, seeds {seed} to {seed + count - 1}: {_list_counts(solvers)}",
        ),
        ("forged_results", FORGED, f"{lies.total()} schedules with a liar: {_list_counts(lies)}"),
        ("honest_blamed", BLAMED, "honest peers dropped as if they misbehaved, or convicted"),
        ("broken", BROKEN, f"events: {_list_counts(events)}"),
    ):
        seeds = [
            each.schedule.seed for each in results if any(f.kind == kind for f in each.findings)
        ]
        listed = f"; failed seeds: {', '.join(map(str, seeds))}" if seeds else ""
        yield Measure(name, len(seeds), detail + listed, at_most=0)


def run_schedules(seeds: Iterable[int]) -> Iterator[ScheduleResult]:
    """Run the schedules of these seeds, several at a time, and yield each result."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(_CONCURRENT, mp_context=context, initializer=warm_up) as pool:
        for done in as_completed([pool.submit(_run_schedule, seed) for seed in seeds]):
            yield done.result()


def _run_schedule(seed: int) -> ScheduleResult:
    schedule = draw(seed)
    folder = Path(tempfile.mkdtemp(prefix=f"peerclust-chaos-{seed}-"))
    run = FaultRunner(schedule, folder).run()
    verdict = check_run(run)
    report = ""
    if verdict.findings:
        codes = ", ".join(f"{process.name} {process.code}" for process in run.processes)
        lines = [
            str(schedule),
            *(f"  {finding.kind}: {finding.what}" for finding in verdict.findings),
            f"  exit codes: {codes}",
            *(_last_lines(run.out(name) / "log.jsonl", name) for name in run.honest),
            f"  files kept in {folder}",
            f"  repeat with: python -m tests.chaos schedules --count 1 --seed {seed}",
        ]
        report = "\n".join(lines)
    else:
        shutil.rmtree(folder)
    findings = tuple(verdict.findings)
    return ScheduleResult(schedule, findings, verdict.outcomes, run.events, run.seconds, report)


def _last_lines(log: Path, name: str) -> str:
    lines = log.read_text().splitlines()[-_LOG_LINES:] if log.exists() else ["no log"]
    return "\n".join(f"  {name}: {line}" for line in lines)


def _list_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {n}" for what, n in sorted(counts.items()))
