"""What one full assignment and pull costs, beside a Lloyd iteration of scikit-learn.

What a round costs once users remember is in `rounds`.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from time import perf_counter

import numpy as np

from peerclust.bench import Measure, ratio
from peerclust.bench.lloyd import choose_centers, time_lloyd
from peerclust.datasets import gaussians
from peerclust.types import Rows
from peerclust.users import Users


def measure(say: Callable[[str], None]) -> Iterator[Measure]:
    """Yield the measures of the core."""
    rng = np.random.default_rng(0)
    say("2,000,000 x 2 rows, K = 4, 10 users, beside scikit-learn")
    rows = rng.permutation(gaussians(2_000_000, random_state=0)[0])
    yield _beside_lloyd("low_dimension", rows, K=4)

    say("memory of a round on the same rows")
    yield _memory(rows, K=4)
    del rows

    say("50,000 x 784 rows, K = 10, 10 users, beside scikit-learn")
    # Of MNIST's shape, with about as many pixels that are not zero.
    images = rng.random((50_000, 784)) * (rng.random((50_000, 784)) < 0.2)
    yield _beside_lloyd("high_dimension", images, K=10)
    del images

    say("10,000 users x 100 rows beside 10 users x 100,000")
    rows = gaussians(1_000_000, random_state=1)[0]
    many, few = _users(rows, 10_000), _users(rows, 10)
    centers = rows[rng.choice(len(rows), 4, replace=False)]
    value, ours, theirs = ratio(
        _round(many, centers), lambda: _seconds(_round(few, centers)), repeats=9
    )
    yield Measure(
        "many_users",
        value,
        f"assign and pull: {ours * 1e3:.2f} ms with 10,000 users x 100 rows,"
        f" {theirs * 1e3:.2f} ms with 10 x 100,000",
        at_most=2.0,
    )


def _beside_lloyd(name: str, rows: Rows, *, K: int) -> Measure:
    users, centers = _users(rows, 10), choose_centers(rows, K)
    value, ours, theirs = ratio(_round(users, centers), lambda: time_lloyd(rows, centers))
    return Measure(
        name,
        value,
        f"assign and pull: {ours * 1e3:.2f} ms; one Lloyd iteration: {theirs * 1e3:.2f} ms;"
        f" {len(rows):,} x {rows.shape[1]}, K = {K}, 10 users",
        at_most=1.5,
    )


def _memory(rows: Rows, *, K: int) -> Measure:
    tracemalloc.start()
    users = _users(rows, 10)
    _round(users, rows[:K])()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Measure(
        "bytes_a_row",
        peak / len(rows),
        f"peak memory beyond the rows, building the users included: {peak / 1e6:.1f} MB",
        at_most=24.0,
    )


def _users(rows: Rows, m: int) -> Users:
    return Users(rows, np.linspace(0, len(rows), m + 1).astype(np.int64))


def _round(users: Users, centers: Rows) -> Callable[[], object]:
    x = np.repeat(np.asarray(centers, dtype=np.float64)[None], users.m, axis=0)

    def assign_and_pull() -> None:
        # As in a first round: nothing is known of the last assignment.
        users.reset_cache()
        users.assign(x)
        users.gradient(x)

    return assign_and_pull


def _seconds(work: Callable[[], object]) -> float:
    begin = perf_counter()
    work()
    return perf_counter() - begin
