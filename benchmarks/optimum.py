"""The cost that `cluster` ends with by default, compared with the best of many restarts.

The data sets are random Gaussian mixtures, split over users at random or by class, on a ring, an
Erdos-Renyi graph, a grid and the automatic graph in turn. For K-means the comparison is
scikit-learn's best of ten restarts, for Huber our own best of 20 restarts without a search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

import peerclust as pc
from benchmarks.measures import Measure, Progress
from peerclust.arrays import Array
from peerclust.graphs import Graph

_MIXTURES = 100
_ROWS = 2000
_RESTARTS = 20


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of K Gaussians, split over users on a graph."""

    rows: Array
    parts: list[Array]
    K: int
    graph: str | Graph


def make_mixture(seed: int) -> Mixture:
    """Return a random mixture: K 3 to 20, d 2 to 20, 5 to 50 users.

    >>> mixture = make_mixture(0)
    >>> len(mixture.rows), sum(map(len, mixture.parts))
    (2000, 2000)
    """
    rng = np.random.default_rng([seed, 18])
    K, d, m = int(rng.integers(3, 21)), int(rng.integers(2, 21)), int(rng.integers(5, 51))
    means = rng.normal(size=(K, d)) * rng.uniform(1.0, 6.0)
    classes = rng.choice(K, size=_ROWS, p=rng.dirichlet(np.full(K, 5.0)))
    deviations = rng.uniform(0.5, 1.5, size=(K, 1))
    rows = means[classes] + rng.normal(size=(_ROWS, d)) * deviations[classes]
    if seed % 2:
        rows = rows[np.argsort(classes, kind="stable")]
    graphs: list[str | Graph] = ["ring", "grid", "auto"]
    p = min(1.0, 3.0 * np.log(m) / m)
    graphs.append(pc.graphs.erdos_renyi(m, p, random_state=seed))
    return Mixture(rows, np.array_split(rows, m), K, graphs[seed // 2 % 4])


def measure(progress: Progress) -> Iterator[Measure]:
    """Yield quantiles of the ratio of costs, for K-means and Huber."""
    yield from _compare("kmeans", progress)
    yield from _compare("huber", progress)


def _compare(loss: str, progress: Progress) -> Iterator[Measure]:
    ratios, first, growth = np.empty(_MIXTURES), np.empty(_MIXTURES), np.empty(_MIXTURES)
    converged = 0
    for seed in range(_MIXTURES):
        if seed % 10 == 0:
            progress(f"{loss}: mixture {seed} of {_MIXTURES}")
        mixture = make_mixture(seed)
        given: dict[str, Any] = {"n_clusters": mixture.K, "loss": loss, "random_state": seed}
        solution = pc.cluster(mixture.parts, graph=mixture.graph, **given)
        plain = pc.cluster(mixture.parts, graph=mixture.graph, search="none", **given)
        best = _best_of_many(mixture, loss, seed)
        end = solution.certificate
        ratios[seed] = end.pooled_cost / best
        first[seed] = plain.certificate.pooled_cost / best
        growth[seed] = 1.0 + end.search_rounds / end.rounds
        converged += solution.status.converged
    theirs = "scikit-learn's best of 10" if loss == "kmeans" else f"our best of {_RESTARTS}"
    detail = f"pooled cost over that of {theirs}, {_MIXTURES} mixtures, all defaults"
    without = f"; without a search {np.median(first):.3f}"
    yield Measure(f"{loss}_median", float(np.median(ratios)), detail + without, at_most=1.0001)
    yield Measure(f"{loss}_mean", float(ratios.mean()), detail, at_most=1.001)
    without = f"; without a search {np.quantile(first, 0.9):.3f}"
    yield Measure(
        f"{loss}_90_percent", float(np.quantile(ratios, 0.9)), detail + without, at_most=1.005
    )
    worst = f"of {_MIXTURES}; the worst is {ratios.max():.4f}, without a search {first.max():.3f}"
    yield Measure(f"{loss}_above_1.05", int((ratios > 1.05).sum()), worst, at_most=1)
    yield Measure(f"{loss}_converged", converged, f"of {_MIXTURES} runs", at_least=99)
    detail = f"rounds with the search over rounds without; 90 %: {np.quantile(growth, 0.9):.1f}"
    yield Measure(f"{loss}_rounds", float(np.median(growth)), detail)


def _best_of_many(mixture: Mixture, loss: str, seed: int) -> float:
    """Return the lowest cost of many restarts."""
    if loss == "kmeans":
        found = KMeans(mixture.K, n_init=10, random_state=seed).fit(mixture.rows)
        # scikit-learn does not halve the squares.
        return 0.5 * float(found.inertia_)
    many = pc.cluster(
        mixture.parts,
        n_clusters=mixture.K,
        loss=loss,
        solver="exact",
        n_init=_RESTARTS,
        search="none",
        random_state=seed + 1,
    )
    return many.certificate.pooled_cost
