"""Checks what must be true after any schedule of faults: no hang, no false success, no breakage.

Nor may a peer take a forged result, or blame another one that does not lie. The evidence is what
the honest peers left behind: exit codes, stderr, logs, results and journals. Residuals and centers
are computed again from the rows.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peerclust import theory
from peerclust.arrays import Array
from peerclust.clustering.solution import Solution
from peerclust.errors import PeerclustError
from peerclust.peers import commands, replay
from peerclust.peers.site_directory import RESULT
from peerclust.runtimes.network.journal import read_journal
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.states import Cause
from peerclust.users import Users

from .fault_runner import FaultRun, PeerProcess
from .schedules import NAMES, PEERS

HANG, FALSE_SUCCESS, BROKEN = "hang", "false success", "broken"
FORGED, BLAMED = "forged result", "blamed"

# Parts of the sentences with which a peer may give up.
_REASONS = {
    "left the run": "left",
    "left before the run": "left",
    "The run was stopped": "stopped by the network file",
    "lost contact with all": "partitioned",
    "could reach none": "reached no peer",
    "could reach only": "reached too few peers",
    "it can take part only if": "rows out of range",
    "must not contain a result": "had a result",
}
# Causes for which only a peer that misbehaves is dropped. An honest one is lost when its process or
# the link fails: it is silent, restarts, has ended, or came too late for this run.
_ACCUSATIONS = (
    Cause.STUCK,
    Cause.INVALID,
    Cause.AHEAD,
    Cause.EXCESS,
    Cause.MUTE,
    Cause.OTHER_VIEWS,
    Cause.CONTRADICTION,
)
_DISK_ERRORS = ("No space left on device", "Input/output error")
# How far centers may be outside of the box of all rows, in widths of it: after success, and else.
_OUTSIDE = {True: 1.0, False: 12.0}
# Residuals computed again may differ by rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Finding:
    """A violation: its kind and a sentence."""

    kind: str
    what: str


@dataclass(eq=False)
class Verdict:
    """The violations, and a count of how processes ended."""

    findings: list[Finding] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)


def check_run(run: FaultRun) -> Verdict:
    """Check everything that a schedule left behind."""
    verdict = Verdict()
    records = _read_records(run, verdict)
    for process in run.processes:
        if process.name == run.schedule.liar:
            if "Traceback" in process.stderr:
                verdict.findings.append(Finding(BROKEN, f"the liar {process.name} crashed"))
            verdict.outcomes["lied"] += 1
            continue
        verdict.findings += _check_process(run, process)
        verdict.outcomes[_name_outcome(process, records.get(process.name))] += 1
    verdict.findings += [*_check_accusations(run), *_check_centers(run, records)]
    ends, neighbors = _replay_runs(run, records, verdict)
    successes = {n: r for n, r in records.items() if r["status"]["name"].startswith("converged")}
    for name, record in successes.items():
        for what in _check_success(run, name, record, records):
            verdict.findings.append(Finding(FALSE_SUCCESS, f"{name} converged, but {what}"))
    for what in [
        *_check_partitions(successes),
        *_check_joint_record(records),
        *_check_residuals(run, successes, ends, neighbors),
    ]:
        verdict.findings.append(Finding(FALSE_SUCCESS, what))
    return verdict


def _read_records(run: FaultRun, verdict: Verdict) -> dict[str, dict[str, Any]]:
    """Read all certificates, and check that each result is complete."""
    records = {}
    for name in run.honest:
        out = run.out(name)
        if not (out / "certificate.json").exists():
            continue
        try:
            records[name] = json.loads((out / "certificate.json").read_text())
            K, d = run.contract.n_clusters, len(run.contract.features)
            centers = np.loadtxt(out / "centers.csv", delimiter=",", skiprows=1, ndmin=2)
            labels = (out / "labels.csv").read_text().splitlines()
            solution = Solution.load(out / "solution.npz")
            complete = (
                centers.shape == (K, d + 1)
                and np.isfinite(centers).all()
                and np.array_equal(centers[:, 1:], solution.consensus)
                and len(labels) == 1 + len(run.schedule.parts[NAMES.index(name[:2])])
            )
        except (OSError, ValueError, PeerclustError) as error:
            verdict.findings.append(Finding(BROKEN, f"{name}'s result cannot be read: {error}"))
        else:
            if not complete:
                verdict.findings.append(Finding(BROKEN, f"{name}'s result is incomplete"))
    return records


def _check_process(run: FaultRun, process: PeerProcess) -> Iterator[Finding]:
    """Check how a process ended and what it wrote to stderr."""
    lines = map(_parse_line, filter(None, process.stderr.splitlines()))
    errors = [line["message"] for line in lines if line["event"] == "failed"]
    name, code = process.name, process.code
    if any(each in line for each in _DISK_ERRORS for line in errors if "out-" not in line):
        yield Finding(BROKEN, f"{name} does not name the file: {' / '.join(errors)}")
    if code is None and process.status:
        yield Finding(HANG, f"{name} did not end: {process.status}")
    elif code is not None and code < 0 and -code not in process.signals:
        yield Finding(BROKEN, f"{name} was ended by signal {-code}, which was not sent")
    elif code is not None and code > 3:
        yield Finding(BROKEN, f"{name} ended with exit code {code}")
    if len(errors) != (code in (2, 3)):
        yield Finding(BROKEN, f"{name} ended with {code} and wrote {' / '.join(errors)!r}")
    if code in (0, 1):
        missing = [file for file in RESULT if not (run.out(name) / file).exists()]
        if missing:
            yield Finding(BROKEN, f"{name} ended with {code} without {missing}")
    kept = "The result is kept in" in process.stderr
    if kept and not (run.out(name) / "certificate.json").exists():
        yield Finding(BROKEN, f"{name} kept its result, but did not write it later")


def _check_accusations(run: FaultRun) -> Iterator[Finding]:
    """Check that no honest peer was dropped for misbehaving, or convicted."""
    accusations = {cause.name.lower() for cause in _ACCUSATIONS}
    for name in run.honest:
        for line in _read_log(run, name):
            if line.get("cause") in accusations and line["peer"] in run.honest:
                what = f"{name} dropped a peer that did nothing wrong: {line['message']}"
                yield Finding(BLAMED, what)
        file = run.out(name) / "evidence.json"
        for each in json.loads(file.read_text()) if file.exists() else []:
            if each["peer"] in run.honest:
                yield Finding(BLAMED, f"{name} has evidence against {each['peer']}")


def _check_centers(run: FaultRun, records: dict[str, dict[str, Any]]) -> Iterator[Finding]:
    """Check that all results are near the rows."""
    rows = np.concatenate(run.schedule.parts)
    low, high = rows.min(axis=0), rows.max(axis=0)
    for name, record in records.items():
        centers = np.loadtxt(run.out(name) / "centers.csv", delimiter=",", skiprows=1, ndmin=2)
        outside = np.maximum(low - centers[:, 1:], centers[:, 1:] - high) / (high - low)
        if outside.max() > _OUTSIDE[_is_success(record)]:
            what = f"{name} ended as {record['status']['name']!r} with centers far from all rows"
            yield Finding(FORGED, what)


def _is_success(record: dict[str, Any]) -> bool:
    status = str(record["status"]["name"])
    return status.startswith("converged") or status == "joined late"


def _check_joint_record(records: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield what is wrong if two peers report success by different records."""
    found = {name: each["record"][:8] for name, each in records.items() if _is_success(each)}
    if len(set(found.values())) > 1:
        yield f"the records of successes differ: {found}"


