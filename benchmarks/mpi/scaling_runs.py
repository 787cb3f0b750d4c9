"""Times rounds on one rank and on more, and what the model of them (see `mpi_model`) is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.mpi.jobs import Task, cores, run_job
from benchmarks.mpi.cost_model import Costs, fit_line, fit_row, predict, ring_load
from benchmarks.round_timing import USERS

# K and d of the paper's Gaussians in the plane, and of images.
Shape = tuple[int, int]
PLANE: Shape = (4, 2)
IMAGES: Shape = (10, 784)

RANKS = (1, 2, 4)

# Images have about so many times as many features and centers, and so many times fewer rows.
_FEWER_IMAGES = 100

# As many users without rows as tell the cost of a user from that of a round.
_MANY_USERS = {PLANE: 1000, IMAGES: 60}


@dataclass(frozen=True)
class Point:
    """A round as it was measured, m users on a ring having all the rows.

    `growth` is by how much the memory of a rank grew at its peak, for a byte of its rows; None
    where the system does not tell.
    """

    shape: Shape
    ranks: int
    m: int
    rows: int
    seconds: float
    growth: float | None

    def predict(self, costs: Costs) -> float:
        """Give the seconds of the round by the model, on the cores of this machine."""
        K, d = self.shape
        load = ring_load(m=self.m, rows=self.rows, ranks=self.ranks, K=K, d=d)
        return predict(costs, load, ranks=self.ranks, cores=cores())


def time_scaling(
    say: Callable[[str], None], *, rows: int, rounds: int, repeats: int
) -> dict[str, list[Point]]:
    """Time the same rows on one rank and more ("strong"), and as many a rank ("weak"), in turns.

    Those of images on one rank are "images".
    """
    cases = [("strong", PLANE, ranks, USERS, rows) for ranks in RANKS]
    cases += [("weak", PLANE, ranks, USERS * ranks, rows // RANKS[-1] * ranks) for ranks in RANKS]
    cases += [("images", IMAGES, 1, USERS, rows // _FEWER_IMAGES)]
    found: list[list[dict[str, Any]]] = [[] for _ in cases]
    for turn in range(repeats):
        for (kind, shape, ranks, m, n), times in zip(cases, found, strict=True):
            say(f"{kind}: {n:,} x {shape[1]} rows, ranks: {ranks}, turn {turn + 1} of {repeats}")
            times += run_job(ranks, _rows(shape, m=m, rows=n, rounds=rounds))
    points: dict[str, list[Point]] = {}
    for (kind, shape, ranks, m, n), times in zip(cases, found, strict=True):
        seconds = median(each["seconds"] for each in times)
        growths = [each["growth"] for each in times]
        growth = None if None in growths else median(growths)
        points.setdefault(kind, []).append(Point(shape, ranks, m, n, seconds, growth))
    return points


def measure_costs(
    points: Mapping[str, list[Point]],
    letters: Mapping[int, float],
    *,
    exchanges: int,
    repeats: int,
) -> dict[Shape, Costs]:
    """Give the costs of the plane and of images; letters are seconds of a bare exchange by bytes.

    The cost of a row is found on one rank, where all rows are.
    """
    latency, byte = fit_line(min(letters.items()), max(letters.items()))
    timed = run_job(
        1, *(_users(shape, exchanges=exchanges, repeats=repeats) for shape in _MANY_USERS)
    )
    costs = {}
    for point, by_users in zip((points["strong"][0], points["images"][0]), timed, strict=True):
        K, d = point.shape
        few, many = ((float(m), seconds) for m, seconds in by_users.items())
        round_, user = fit_line(few, many)
        load = ring_load(m=point.m, rows=point.rows, ranks=1, K=K, d=d)
        row = fit_row(point.seconds, load, round_=round_, user=user / (K * d))
        costs[point.shape] = Costs(round_, row, user / (K * d), latency, byte)
    return costs


def _rows(shape: Shape, **options: int) -> Task:
    K, d = shape
    return "rows", {"K": K, "d": d, **options}


def _users(shape: Shape, *, exchanges: int, repeats: int) -> Task:
    K, d = shape
    many = _MANY_USERS[shape]
    # Many users take as long as dozens of exchanges of one.
    rounds = max(exchanges // 50, 1)
    return "users", {"K": K, "d": d, "users": [USERS, many], "rounds": rounds, "repeats": repeats}
