"""ADMM beside its equations, written out, and where it ends beside the pooled K-means problem."""

import numpy as np
import pytest
from written_out import GRAPHS, K, assert_same, d, m, problem, sums, watched

from peerclust import datasets, graphs, partition
from peerclust.programs.admm import ADMM
from peerclust.programs.protocol import HeardSum
from peerclust.runtimes import Loopback, Simulator
from peerclust.users import Users

ROUNDS = 30


def admm(x, parts, neighbors, c, rounds):
    """The centers after each round."""
    p = np.zeros_like(x)
    after = []
    for _ in range(rounds):
        new = np.empty_like(x)
        for i in range(m):
            S0, S1 = sums(x[i], parts[i])
            for k in range(K):
                near = sum((x[i, k] + x[j, k] for j in neighbors[i]), np.zeros(d))
                new[i, k] = (S1[k] - p[i, k] + c * near) / (S0[k] + 2 * c * len(neighbors[i]))
        for i in range(m):
            for j in neighbors[i]:
                p[i] = p[i] + c * (new[i] - new[j])
        x = new
        after.append(x)
    return after


@pytest.mark.parametrize("runtime", [Simulator, Loopback], ids=lambda r: r.__name__)
@pytest.mark.parametrize("c", [0.3, 2.0])
@pytest.mark.parametrize("weighted", [True, False], ids=["weights", "unit"])
@pytest.mark.parametrize("name", GRAPHS)
def test_rounds_equal_the_equations(name, weighted, c, runtime):
    graph, neighbors = GRAPHS[name]
    users, parts, x = problem(0, weighted=weighted)
    got, _ = watched(runtime, graph, ADMM.plain(c=c), users, x, ROUNDS)
    assert_same(got, admm(x, parts, neighbors, c, ROUNDS))


def test_the_equations_are_tried_on_changing_labels():
    """What keeps the test above from being vacuous."""
    _, parts, x = problem(0, weighted=True)
    after = admm(x, parts, GRAPHS["ring"][1], 0.3, ROUNDS)
    counts = [[sums(at[i], parts[i])[0] for i in range(m)] for at in (x, after[4], after[-1])]
    assert counts[0] != counts[1]
    assert counts[1] != counts[2]


@pytest.mark.parametrize("c", [2.0, 10.0])
@pytest.mark.parametrize("seed", range(3))
def test_users_end_in_consensus_at_a_stationary_point_of_the_pooled_problem(seed, c):
    rows, classes = datasets.iris()
    parts = partition.homogeneous(classes, 10, random_state=seed)
    rows = rows[np.concatenate(parts)]
    rng = np.random.default_rng(seed)
    # A row of each class, which each user knows with errors of its own.
    x = np.array([rows[rng.choice(150)] for _ in range(3)]) + 0.1 * rng.normal(size=(10, 3, 4))
    run = Simulator(graphs.ring(10)).run(
        ADMM.plain(c=c), Users(rows, np.arange(0, 151, 15)), x, rounds=800
    )
    common = run.x[0]
    np.testing.assert_allclose(run.x, np.repeat(common[None], 10, axis=0), rtol=0, atol=1e-9)
    nearest = [int(np.argmin([sum((c - y) ** 2) for c in common])) for y in rows]
    assert set(nearest) == {0, 1, 2}
    for k in range(3):
        mean = np.mean([y for y, label in zip(rows, nearest, strict=True) if label == k], axis=0)
        np.testing.assert_allclose(common[k], mean, rtol=0, atol=1e-9)
    assert run.states[0].residual.max() < 1e-6


def test_who_hears_nobody_and_has_no_rows_stays():
    users, _, x = problem(1, weighted=True)
    program = ADMM.plain(c=0.5)
    heard = HeardSum(np.zeros_like(x), np.zeros((m, 1, 1)))
    got = program.hear(users, program.start(users, x), heard).x
    np.testing.assert_array_equal(got[1], x[1])
