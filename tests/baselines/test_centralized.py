"""CGC, LGC and scikit-learn beside their definitions."""

from math import exp

import numpy as np
import pytest
from sklearn.cluster import KMeans as Sklearn

from peerclust import graphs
from peerclust.baselines import CGC, LGC, SklearnKMeans
from peerclust.losses import Fair, Huber, KMeans, Logistic

# grad f(x, y) = gamma(r) (x - y), and the longest step times the number of rows.
STEPS = {
    "KM": (KMeans(), lambda r: 1.0, 0.5),
    "HL": (Huber(0.7), lambda r: min(1.0, 0.7 / r) if r > 0 else 1.0, 0.5),
    "LL": (Logistic(), lambda r: 2 / (1 + exp(-r * r)), 0.99 / Logistic().smoothness),
    "FL": (Fair(1.0), lambda r: 4 * r * r / (1 + r * r), 0.99 / 4.5),
}


def gradient_clustering(x, rows, gamma, step, rounds):
    """x(k) <- x(k) - alpha sum over C(k) of grad f(x(k), y), written out."""
    for _ in range(rounds):
        pull = np.zeros_like(x)
        for y in rows:
            r = [np.linalg.norm(x[k] - y) for k in range(len(x))]
            k = int(np.argmin(r))
            pull[k] += gamma(r[k]) * (x[k] - y)
        x = x - step / max(len(rows), 1) * pull
    return x


@pytest.mark.parametrize("name", STEPS)
def test_cgc_is_gradient_clustering_of_all_rows(name, iris_task):
    loss, gamma, step = STEPS[name]
    task = iris_task()
    end = CGC(loss).fit(task)
    expected = gradient_clustering(task.pooled_start, task.rows, gamma, step, task.rounds)
    np.testing.assert_allclose(end.centers, np.repeat(expected[None], 5, axis=0), atol=1e-10)
    assert (end.rounds, end.traffic.messages) == (task.rounds, 0)


@pytest.mark.parametrize("name", STEPS)
def test_lgc_is_cgc_on_each_users_rows_alone(name, iris_task):
    loss = STEPS[name][0]
    task = iris_task()
    end = LGC(loss).fit(task)
    for i in (0, 2, 3, 4):
        here = slice(task.offsets[i], task.offsets[i + 1])
        rows = task.rows[here]
        alone = iris_task(
            rows=rows, offsets=np.array([0, len(rows)]), graph=graphs.path(1),
            start=task.start[i : i + 1], pooled_start=task.start[i],
        )  # fmt: skip
        own = CGC(loss).fit(alone)
        np.testing.assert_array_equal(end.centers[i], own.centers[0])
        np.testing.assert_array_equal(end.labels[here], own.labels)
    np.testing.assert_array_equal(end.centers[1], task.start[1])  # without rows it stays


@pytest.mark.parametrize("given", [True, False], ids=["start", "k-means++"])
def test_skl_is_scikit_learn(given, iris_task):
    task = iris_task(rounds=50, seed=3)
    task = iris_task(rounds=50, seed=3, sklearn_start=task.pooled_start if given else None)
    init = task.pooled_start if given else "k-means++"
    starts = 1 if given else 10
    model = Sklearn(3, init=init, n_init=starts, max_iter=50, random_state=3).fit(task.rows)
    end = SklearnKMeans().fit(task)
    np.testing.assert_array_equal(end.centers, np.repeat(model.cluster_centers_[None], 5, axis=0))
    np.testing.assert_array_equal(end.labels, model.labels_)
    assert end.rounds == model.n_iter_
