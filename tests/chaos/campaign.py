"""What random faults do to six real peers: schedule after schedule, each from its own seed.

`schedules` draws them, `ordeal` carries them out, `oracle` says what must be true after each.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.measures import Measure
from .oracle import BROKEN, FALSE, HANG, Finding, judge
from .fault_runner import Ordeal, warm_up
from .schedules import NAMES, draw
from peerclust.validation import check_count

# Schedules that run at once: peers mostly wait for each other.
_AT_ONCE = 3

# Lines of each log that a failure is told with.
_TAIL = 12


@dataclass(frozen=True)
class Found:
    """What came of one schedule; `story` tells of it if something is wrong."""

    seed: int
    findings: tuple[Finding, ...]
    outcomes: Counter[str]
    hits: Counter[str]
    seconds: float
    story: str


def measure(
    say: Callable[[str], None], *, schedules: int = 200, seed: int = 0
) -> Iterator[Measure]:
    """Yield what schedules of the seeds `seed`, `seed` + 1, ... did."""
    check_count(schedules, "schedules", "bench")
    check_count(seed, "seed", "bench", at_least=0)
    begin = perf_counter()
    found: list[Found] = []
    for each in endure(range(seed, seed + schedules)):
        found.append(each)
        if each.story:
            say(each.story)
        if len(found) % 10 == 0 or len(found) == schedules:
            bad = sum(bool(one.findings) for one in found)
            minutes = (perf_counter() - begin) / 60
            say(f"{len(found)} of {schedules} schedules, {bad} failed, {minutes:.1f} minutes")
    outcomes = sum((each.outcomes for each in found), Counter[str]())
    hits = sum((each.hits for each in found), Counter[str]())
    for name, kind, detail in (
        ("hangs", HANG, f"processes: {_list(outcomes)}"),
        ("false_successes", FALSE, f"{schedules} schedules from seed {seed} on"),
        ("broken", BROKEN, f"events: {_list(hits)}"),
    ):
        failed = [each.seed for each in found if any(f.kind == kind for f in each.findings)]
        told = f"; of seeds {', '.join(map(str, failed))}" if failed else ""
        yield Measure(name, len(failed), detail + told, at_most=0)


def endure(seeds: Iterable[int]) -> Iterator[Found]:
    """Carry the schedules of these seeds out, some at once; give what came of each."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(_AT_ONCE, mp_context=context, initializer=warm_up) as pool:
        for done in as_completed([pool.submit(_endure_one, seed) for seed in seeds]):
            yield done.result()


def _endure_one(seed: int) -> Found:
    schedule = draw(seed)
    folder = Path(tempfile.mkdtemp(prefix=f"peerclust-chaos-{seed}-"))
    trial = Ordeal(schedule, folder).run()
    judgment = judge(trial)
    story = ""
    if judgment.findings:
        codes = ", ".join(f"{life.name} {life.code}" for life in trial.lives)
        lines = [
            str(schedule),
            *(f"  {finding.kind}: {finding.what}" for finding in judgment.findings),
            f"  exit codes: {codes}",
            *(_tail(trial.out(name) / "log.txt", name) for name in NAMES),
            f"  kept in {folder}; again: peerclust bench chaos --schedules 1 --seed {seed}",
        ]
        story = "\n".join(lines)
    else:
        shutil.rmtree(folder)
    findings = tuple(judgment.findings)
    return Found(seed, findings, judgment.outcomes, trial.hits, trial.seconds, story)


def _tail(log: Path, name: str) -> str:
    lines = log.read_text().splitlines()[-_TAIL:] if log.exists() else ["no log"]
    return "\n".join(f"  {name}: {line}" for line in lines)


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {n}" for what, n in sorted(counts.items()))
