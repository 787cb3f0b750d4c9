"""The cost of a round of DGC whose users cache their assignment, compared with scikit-learn."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.lloyd import choose_centers, time_lloyd
from benchmarks.measures import Measure, Progress, check_picture
from benchmarks.round_timing import USERS, time_rounds
from benchmarks.rounds.cost_growth import draw, measure_growth
from peerclust import graphs
from peerclust.arrays import Rows
from peerclust.datasets import gaussians, mnist
from peerclust.losses import Fair, Huber, Logistic

_REPEATS = 3
_MILLION = 1_000_000


def measure(
    progress: Progress,
    *,
    data_dir: str | PathLike[str] | None = None,
    out: str | PathLike[str] = "peerclust-rounds.png",
) -> Iterator[Measure]:
    """Yield the measures; `data_dir` has the MNIST files, `out` is the figure of cost growth."""
    check_picture(out)
    images, _ = mnist(data_dir)
    rows = np.random.default_rng(0).permutation(gaussians(2 * _MILLION, random_state=0)[0])
    for name, loss, rounds, target in (
        ("kmeans", None, 1000, 1 / 20),
        ("huber", Huber(5.0), 1000, 1 / 8),
        ("logistic", Logistic(), 200, 1 / 1.5),
        ("fair", Fair(), 200, 1 / 1.5),
    ):
        progress(f"{name}: 2,000,000 x 2 rows, K = 4, compared with scikit-learn")
        yield from _compare_with_lloyd(
            name, rows, K=4, rho=100.0, rounds=rounds, loss=loss, target=target
        )
    progress("memory on the same rows")
    yield _measure_memory(
        "bytes_a_row", rows, K=4, rho=100.0, allowed=rows[0].nbytes, what="a sorted copy"
    )
    progress("mnist: 50,000 x 784 rows, K = 10, compared with scikit-learn")
    yield from _compare_with_lloyd("mnist", images, K=10, rho=1000.0, rounds=1000, target=1 / 10)
    progress("memory on the same rows")
    bounds = "4 bytes per row and center"
    yield _measure_memory("mnist_bytes_a_row", images, K=10, rho=1000.0, allowed=40, what=bounds)
    progress("1,000,000 users x 2 rows on a ring, compared with a sparse product")
    yield _compare_with_product(rows)
    del rows, images
    curves = []
    for curve in measure_growth(progress):
        curves.append(curve)
        yield curve.measure
    draw(curves, Path(out))


def _compare_with_lloyd(
    name: str, rows: Rows, *, K: int, rho: float, rounds: int, target: float, loss: Any = None
) -> Iterator[Measure]:
    """Yield the seconds of a round and of the set-up, both in Lloyd iterations."""
    centers = choose_centers(rows, K)
    time_rounds(rows[: 2 * len(rows) // 10], K=K, rho=rho, rounds=3, loss=loss)  # compiles
    lloyd, setup, later = [], [], []
    for _ in range(_REPEATS):
        times = time_rounds(rows, K=K, rho=rho, rounds=rounds, loss=loss)
        setup.append(times.setup)
        later.append(times.later)
        lloyd.append(time_lloyd(rows, centers))
    ours, first, theirs = median(later), median(setup), median(lloyd)
    yield Measure(
        f"{name}_round",
        ours / theirs,
        f"one round {ours * 1e3:.3f} ms (1/{theirs / ours:.1f}), one Lloyd iteration"
        f" {theirs * 1e3:.2f} ms; {rounds} rounds of {len(rows):,} x {rows.shape[1]} rows, K = {K},"
        f" {USERS} users, rho = {rho:g}, the paper's step",
        at_most=target,
    )
    yield Measure(
        f"{name}_setup",
        first / theirs,
        f"the first two rounds {first * 1e3:.0f} ms, in Lloyd iterations",
        at_most=20.0 if loss is None else None,
    )


def _measure_memory(
    name: str, rows: Rows, *, K: int, rho: float, allowed: int, what: str
) -> Measure:
    """Measure the bytes per row of a run beyond those `allowed` and those of the centers."""
    tracemalloc.start()
    time_rounds(rows, K=K, rho=rho, rounds=4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Start, two states, two received sums, the cached centers, two sums and the maxima.
    centers = 9 * USERS * K * rows.shape[1] * 8
    return Measure(
        name,
        (peak - centers) / len(rows) - allowed,
        f"bytes per row: peak memory {peak / 1e6:.1f} MB beyond the rows, minus {what} ({allowed}"
        f" per row) and nine arrays of all centers ({centers / 1e6:.1f} MB)",
        at_most=24.0,
    )


def _compare_with_product(rows: Rows) -> Measure:
    """Compare a round of a million users that hold two rows each with the product L x."""
    m, K = len(rows) // 2, 4
    laplacian = graphs.ring(m).laplacian
    x = np.repeat(choose_centers(rows, K).reshape(1, -1), m, axis=0)
    ours, theirs = [], []
    for _ in range(_REPEATS):
        ours.append(time_rounds(rows, K=K, rho=100.0, rounds=32, m=m).later)
        for _ in range(_REPEATS):
            begin = perf_counter()
            laplacian @ x
            theirs.append(perf_counter() - begin)
    return Measure(
        "million_users",
        median(ours) / median(theirs),
        f"one round {median(ours) * 1e3:.1f} ms, one product {median(theirs) * 1e3:.1f} ms;"
        f" {m:,} users x 2 rows on a ring, K = {K}",
        at_most=3.0,
    )