def _read_log(run: FaultRun, name: str) -> list[dict[str, Any]]:
    """Return the lines of a peer's log."""
    log = run.out(name) / "log.jsonl"
    return list(map(_parse_line, log.read_text().splitlines())) if log.exists() else []


def _parse_line(line: str) -> dict[str, Any]:
    """Return a line of a log, or of stderr; what is no JSON, as a traceback, is a failure."""
    try:
        parsed: dict[str, Any] = json.loads(line)
    except ValueError:
        return {"event": "failed", "message": line}
    return parsed


def _name_outcome(process: PeerProcess, record: dict[str, Any] | None) -> str:
    if process.code is None:
        return "hung" if process.status else "still running after 5 minutes"
    if process.code < 0:
        return "killed"
    if process.code > 1 or record is None:
        return next((name for part, name in _REASONS.items() if part in process.stderr), "gave up")
    status = str(record["status"]["name"])
    if not status.startswith("converged"):
        return status
    if len(record["heard"]) < PEERS:
        return "converged without some peers"
    return "converged after faults" if record["events"] else "converged"


def _check_success(
    run: FaultRun, name: str, record: dict[str, Any], records: dict[str, dict[str, Any]]
) -> Iterator[str]:
    """Yield what is wrong with a success, judged by the certificates."""
    tol = run.contract.tol
    heard = record["heard"]
    if not record["largest_residual"] <= tol:
        yield f"its residual is {record['largest_residual']:g}"
    explained = " ".join(
        [record["status"]["advice"], *(event["what"] for event in record["events"])]
    )
    unmentioned = set(NAMES) - set(heard) - set(re.findall(r"\bp\d\b", explained))
    if unmentioned:
        yield f"it does not mention {', '.join(sorted(unmentioned))}"
    if 2 * len(heard) <= PEERS or name[:2] not in heard:
        yield f"it hears only {', '.join(heard)}"
    for other in heard:
        # A process that returned after the end reports the result of a neighbor.
        found = records[other]["largest_residual"] if other in records else None
        if found is not None and found > tol:
            yield f"{other}, which it hears, has the residual {found:g}"


