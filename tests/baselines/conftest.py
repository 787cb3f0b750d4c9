"""The task that the tests of this folder run methods on: Iris over five uneven users."""

import numpy as np
import pytest

from peerclust import datasets, graphs
from peerclust.baselines import Task

K, m, ROUNDS = 3, 5, 12


def make_iris_task(**changes):
    """Iris over 5 users on a ring: one without rows, one with 2."""
    rng = np.random.default_rng(0)
    rows, _ = datasets.iris()
    rows = rows[rng.permutation(len(rows))]
    given = {
        "rows": rows,
        "offsets": np.array([0, 60, 60, 62, 100, 150]),
        "graph": graphs.ring(m),
        "start": rows[rng.choice(150, (m, K))],
        "pooled_start": rows[rng.choice(150, K, replace=False)],
        "rho": 10.0,
        "rounds": ROUNDS,
    }
    return Task(**given | changes)


@pytest.fixture
def iris_task():
    return make_iris_task
