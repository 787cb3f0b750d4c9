"""What a round of DGC costs once its users remember (see `lazy`), beside scikit-learn."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from peerclust import graphs
from peerclust.bench import Measure, check_picture
from peerclust.bench.growth import draw, measure_growth
from peerclust.bench.lloyd import choose_centers, time_lloyd
from peerclust.bench.timing import USERS, time_rounds
from peerclust.datasets import gaussians, mnist
from peerclust.losses import Fair, Huber, Logistic
from peerclust.types import Rows

_REPEATS = 3
_MILLION = 1_000_000


def measure(
    say: Callable[[str], None],
    *,
    data_dir: str | PathLike[str] | None = None,
    out: str | PathLike[str] = "peerclust-rounds.png",
) -> Iterator[Measure]:
    """Yield the measures; `data_dir` is where MNIST is, `out` the picture of how costs grow."""
    check_picture(out)
    images, _ = mnist(data_dir)
    rows = np.random.default_rng(0).permutation(gaussians(2 * _MILLION, random_state=0)[0])
    for name, loss, rounds, to in (
        ("kmeans", None, 1000, 1 / 20),
        ("huber", Huber(5.0), 1000, 1 / 8),
        ("logistic", Logistic(), 200, 1 / 1.5),
        ("fair", Fair(), 200, 1 / 1.5),
    ):
        say(f"{name}: 2,000,000 x 2 rows, K = 4, beside scikit-learn")
        yield from _beside_lloyd(name, rows, K=4, rho=100.0, rounds=rounds, loss=loss, to=to)
    say("memory on the same rows")
    yield _memory("bytes_a_row", rows, K=4, rho=100.0, paid=rows[0].nbytes, what="a sorted copy")
    say("mnist: 50,000 x 784 rows, K = 10, beside scikit-learn")
    yield from _beside_lloyd("mnist", images, K=10, rho=1000.0, rounds=1000, to=1 / 10)
    say("memory on the same rows")
    bounds = "4 bytes a row and center"
    yield _memory("mnist_bytes_a_row", images, K=10, rho=1000.0, paid=40, what=bounds)
    say("1,000,000 users x 2 rows on a ring, beside a sparse product")
    yield _many_users(rows)
    del rows, images
    curves = []
    for curve in measure_growth(say):
        curves.append(curve)
        yield curve.measure
    draw(curves, Path(out))


def _beside_lloyd(
    name: str, rows: Rows, *, K: int, rho: float, rounds: int, to: float, loss: Any = None
) -> Iterator[Measure]:
    """Give a round's share of a Lloyd iteration, and the set-up in iterations."""
    centers = choose_centers(rows, K)
    time_rounds(rows[: 2 * len(rows) // 10], K=K, rho=rho, rounds=3, loss=loss)  # compiles
    lloyd, setup, each = [], [], []
    for _ in range(_REPEATS):
        timed = time_rounds(rows, K=K, rho=rho, rounds=rounds, loss=loss)
        setup.append(timed.setup)
        each.append(timed.each)
        lloyd.append(time_lloyd(rows, centers))
    ours, first, theirs = median(each), median(setup), median(lloyd)
    yield Measure(
        f"{name}_round",
        ours / theirs,
        f"a round {ours * 1e3:.3f} ms (1/{theirs / ours:.1f}), one Lloyd iteration"
        f" {theirs * 1e3:.2f} ms; {rounds} rounds of {len(rows):,} x {rows.shape[1]} rows, K = {K},"
        f" {USERS} users, rho = {rho:g}, the paper's step",
        at_most=to,
    )
    yield Measure(
        f"{name}_setup",
        first / theirs,
        f"the first two rounds {first * 1e3:.0f} ms, in Lloyd iterations",
        at_most=20.0 if loss is None else None,
    )


def _memory(name: str, rows: Rows, *, K: int, rho: float, paid: int, what: str) -> Measure:
    """Give the bytes a row that a run takes, less what is `paid` a row and what centers take."""
    tracemalloc.start()
    time_rounds(rows, K=K, rho=rho, rounds=4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Start, two states, what was heard last and now, where centers were, sums (two) and peaks.
    centers = 9 * USERS * K * rows.shape[1] * 8
    return Measure(
        name,
        (peak - centers) / len(rows) - paid,
        f"bytes a row: peak memory {peak / 1e6:.1f} MB beyond the rows, less {what} ({paid} a row)"
        f" and nine arrays of all centers ({centers / 1e6:.1f} MB)",
        at_most=24.0,
    )


def _many_users(rows: Rows) -> Measure:
    """Give a round of a million users with two rows each, in bare products of L with centers."""
    m, K = len(rows) // 2, 4
    laplacian = graphs.ring(m).laplacian
    x = np.repeat(choose_centers(rows, K).reshape(1, -1), m, axis=0)
    ours, theirs = [], []
    for _ in range(_REPEATS):
        ours.append(time_rounds(rows, K=K, rho=100.0, rounds=32, m=m).each)
        for _ in range(_REPEATS):
            begin = perf_counter()
            laplacian @ x
            theirs.append(perf_counter() - begin)
    return Measure(
        "million_users",
        median(ours) / median(theirs),
        f"a round {median(ours) * 1e3:.1f} ms, one product {median(theirs) * 1e3:.1f} ms;"
        f" {m:,} users x 2 rows on a ring, K = {K}",
        at_most=3.0,
    )