def _check_partitions(successes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield pairs of successes that are in different partitions."""
    for a, one in successes.items():
        for b, other in successes.items():
            if a >= b:
                continue
            both = f"{a} hears {one['heard']}, {b} hears {other['heard']}"
            if not set(one["heard"]) & set(other["heard"]):
                yield f"{a} and {b} converged in different partitions: {both}"
            elif one["rounds"] == other["rounds"] and one["heard"] != other["heard"]:
                yield f"{a} and {b} converged in round {one['rounds']}, but {both}"


def _replay_runs(
    run: FaultRun, records: dict[str, dict[str, Any]], verdict: Verdict
) -> tuple[dict[str, replay.Replayed], dict[str, list[str]]]:
    """Replay each run of the journals; return each peer's end and the neighbors it heard last.

    None can be replayed if a journal could not be written, or if two processes were one peer.
    """
    contract = run.contract
    copies = [name for name in run.honest if name not in NAMES]
    if any(_took_part(run, name) for name in copies) or any(
        "journal" in run.disk_failures(name) for name in NAMES
    ):
        return {}, {}
    journals = {}
    for i, name in enumerate(NAMES):
        path = run.out(name) / "journal.jsonl"
        if path.exists():
            journals[i] = read_journal(path)
    rows = {
        i: commands.read_rows(contract, name, commands.read_table(contract, run.data(name)))
        for i, name in enumerate(NAMES)
    }
    ends: dict[str, replay.Replayed] = {}
    neighbors: dict[str, list[str]] = {}
    # A liar may begin a run on its own.
    honest = [each for i, each in journals.items() if NAMES[i] != run.schedule.liar]
    for run_id in sorted({e["run"] for each in honest for e in each if "run" in e}):
        of_run = {
            i: [event for event in journal if event["event"] == "seed"]
            + replay.select_run(journal, run_id)
            for i, journal in journals.items()
        }
        try:
            replayed = replay.replay(contract, rows, of_run)
        except PeerclustError as error:
            verdict.findings.append(Finding(BROKEN, f"the replay of {run_id} failed: {error}"))
            continue
        for i, end in replayed.items():
            if not end.same and NAMES[i] != run.schedule.liar:
                what = f"the replay of {NAMES[i]} to round {end.round} has different centers"
                verdict.findings.append(Finding(BROKEN, what))
            if journals[i][-1]["event"] == "end" and of_run[i][-1] is journals[i][-1]:
                ends[NAMES[i]] = end
                last = [event for event in of_run[i] if event["event"] == "heard"][-1:]
                neighbors[NAMES[i]] = [NAMES[j] for event in last for j in event["senders"]]
    for name, record in records.items():
        late = record["status"]["name"].startswith("joined late")
        if not late and (name not in ends or ends[name].round != record["rounds"]):
            verdict.findings.append(Finding(BROKEN, f"the replay does not reach the end of {name}"))
    return ends, neighbors


def _took_part(run: FaultRun, name: str) -> bool:
    path = run.out(name) / "journal.jsonl"
    return path.exists() and any(event["event"] == "agreed" for event in read_journal(path))


def _check_residuals(
    run: FaultRun,
    successes: dict[str, dict[str, Any]],
    ends: dict[str, replay.Replayed],
    neighbors: dict[str, list[str]],
) -> Iterator[str]:
    """Check the residual of each success whose peers all ended in the same round.

    It is computed from the rows, with a penalty by `_penalized_residual`, else by
    `_pooled_residual`.
    """
    contract, tol = run.contract, run.contract.tol
    for name, record in successes.items():
        heard = record["heard"]
        if any(j not in ends or ends[j].round != record["rounds"] for j in heard):
            continue
        agreed = Agreed(**record["agreed"])
        if not contract.spec.penalized:
            residual = _pooled_residual(run, agreed, {i: ends[i].x for i in heard})
            if residual > tol * (1 + _ROUNDING):
                yield f"{name} converged, but the residual is {residual:g} computed again"
            continue
        after = {
            word
            for each in successes.values()
            for event in each["events"]
            if "was lost after an agreement" in event["what"]
            for word in event["what"].split()[:1]
        }
        if any(after & set(neighbors[i]) for i in heard):
            continue  # the certificate is that of all
        for i in heard:
            near = neighbors[i]
            if not set(near) <= set(heard) or any(i not in neighbors[j] for j in near):
                yield f"{name} converged, but {i} last heard {near} of {heard}"
                break
        else:
            x = {i: ends[i].x for i in heard}
            residual = _penalized_residual(run, agreed, x, neighbors)
            if residual > tol * (1 + _ROUNDING):
                yield f"{name} converged, but the residual is {residual:g} computed again"


def _read_users(run: FaultRun, name: str, agreed: Agreed) -> Users:
    table = commands.read_table(run.contract, run.data(name))
    return commands.read_rows(run.contract, name, table).users(run.contract, agreed)


def _penalized_residual(
    run: FaultRun, agreed: Agreed, x: dict[str, Array], neighbors: dict[str, list[str]]
) -> float:
    """Return max |gradient + rho sum_j (x_i - x_j)| / (stiffness s), where j are the neighbors.

    The stiffness is min(Hm(k), H_i(k) + f(k) rho lambda_2) (`theory.Curvature`).
    """
    names, lengths, curvatures = list(x), [], []
    L = np.zeros((len(x), len(x)))
    for n, i in enumerate(names):
        L[n, n] = len(neighbors[i])
        L[n, [names.index(j) for j in neighbors[i]]] = -1.0
        users, own = _read_users(run, i, agreed), x[i][None]
        assignment = users.assign(own)
        total = np.sum([own - x[j] for j in neighbors[i]], axis=0)
        gradient = users.gradient(assignment, own) + agreed.rho * total
        lengths.append(np.linalg.norm(gradient[0], axis=1))
        curvatures.append(users.local_curvature(assignment, own)[0])
    pull, H = agreed.rho * float(np.linalg.eigvalsh(L)[1]), np.array(curvatures)
    stiffness = theory.Curvature.of(H, H.mean(axis=0), (H * H).mean(axis=0)).stiffness(pull)
    return float((np.array(lengths) / stiffness).max()) / agreed.spread


def _pooled_residual(run: FaultRun, agreed: Agreed, x: dict[str, Array]) -> float:
    """Return the larger one of two lengths, as a fraction of the spread.

    They are twice the largest distance from the mean centers, and the largest pooled gradient
    there over the sum of all curvatures.
    """
    mean = np.mean(list(x.values()), axis=0)
    radius = max(float(np.linalg.norm(each - mean, axis=1).max()) for each in x.values())
    gradient, curvature = np.zeros_like(mean), np.zeros(len(mean))
    for name, own in x.items():
        users = _read_users(run, name, agreed)
        gradient += users.gradient(users.assign(mean[None]), mean[None])[0]
        curvature += users.local_curvature(users.assign(own[None]), own[None])[0]
    steps = np.linalg.norm(gradient, axis=1) / np.where(curvature > 0, curvature, np.inf)
    return max(2.0 * radius, float(steps.max())) / agreed.spread
