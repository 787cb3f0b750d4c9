"""Figure 3: Iris with 20 % outliers; where K-means, Huber and ADMM-KM put their centers.

For each seed the data is made once, and the final centers of 10 runs from different starts are
averaged over runs and users, as in the paper. A mean is found if an averaged center of its own lies
within 1.5 of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peerclust import datasets, graphs
from peerclust.datasets import NoisyIris
from peerclust.demo import NAMES, NEAR, USERS, match_means
from peerclust.experiments.compare import select, stat
from peerclust.experiments.plan import Experiment, Job, Line, Row, Settings, Stat, Summary
from peerclust.losses import Huber
from peerclust.methods import METHODS, Method, OverNetwork, Task
from peerclust.methods.network import make_dgc
from peerclust.report.pictures import Embedding
from peerclust.types import Array

COMPARED: dict[str, Method] = {
    "DGC-KM": METHODS["DGC-KM"],
    "DGC-HL": OverNetwork(make_dgc, Huber(0.05)),
    "ADMM-KM": METHODS["ADMM-KM"],
}
FIXED = {"rho": 10.0, "rounds": 1000, "starts": 10}


def plan(settings: Settings) -> list[Job]:
    """Average the runs of each method on each seed's data."""
    return [
        Job(f"{method}-{seed}", average_centers, {"method": method, "seed": seed, **FIXED})
        for method in COMPARED
        for seed in settings.seeds()
    ]


def average_centers(
    *, method: str, seed: int, rho: float, rounds: int, starts: int
) -> list[dict[str, Any]]:
    """Give the averaged centers, their distances from the true means, and the AUC."""
    from sklearn.metrics import roc_auc_score

    data = datasets.noisy_iris(random_state=seed)
    order = np.argsort(data.users, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(data.users))])
    ends = []
    for run in range(starts):
        start = datasets.noisy_means(
            data.means, USERS, random_state=np.random.default_rng((seed, run))
        )
        task = Task(
            rows=np.ascontiguousarray(data.rows[order]),
            offsets=offsets,
            graph=graphs.ring(USERS),
            start=start,
            pooled_start=data.means,
            rho=rho,
            rounds=rounds,
        )
        ends.append(COMPARED[method].fit(task).centers.mean(axis=0))
    centers = np.mean(ends, axis=0)
    matched = match_means(data.means, centers)
    far = np.linalg.norm(data.rows[:, None] - centers[None], axis=2).min(axis=1)
    row = {"method": method, "seed": seed, "found": int((matched <= NEAR).sum())}
    row |= {"furthest": float(matched.max()), "auc": float(roc_auc_score(data.outlier, far))}
    row |= {f"x_{k}_{j}": float(centers[k, j]) for k in range(3) for j in range(4)}
    return [row]


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:
    """Count who found the true means, and draw the first seed's data by t-SNE."""
    lines, notes = [], []
    for method in COMPARED:
        cell = select(rows, method=method)
        all_found = sum(row["found"] == len(NAMES) for row in cell)
        notes.append(
            f"{method}: all three true means found in {all_found} of {len(cell)} seeds; smallest"
            f" AUC {min(row['auc'] for row in cell):.4f}."
        )
        share = Stat(100.0 * all_found / len(cell))
        lines.append(Line({"method": method, "measure": "found all three"}, share))
        for measure, column, form in (
            ("distance of the furthest mean", "furthest", "scale"),
            ("outlier AUC", "auc", "score"),
        ):
            lines.append(
                Line({"method": method, "measure": measure}, stat(cell, column), None, form)
            )
    return Summary(lines, _embed(rows, settings.seed), notes)


def _embed(rows: Sequence[Row], seed: int) -> Embedding:
    """Lay the rows and the averaged centers out in the plane together, as the paper does."""
    from sklearn.manifold import TSNE

    data: NoisyIris = datasets.noisy_iris(random_state=seed)
    centers = [(method, _centers(select(rows, method=method, seed=seed)[0])) for method in COMPARED]
    together = np.concatenate([data.rows, *(x for _, x in centers)])
    flat = TSNE(n_components=2, random_state=0, init="pca").fit_transform(together)
    flat = flat.astype(np.float64)
    placed, begin = [], len(data.rows)
    for method, x in centers:
        placed.append((method, flat[begin : begin + len(x)]))
        begin += len(x)
    return Embedding(
        "Noisy Iris, t-SNE", flat[: len(data.rows)], data.classes, (*NAMES, "outliers"), placed
    )


def _centers(row: Row) -> Array:
    return np.array([[row[f"x_{k}_{j}"] for j in range(4)] for k in range(3)])


EXPERIMENT = Experiment(
    "figure-3", "outliers: K-means, Huber and ADMM-KM", plan, summarize, runs=100, quick_runs=4
)
