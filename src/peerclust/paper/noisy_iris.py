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
from peerclust.arrays import Array
from peerclust.baselines import METHODS, Method, OverNetwork, Task
from peerclust.baselines.decentralized import make_dgc
from peerclust.losses import Huber
from peerclust.paper.comparison import select, stat
from peerclust.paper.experiment import Job, Line, Row, RunOptions, Stat, Summary
from peerclust.report.pictures import Embedding

NAMES = ("setosa", "versicolor", "virginica")
USERS = 5

# A true mean is found if a center of its own lies this near. Setosa is at least 3 away from the
# others, which are about 1.6 apart.
NEAR = 1.5

COMPARED: dict[str, Method] = {
    "DGC-KM": METHODS["DGC-KM"],
    "DGC-HL": OverNetwork(make_dgc, Huber(0.05)),
    "ADMM-KM": METHODS["ADMM-KM"],
}
FIXED = {"rho": 10.0, "rounds": 1000, "starts": 10}


def plan(options: RunOptions) -> list[Job]:
    """Average the runs of each method on each seed's data."""
    return [
        Job(f"{method}-{seed}", average_centers, {"method": method, "seed": seed, **FIXED})
        for method in COMPARED
        for seed in options.seeds()
    ]


def average_centers(
    *, method: str, seed: int, rho: float, rounds: int, starts: int
) -> list[dict[str, Any]]:
    """Return the averaged centers, their distances from the true means, and the AUC."""
    from sklearn.metrics import roc_auc_score

    data = datasets.noisy_iris(random_state=seed)
    order = np.argsort(data.users, kind="stable")
    ends = []
    for run in range(starts):
        rng = np.random.default_rng((seed, run))
        task = Task(
            rows=np.ascontiguousarray(data.rows[order]),
            offsets=np.concatenate([[0], np.cumsum(np.bincount(data.users))]),
            graph=graphs.ring(USERS),
            start=datasets.noisy_means(data.means, USERS, random_state=rng),
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
    return [row | {f"x_{k}_{j}": float(x) for (k, j), x in np.ndenumerate(centers)}]


def summarize(rows: Sequence[Row], options: RunOptions) -> Summary:
    """Count the seeds with all true means found, and draw the first seed's data by t-SNE."""
    lines, notes = [], []
    for method in COMPARED:
        cell = select(rows, method=method)
        all_found = sum(row["found"] == len(NAMES) for row in cell)
        notes.append(
            f"{method}: all three true means found in {all_found} of {len(cell)} seeds; smallest"
            f" AUC {min(row['auc'] for row in cell):.4f}."
        )
        lines += [
            Line({"method": method, "measure": measure}, ours, None, form)
            for measure, ours, form in (
                ("found all three", Stat(100.0 * all_found / len(cell)), "percent"),
                ("distance of the furthest mean", stat(cell, "furthest"), "scale"),
                ("outlier AUC", stat(cell, "auc"), "score"),
            )
        ]
    return Summary(lines, _embed(select(rows, seed=options.seed), options.seed), notes)


def _embed(rows: Sequence[Row], seed: int) -> Embedding:
    """Embed the rows and the averaged centers in the plane together, as the paper does."""
    from sklearn.manifold import TSNE

    data = datasets.noisy_iris(random_state=seed)
    centers = [
        np.array([[row[f"x_{k}_{j}"] for j in range(4)] for k in range(3)])
        for method in COMPARED
        for row in select(rows, method=method)
    ]
    points = np.concatenate([data.rows, *centers])
    flat = TSNE(n_components=2, random_state=0, init="pca").fit_transform(points)
    embedded, *placed = np.split(flat.astype(np.float64), len(data.rows) + 3 * np.arange(3))
    found = list(zip(COMPARED, placed, strict=True))
    return Embedding("Noisy Iris, t-SNE", embedded, data.classes, (*NAMES, "outliers"), found)


def match_means(means: Array, centers: Array) -> Array:
    """Return each true mean's distance to a center of its own; the matching minimizes their sum.

    >>> match_means(np.array([[0.0], [5.0]]), np.array([[4.0], [9.0]])).tolist()
    [4.0, 4.0]
    """
    from scipy.optimize import linear_sum_assignment

    apart = np.linalg.norm(means[:, None] - centers[None], axis=2)
    return np.asarray(apart[linear_sum_assignment(apart)])
