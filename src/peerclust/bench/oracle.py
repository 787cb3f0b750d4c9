"""What must be true after any schedule of faults: no hang, no false success, nothing broken.

All is read from what the peers left: exit codes, stderr, results and journals; and computed again
from the sites' rows.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peerclust import tables
from peerclust.bench.ordeal import Life, Trial
from peerclust.bench.schedules import NAMES, PEERS
from peerclust.clustering.solution import Solution
from peerclust.errors import PeerclustError
from peerclust.peers import commands, replay, setup
from peerclust.peers.site_directory import RESULT
from peerclust.runtimes.network.journal import read_journal
from peerclust.runtimes.network.messages import Agreed

Events = list[dict[str, Any]]

HANG, FALSE, BROKEN = "hang", "false success", "broken"

# What a peer writes to stderr while all is well, and what it may say when it gives up.
_PROGRESS = re.compile(r"round \d+, residual \S+, \d+ neighbors? alive")
_REASONS = {
    "left the run": "left",
    "The run was stopped": "stopped by the network file",
    "fell apart from": "alone",
    "could reach none": "reached nobody",
    "it can take part only if": "rows that do not fit",
    "must not hold a result": "had a result",
}
# Why a peer is dropped that does what it must not; here nobody does, only processes and wires fail.
_BLAMES = ("must not be ahead", "made no progress", "it sent ", "must be of this network")
# Residuals computed again may differ by rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Finding:
    """Something that must not be: its kind and a sentence."""

    kind: str
    what: str


@dataclass(eq=False)
class Judgment:
    """What was found, and how each process and result ended."""

    findings: list[Finding] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


def judge(trial: Trial) -> Judgment:
    """Look at everything that a schedule left behind."""
    judgment = Judgment()
    records = _read_records(trial, judgment)
    for life in trial.lives:
        judgment.findings += _check_life(trial, life)
        judgment.outcomes[_name_outcome(life, records.get(life.name))] += 1
    judgment.findings += _check_blames(trial)
    ends, living = _compute_again(trial, records, judgment)
    successes = {n: r for n, r in records.items() if r["status"]["name"].startswith("converged")}
    for name, record in successes.items():
        for what in _check_success(trial, name, record, records):
            judgment.findings.append(Finding(FALSE, f"{name} converged, but {what}"))
    for what in [*_check_apart(successes), *_check_residuals(trial, successes, ends, living)]:
        judgment.findings.append(Finding(FALSE, what))
    return judgment


def _read_records(trial: Trial, judgment: Judgment) -> dict[str, dict[str, Any]]:
    """Read all certificates, and check that the rest of each result is there."""
    records = {}
    for i, name in enumerate(NAMES):
        out = trial.out(name)
        if not (out / "certificate.json").exists():
            continue
        try:
            records[name] = json.loads((out / "certificate.json").read_text())
            K, d = trial.contract.n_clusters, len(trial.contract.features)
            centers = np.loadtxt(out / "centers.csv", delimiter=",", skiprows=1, ndmin=2)
            labels = (out / "labels.csv").read_text().splitlines()
            solution = Solution.load(out / "solution.npz")
            whole = (
                centers.shape == (K, d + 1)
                and np.isfinite(centers).all()
                and np.array_equal(centers[:, 1:], solution.consensus)
                and len(labels) == 1 + len(trial.schedule.parts[i])
            )
        except (OSError, ValueError, PeerclustError) as error:
            judgment.findings.append(Finding(BROKEN, f"{name}'s result cannot be read: {error}"))
        else:
            if not whole:
                judgment.findings.append(Finding(BROKEN, f"{name}'s result is not whole"))
    return records


def _check_life(trial: Trial, life: Life) -> Iterator[Finding]:
    """Check how a process ended and what it said."""
    # What is logged is said, too.
    logged = set(_read_log(trial, life.name))
    said = [
        line
        for line in life.said.splitlines()
        if line and line not in logged and not _PROGRESS.fullmatch(line)
    ]
    if life.code is None:
        yield Finding(HANG, f"{life.name} did not end: {life.standing}")
    elif life.code < 0 and -life.code not in life.signals:
        yield Finding(BROKEN, f"{life.name} ended by signal {-life.code}, which nobody sent")
    elif life.code > 3:
        yield Finding(BROKEN, f"{life.name} ended with code {life.code}")
    if len(said) != (life.code in (2, 3)):
        yield Finding(BROKEN, f"{life.name} ended with {life.code} and said {' / '.join(said)!r}")
    if life.code in (0, 1):
        missing = [name for name in RESULT if not (trial.out(life.name) / name).exists()]
        if missing:
            yield Finding(BROKEN, f"{life.name} ended with {life.code} without {missing}")


def _check_blames(trial: Trial) -> Iterator[Finding]:
    """Check that nobody was dropped for what it did."""
    for name in NAMES:
        for line in _read_log(trial, name):
            if any(blame in line for blame in _BLAMES):
                yield Finding(BROKEN, f"{name} blamed a peer that did nothing wrong: {line}")


def _read_log(trial: Trial, name: str) -> list[str]:
    """Give the lines of a peer's log without date and time."""
    log = trial.out(name) / "log.txt"
    return [line[20:] for line in log.read_text().splitlines()] if log.exists() else []


