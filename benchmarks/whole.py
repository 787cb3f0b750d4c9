"""The whole call of `PeerClustering.fit`, compared with that of scikit-learn's `KMeans`.

K is 10, on blobs and on a single Gaussian, which has many local optima. With all defaults, a search
by swaps included, the comparison is `KMeans(n_init=10)`, for which a lower cost counts too. From
the same start it is `KMeans(n_init=1)`, with as many iterations on both sides. scikit-learn runs on
one thread or on all, whichever is faster.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from os import PathLike
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks.lloyd import choose_centers
from benchmarks.measures import Measure, Progress
from peerclust.arrays import Rows
from peerclust.datasets import mnist
from peerclust.estimators import PeerClustering

K = 10
_SIZES = ((10_000, 2), (100_000, 8), (50_000, 64), (2_000_000, 2))
# Each call has at least three turns, and more while they take less than this many seconds.
_SECONDS = 2.0
_MOST_TURNS = 15
# Before that it is repeated for this many seconds, in which all loops are loaded that it needs.
_WARM_UP = 3.0
# Costs are sums in different orders.
_ROUNDING = 1.0 + 1e-9


def measure(
    progress: Progress, *, data_dir: str | PathLike[str] | None = None
) -> Iterator[Measure]:
    """Yield the measures; with `data_dir`, which has the MNIST files, those of MNIST too."""
    for n, d in _SIZES:
        for kind in ("blobs", "gaussian"):
            yield from _compare(f"{kind}_{n}x{d}", make_rows(kind, n, d), progress)
    if data_dir is not None:
        yield from _compare("mnist", mnist(data_dir)[0], progress)


def make_rows(kind: str, n: int, d: int) -> Rows:
    """Return n rows of blobs around 10 centers, or of one Gaussian.

    >>> make_rows("gaussian", 5, 2).shape
    (5, 2)
    """
    if kind == "blobs":
        rows: Rows = make_blobs(n, d, centers=K, random_state=1)[0]
        return rows
    return np.random.default_rng(1).normal(size=(n, d))


def _compare(name: str, rows: Rows, progress: Progress) -> Iterator[Measure]:
    """Compare on one data set: by default with one and ten users, and from the same start."""
    progress(f"{name}: {len(rows):,} x {rows.shape[1]} rows")
    users = np.arange(len(rows)) % 10
    seconds, models = take_turns(
        {
            "one": lambda: PeerClustering(K, random_state=0).fit(rows),
            "ten": lambda: PeerClustering(K, random_state=0).fit(rows, users=users),
            **_with_threads(lambda: KMeans(K, n_init=10, random_state=0).fit(rows)),
        }
    )
    theirs = min(seconds["threads"], seconds["one thread"])
    for who, target in (("one", 1.0), ("ten", 2.0)):
        ratio = models[who].inertia_ / models["threads"].inertia_
        detail = (
            f"{seconds[who]:.3g} s with {who} user{'s' * (who == 'ten')}, {theirs:.3g} s of"
            f" KMeans(n_init=10), at {ratio:.5f} of its cost"
        )
        yield Measure(f"{name}_{who}", seconds[who] / theirs, detail, at_most=target)
        yield Measure(f"{name}_{who}_cost", ratio, "cost over theirs", at_most=_ROUNDING)
    start: dict[str, Any] = {"n_clusters": K, "init": choose_centers(rows, K), "n_init": 1}
    rounds = int(KMeans(**start).fit(rows).n_iter_)
    seconds, models = take_turns(
        {
            "ours": lambda: PeerClustering(**start, tol=0, max_iter=rounds).fit(rows),
            **_with_threads(lambda: KMeans(**start).fit(rows)),
        }
    )
    theirs = min(seconds["threads"], seconds["one thread"])
    detail = f"{seconds['ours']:.3g} s and {theirs:.3g} s for {rounds} iterations from one start"
    yield Measure(f"{name}_same_start", seconds["ours"] / theirs, detail, at_most=1.2)


def _with_threads(call: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """Return the calls of scikit-learn with all threads and with one."""

    def alone() -> Any:
        with threadpool_limits(1):
            return call()

    return {"threads": call, "one thread": alone}


def take_turns(calls: dict[str, Callable[[], Any]]) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the median seconds of each call, which take turns, and what the last ones returned.

    >>> seconds, results = take_turns({"a": lambda: 1, "b": lambda: 2})
    >>> sorted(seconds), results
    (['a', 'b'], {'a': 1, 'b': 2})
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    results: dict[str, Any] = {}
    with warnings.catch_warnings():
        # Stopping after some iterations is intended.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for call in calls.values():
            ready = perf_counter() + _WARM_UP
            while perf_counter() < ready:
                call()
        begin = perf_counter()
        for turn in range(_MOST_TURNS):
            if turn >= 3 and perf_counter() - begin > _SECONDS * len(calls):
                break
            for name, call in calls.items():
                start = perf_counter()
                results[name] = call()
                taken[name].append(perf_counter() - start)
    return {name: median(each) for name, each in taken.items()}, results
