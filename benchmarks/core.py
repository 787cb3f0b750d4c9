"""One full assignment and gradient, compared with a Lloyd iteration of scikit-learn.

The cost of later rounds, in which users cache their assignment, is in `rounds`.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from time import perf_counter

import numpy as np

from benchmarks.lloyd import choose_centers, time_lloyd
from benchmarks.measures import Measure, Progress, ratio
from benchmarks.round_timing import make_users
from peerclust.arrays import Rows
from peerclust.datasets import gaussians
from peerclust.users import Users


def measure(progress: Progress) -> Iterator[Measure]:
    """Yield the measures of one assignment and gradient."""
    rng = np.random.default_rng(0)
    progress("2,000,000 x 2 rows, K = 4, 10 users, compared with scikit-learn")
    rows = rng.permutation(gaussians(2_000_000, random_state=0)[0])
    yield _compare_with_lloyd("low_dimension", rows, K=4)

    progress("memory of a round on the same rows")
    yield _measure_memory(rows, K=4)
    del rows

    progress("50,000 x 784 rows, K = 10, 10 users, compared with scikit-learn")
    # The shape of MNIST, with about as many nonzero pixels.
    images = rng.random((50_000, 784)) * (rng.random((50_000, 784)) < 0.2)
    yield _compare_with_lloyd("high_dimension", images, K=10)
    del images

    progress("10,000 users x 100 rows, compared with 10 users x 100,000")
    rows = gaussians(1_000_000, random_state=1)[0]
    many, few = make_users(rows, 10_000), make_users(rows, 10)
    centers = rows[rng.choice(len(rows), 4, replace=False)]
    value, ours, theirs = ratio(
        _first_round(many, centers), lambda: _seconds(_first_round(few, centers)), repeats=9
    )
    yield Measure(
        "many_users",
        value,
        f"assignment and gradient: {ours * 1e3:.2f} ms with 10,000 users x 100 rows,"
        f" {theirs * 1e3:.2f} ms with 10 x 100,000",
        at_most=2.0,
    )


def _compare_with_lloyd(name: str, rows: Rows, *, K: int) -> Measure:
    users, centers = make_users(rows, 10), choose_centers(rows, K)
    value, ours, theirs = ratio(_first_round(users, centers), lambda: time_lloyd(rows, centers))
    return Measure(
        name,
        value,
        f"assignment and gradient: {ours * 1e3:.2f} ms; one Lloyd iteration: {theirs * 1e3:.2f} ms;"
        f" {len(rows):,} x {rows.shape[1]}, K = {K}, 10 users",
        at_most=1.5,
    )


def _measure_memory(rows: Rows, *, K: int) -> Measure:
    tracemalloc.start()
    users = make_users(rows, 10)
    _first_round(users, rows[:K])()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Measure(
        "bytes_a_row",
        peak / len(rows),
        f"peak memory beyond the rows, building the users included: {peak / 1e6:.1f} MB",
        at_most=24.0,
    )


def _first_round(users: Users, centers: Rows) -> Callable[[], object]:
    x = np.repeat(np.asarray(centers, dtype=np.float64)[None], users.m, axis=0)

    def assign_and_sum() -> None:
        # As in a first round: there is no earlier assignment.
        users.gradient(users.assign(x), x)

    return assign_and_sum


def _seconds(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return perf_counter() - begin
