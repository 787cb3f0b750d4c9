"""Times rounds on one and more ranks, and the costs that `cost_model` consists of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.measures import Progress
from benchmarks.mpi.cost_model import Costs, fit_line, fit_row, predict, ring_load
from benchmarks.mpi.jobs import Task, run_job
from benchmarks.round_timing import USERS
from peerclust.kernels.threads import available_cores

# K and d: of the paper's Gaussians in the plane, and of images.
Shape = tuple[int, int]
PLANE: Shape = (4, 2)
IMAGES: Shape = (10, 784)

RANKS = (1, 2, 4)

# There are this many times fewer images than points, as a row of them is as much more work.
_FEWER_IMAGES = 100

# Enough users without rows to separate the cost of a user from that of a round.
_MANY_USERS = {PLANE: 1000, IMAGES: 60}


@dataclass(frozen=True)
class TimedRound:
    """The measured seconds of a round in which m users on a ring hold all rows.

    `memory` is the growth of a rank's peak memory in bytes per byte of its rows; None where the
    system does not report it.
    """

    shape: Shape
    ranks: int
    m: int
    rows: int
    seconds: float
    memory: float | None

    def predict(self, costs: Costs) -> float:
        """Return the seconds of the round by the model, on the cores of this machine."""
        K, d = self.shape
        load = ring_load(m=self.m, rows=self.rows, ranks=self.ranks, K=K, d=d)
        return predict(costs, load, ranks=self.ranks, cores=available_cores())


def time_scaling(
    progress: Progress, *, rows: int, rounds: int, repeats: int
) -> dict[str, list[TimedRound]]:
    """Time rounds on 1, 2 and 4 ranks, alternating between the cases.

    "strong" has the same rows on all ranks together, "weak" the same number of rows per rank, and
    "images" has rows of images on one rank.
    """
    cases = [("strong", PLANE, ranks, USERS, rows) for ranks in RANKS]
    cases += [("weak", PLANE, ranks, USERS * ranks, rows // RANKS[-1] * ranks) for ranks in RANKS]
    cases += [("images", IMAGES, 1, USERS, rows // _FEWER_IMAGES)]
    results: list[list[dict[str, Any]]] = [[] for _ in cases]
    for repeat in range(repeats):
        for (kind, shape, ranks, m, n), runs in zip(cases, results, strict=True):
            progress(
                f"{kind}: {n:,} x {shape[1]} rows, ranks: {ranks}, run {repeat + 1} of {repeats}"
            )
            runs += run_job(ranks, _rows(shape, m=m, rows=n, rounds=rounds))
    timed: dict[str, list[TimedRound]] = {}
    for (kind, shape, ranks, m, n), runs in zip(cases, results, strict=True):
        seconds = median(run["seconds"] for run in runs)
        memories = [run["memory"] for run in runs]
        memory = None if None in memories else median(memories)
        timed.setdefault(kind, []).append(TimedRound(shape, ranks, m, n, seconds, memory))
    return timed


def measure_costs(
    timed: Mapping[str, list[TimedRound]],
    exchange_seconds: Mapping[int, float],
    *,
    exchanges: int,
    repeats: int,
) -> dict[Shape, Costs]:
    """Return the costs for both shapes; `exchange_seconds` is of a bare exchange, by bytes.

    The cost of a row is that on one rank, which holds all rows.
    """
    latency, byte = fit_line(min(exchange_seconds.items()), max(exchange_seconds.items()))
    empty = run_job(
        1, *(_users(shape, exchanges=exchanges, repeats=repeats) for shape in _MANY_USERS)
    )
    costs = {}
    for point, by_users in zip((timed["strong"][0], timed["images"][0]), empty, strict=True):
        K, d = point.shape
        few, many = ((float(m), seconds) for m, seconds in by_users.items())
        round_, user = fit_line(few, many)
        load = ring_load(m=point.m, rows=point.rows, ranks=1, K=K, d=d)
        row = fit_row(point.seconds, load, round_=round_, user=user / (K * d))
        costs[point.shape] = Costs(round_, row, user / (K * d), latency, byte)
    return costs


def _rows(shape: Shape, **options: int) -> Task:
    K, d = shape
    return "time_rounds", {"K": K, "d": d, **options}


def _users(shape: Shape, *, exchanges: int, repeats: int) -> Task:
    K, d = shape
    many = _MANY_USERS[shape]
    # A round of many users takes as long as dozens of rounds of one.
    rounds = max(exchanges // 50, 1)
    return "time_empty_rounds", {
        "K": K,
        "d": d,
        "users": [USERS, many],
        "rounds": rounds,
        "repeats": repeats,
    }