def _name_outcome(life: Life, record: dict[str, Any] | None) -> str:
    if life.code is None:
        return "hung"
    if life.code < 0:
        return "killed"
    if life.code > 1 or record is None:
        return next((to for words, to in _REASONS.items() if words in life.said), "gave up else")
    status = str(record["status"]["name"])
    if not status.startswith("converged"):
        return status
    if len(record["heard"]) < PEERS:
        return "converged without some"
    return "converged after faults" if record["events"] else "converged"


def _check_success(
    trial: Trial, name: str, record: dict[str, Any], records: dict[str, dict[str, Any]]
) -> Iterator[str]:
    """Give what is wrong with a success, as far as what was written tells."""
    tol = trial.contract.tol
    heard = record["heard"]
    if not (record["residual"] <= tol and record["largest_residual"] <= tol):
        yield f"its residuals are {record['residual']:g} and {record['largest_residual']:g}"
    told = " ".join([record["status"]["advice"], *(event["what"] for event in record["events"])])
    silent = set(NAMES) - set(heard) - set(re.findall(r"\bp\d\b", told))
    if silent:
        yield f"nothing is said of {', '.join(sorted(silent))}"
    if 2 * len(heard) <= PEERS or name not in heard:
        yield f"it hears only {', '.join(heard)}"
    for other in heard:
        # A process that came back after the end tells of a neighbor's result.
        if other in records and (records[other]["residual"] or 0.0) > tol:
            yield f"{other}, which it hears, has the residual {records[other]['residual']:g}"


def _check_apart(successes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Give which successes are not of one part."""
    for a, one in successes.items():
        for b, other in successes.items():
            if a >= b:
                continue
            both = f"{a} hears {one['heard']}, {b} hears {other['heard']}"
            if not set(one["heard"]) & set(other["heard"]):
                yield f"{a} and {b} converged apart: {both}"
            elif one["rounds"] == other["rounds"] and one["heard"] != other["heard"]:
                yield f"{a} and {b} converged in round {one['rounds']}, but {both}"


def _compute_again(
    trial: Trial, records: dict[str, dict[str, Any]], judgment: Judgment
) -> tuple[dict[str, replay.Replayed], dict[str, list[str]]]:
    """Replay each run of the journals; give each peer's end, and whom it heard last."""
    contract = trial.contract
    journals = {}
    for i, name in enumerate(NAMES):
        path = trial.out(name) / "journal.jsonl"
        if path.exists():
            journals[i] = read_journal(path)
    rows = {
        i: commands.read_rows(contract, name, commands.read_table(contract, trial.data(name)))
        for i, name in enumerate(NAMES)
    }
    ends: dict[str, replay.Replayed] = {}
    living: dict[str, list[str]] = {}
    for run in sorted({e["run"] for held in journals.values() for e in held if "run" in e}):
        of_run = {i: replay.select_run(held, run) for i, held in journals.items()}
        of_run = {i: held for i, held in of_run.items() if held}
        try:
            done = replay.replay(contract, rows, of_run)
        except PeerclustError as error:
            judgment.findings.append(Finding(BROKEN, f"the replay of {run} failed: {error}"))
            continue
        for i, end in done.items():
            if not end.same:
                what = f"the replay of {NAMES[i]} to round {end.round} gives other centers"
                judgment.findings.append(Finding(BROKEN, what))
            if journals[i][-1]["event"] == "end" and of_run[i][-1] is journals[i][-1]:
                ends[NAMES[i]] = end
                last = [event for event in of_run[i] if event["event"] == "heard"][-1:]
                living[NAMES[i]] = [NAMES[j] for event in last for j in event["senders"]]
    for name, record in records.items():
        late = record["status"]["name"].startswith("came late")
        if not late and (name not in ends or ends[name].round != record["rounds"]):
            judgment.findings.append(Finding(BROKEN, f"the replay has no end of {name}"))
    return ends, living


def _check_residuals(
    trial: Trial,
    successes: dict[str, dict[str, Any]],
    ends: dict[str, replay.Replayed],
    living: dict[str, list[str]],
) -> Iterator[str]:
    """Compute the fixed point's residual of each success whose peers all ended in one round.

    From rows: rho max_k | pull / rho + sum_j (x_i - x_j) | / (W a s), j the neighbors heard last.
    """
    contract, tol = trial.contract, trial.contract.tol
    for name, record in successes.items():
        heard = record["heard"]
        if any(j not in ends or ends[j].round != record["rounds"] for j in heard):
            continue
        agreed = Agreed(**record["agreed"])
        for i in heard:
            near = living[i]
            if not set(near) <= set(heard) or any(i not in living[j] for j in near):
                yield f"{name} converged, but {i} last heard {near} of {heard}"
                continue
            table = tables.read([trial.data(i)], columns=contract.features, may_be_empty=True)
            users = commands.read_rows(contract, i, table).users(
                contract, setup.make_scale(contract, agreed)
            )
            x = ends[i].x[None]
            users.assign(x)
            total = np.sum([x - ends[j].x for j in near], axis=0)
            gradient = users.gradient(x) + agreed.rho * total
            size = float(np.linalg.norm(gradient, axis=2).max())
            residual = size / setup.residual_scale(agreed, users)
            if residual > tol * (1 + _ROUNDING):
                yield f"{name} converged, but the residual of {i} is {residual:g} computed again"
