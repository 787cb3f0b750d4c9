"""The demo: noisy Iris on a ring of five users, K-means beside Huber, as in the paper's Figure 3.

It measures which true clusters each run found; `demo_report` shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import datasets
from peerclust.arrays import Array
from peerclust.clustering.cluster import cluster
from peerclust.clustering.solution import Solution
from peerclust.datasets import NoisyIris
from peerclust.losses import Huber, KMeans
from peerclust.validation import check_generator

NAMES = ("setosa", "versicolor", "virginica")
USERS = 5
RHO = 10.0
TOL = 1e-6

# A true mean is found if a center of its own lies this near. Setosa is at least 3 away from the
# others, which are about 1.6 apart.
NEAR = 1.5

ROUNDS = 1000


@dataclass(frozen=True, eq=False)
class Outcome:
    """One run: its solution, the distance of each true mean to a center of its own, and the AUC."""

    title: str
    solution: Solution
    distances: NDArray[np.float64]
    auc: float

    @property
    def found(self) -> list[str]:
        """The true clusters that were found."""
        return [name for name, far in zip(NAMES, self.distances, strict=True) if far <= NEAR]

    @property
    def missed(self) -> list[str]:
        """The true clusters that were not found."""
        return [name for name in NAMES if name not in self.found]

    @property
    def verdict(self) -> str:
        """What was found, in words."""
        share = f"{len(self.found)} of" if self.missed else "all"
        return f"{share} {len(NAMES)} true clusters"

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome in a form that JSON can hold."""
        certificate = self.solution.certificate
        return {
            "title": self.title,
            "found": self.found,
            "distances": self.distances.tolist(),
            "largest_distance": float(self.distances.max()),
            "auc": self.auc,
            "rounds": certificate.rounds,
            "residual": certificate.residual,
            "status": self.solution.status.name,
        }


@dataclass(frozen=True, eq=False)
class Demo:
    """The data and the outcome of each run."""

    data: NoisyIris
    outcomes: list[Outcome]

    @property
    def sentence(self) -> str:
        """Which true clusters each loss found, in a sentence."""
        kmeans, huber, *more = self.outcomes
        said = f"Within {ROUNDS} rounds Huber found {huber.verdict}, K-means {kmeans.verdict}."
        for on in more:
            rounds = f"{on.solution.certificate.rounds:,}"
            said += (
                f" Huber was still moving then; after {rounds} more rounds it found {on.verdict}."
            )
        return said

    def as_dict(self) -> dict[str, Any]:
        """Return the outcomes in a form that JSON can hold."""
        return {"runs": [each.as_dict() for each in self.outcomes], "sentence": self.sentence}


def run(seed: int, say: Callable[[str], None]) -> Demo:
    """Make the data and run both losses on it; `say` is called with lines of progress.

    Start, step, penalty and number of rounds are the paper's. If Huber has not converged by then,
    it continues from there until it converges, with the longer step that is proved safe.
    """
    rng = check_generator(seed, "demo")
    data = datasets.noisy_iris(random_state=rng)
    start = datasets.noisy_means(data.means, USERS, random_state=rng)
    parts = [data.rows[data.users == i] for i in range(USERS)]
    given: dict[str, Any] = {"n_clusters": len(NAMES), "graph": "ring", "solver": "dgc"}
    given |= {"rho": RHO, "tol": TOL}
    outcomes = []
    for title, loss in (("K-means", KMeans()), ("Huber", Huber(delta=0.05))):
        say(f"{title}, at most {ROUNDS} rounds")
        solution = cluster(parts, loss=loss, alpha="paper", rounds=ROUNDS, init=start, **given)
        outcomes.append(_judge(title, solution, data))
    if not solution.status.converged:
        say("Huber, continued until it converges")
        on = cluster(parts, loss=loss, rounds=100 * ROUNDS, init=solution.centers, **given)
        outcomes.append(_judge("Huber, longer", on, data))
    return Demo(data, outcomes)


def match_means(means: Array, centers: Array) -> Array:
    """Return each true mean's distance to a center of its own; the matching minimizes their sum.

    >>> match_means(np.array([[0.0], [5.0]]), np.array([[4.0], [9.0]])).tolist()
    [4.0, 4.0]
    """
    from scipy.optimize import linear_sum_assignment

    apart = np.linalg.norm(means[:, None] - centers[None], axis=2)
    return np.asarray(apart[linear_sum_assignment(apart)])


def _judge(title: str, solution: Solution, data: NoisyIris) -> Outcome:
    from sklearn.metrics import roc_auc_score

    distances = match_means(data.means, solution.consensus)
    auc = float(roc_auc_score(data.outlier, solution.outlier_scores(data.rows)))
    return Outcome(title, solution, distances, auc)
