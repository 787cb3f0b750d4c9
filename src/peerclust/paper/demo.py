"""The demo: five clusters among scattered outliers at ten users, K-means beside Huber.

Every run ends where it has converged. `demo_report` shows which of the true clusters each found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.clustering.cluster import cluster
from peerclust.clustering.solution import Solution
from peerclust.paper.noisy_iris import match_means
from peerclust.validation import check_generator

K = 5
USERS = 10
ROWS = 1000
RADIUS = 10.0

# The share of outliers, and the half side of the square over which they are scattered.
SHARE = 0.2
FAR = 50.0

# A true mean is found if a center of its own lies this near: the deviation of a cluster.
NEAR = 1.0

ROUNDS = 10_000


@dataclass(frozen=True, eq=False)
class Data:
    """Rows, (N, 2), which of them are outliers, (N,), and the true means, (K, 2)."""

    rows: Array
    outlier: NDArray[np.bool_]
    means: Array

    @property
    def parts(self) -> list[Array]:
        """The rows of each user."""
        return [self.rows[i::USERS] for i in range(USERS)]


def make_data(seed: int) -> Data:
    """Return clusters of deviation 1 around points of a circle, and outliers scattered over a box.

    >>> data = make_data(0)
    >>> data.rows.shape, int(data.outlier.sum()), len(data.parts)
    ((1000, 2), 200, 10)
    """
    rng = check_generator(seed, "demo")
    angle = 2.0 * np.pi * np.arange(K) / K
    means = RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rows = means[rng.integers(K, size=ROWS)] + rng.standard_normal((ROWS, 2))
    outlier = np.arange(ROWS) < SHARE * ROWS
    rows[outlier] = rng.uniform(-FAR, FAR, size=(outlier.sum(), 2))
    return Data(rows, outlier, means)


@dataclass(frozen=True, eq=False)
class Outcome:
    """One run: its solution, the distance of each true mean to a center of its own, and the AUC."""

    title: str
    solution: Solution
    distances: NDArray[np.float64]
    auc: float

    @property
    def found(self) -> int:
        """The number of true clusters that were found."""
        return int((self.distances <= NEAR).sum())

    @property
    def verdict(self) -> str:
        """What was found, in words."""
        return f"{'all' if self.found == K else f'{self.found} of'} {K} true clusters"

    @property
    def rounds(self) -> int:
        """The number of rounds, those of the search included."""
        certificate = self.solution.certificate
        return certificate.rounds + certificate.search_rounds

    @property
    def disagreement(self) -> float:
        """By how much users' centers differ, as a fraction of the data's spread."""
        certificate = self.solution.certificate
        return certificate.disagreement / certificate.spread

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome in a form that JSON can hold."""
        return {
            "title": self.title,
            "found": self.found,
            "distances": self.distances.tolist(),
            "largest_distance": float(self.distances.max()),
            "auc": self.auc,
            "disagreement": self.disagreement,
            "rounds": self.rounds,
            "residual": self.solution.certificate.residual,
            "status": self.solution.status.name,
        }


@dataclass(frozen=True, eq=False)
class Demo:
    """The data and the outcome of each run."""

    data: Data
    outcomes: list[Outcome]

    @property
    def sentence(self) -> str:
        """Which true clusters each loss found, in a sentence."""
        kmeans, huber, penalized = self.outcomes
        apart = f"{penalized.disagreement:.1%} of the data's spread"
        return (
            f"Run until it converges, K-means found {kmeans.verdict}, and Huber {huber.verdict}."
            f" With the paper's J_rho users keep centers of their own, which differ by {apart} at"
            f" rho = {penalized.solution.rho:.0f}; their mean found {penalized.verdict}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the outcomes in a form that JSON can hold."""
        return {"runs": [each.as_dict() for each in self.outcomes], "sentence": self.sentence}


def run(seed: int, say: Callable[[str], None]) -> Demo:
    """Make the data and cluster it in three ways; `say` is called with lines of progress.

    All but the loss and the solver are defaults: the users draw a k-means++ start, run until every
    residual is below `tol`, and search for a better optimum from there.
    """
    data = make_data(seed)
    outcomes = []
    for title, loss, solver in (
        ("K-means", "kmeans", "auto"),
        ("Huber", "huber", "auto"),
        ("Huber, J_rho", "huber", "accelerated"),
    ):
        say(f"{title}, until it converges")
        solution = cluster(
            data.parts,
            n_clusters=K,
            graph="ring",
            loss=loss,
            solver=solver,
            rounds=ROUNDS,
            random_state=seed,
        )
        outcomes.append(judge(title, solution, data))
    return Demo(data, outcomes)


def judge(title: str, solution: Solution, data: Data) -> Outcome:
    """Return the outcome of a run."""
    from sklearn.metrics import roc_auc_score

    distances = match_means(data.means, solution.consensus)
    auc = float(roc_auc_score(data.outlier, solution.outlier_scores(data.rows)))
    return Outcome(title, solution, distances, auc)
