"""NK-means beside its equations, written out, and its fixed points beside those of DGC."""

import numpy as np
import pytest
from equations import GRAPHS, K, assert_same, d, m, problem, sums, watched

from all_pairs import by_pairs
from peerclust import graphs
from peerclust.baselines.decentralized import NK_SHARE, make_nk_means
from peerclust.baselines.protocol import Task
from peerclust.programs.dgc import DGC
from peerclust.programs.nk_means import NKMeans
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.theory import safe_step
from peerclust.users import Users

RHO, ROUNDS = 4.0, 30


def gradient(x, parts, neighbors):
    """The gradient of J_rho and the numbers of rows by user and center."""
    out, counts = np.empty_like(x), np.empty(x.shape[:2])
    for i in range(len(x)):
        S0, S1 = sums(x[i], parts[i])
        for k in range(len(S0)):
            difference = sum((x[i, k] - x[j, k] for j in neighbors[i]), np.zeros(x.shape[2]))
            out[i, k] = (S0[k] * x[i, k] - S1[k]) / RHO + difference
            counts[i, k] = S0[k]
    return out, counts


def nk_means(x, parts, neighbors, alpha, rounds):
    """The centers after each round, and the gradients when it began."""
    after, gradients = [], []
    for _ in range(rounds):
        g, counts = gradient(x, parts, neighbors)
        new = np.empty_like(x)
        for i in range(m):
            for k in range(K):
                step = alpha / (counts[i, k] / RHO + len(neighbors[i]))
                new[i, k] = x[i, k] - step * g[i, k]
        x = new
        after.append(x)
        gradients.append(g)
    return after, gradients


@by_pairs(name=GRAPHS, weighted=[True, False], runtime=[Simulator, Loopback])
def test_rounds_equal_the_equations(name, weighted, runtime):
    graph, neighbors = GRAPHS[name]
    users, parts, x = problem(0, weighted=weighted)
    alpha = 0.9 * min(map(len, neighbors)) / (12 * 2 / RHO + 2 * max(map(len, neighbors)))
    got, residuals = watched(runtime, graph, NKMeans(rho=RHO, alpha=alpha), users, x, ROUNDS)
    expected, gradients = nk_means(x, parts, neighbors, alpha, ROUNDS)
    assert_same(got, expected)
    largest = [
        [max(RHO * np.linalg.norm(g[i, k]) for k in range(K)) for i in range(m)] for g in gradients
    ]
    np.testing.assert_allclose(residuals, largest, rtol=1e-9)


def test_the_equations_are_tried_on_changing_labels():
    """What keeps the test above from being vacuous."""
    _, parts, x = problem(0, weighted=True)
    after, _ = nk_means(x, parts, GRAPHS["ring"][1], 0.2, ROUNDS)
    counts = [[sums(at[i], parts[i])[0] for i in range(m)] for at in (x, after[-1])]
    assert counts[0] != counts[1]


@pytest.mark.parametrize("name", GRAPHS)
def test_it_ends_at_the_fixed_point_that_dgc_finds(name):
    graph, neighbors = GRAPHS[name]
    rng = np.random.default_rng(5)
    sizes = [10, 0, 6, 8, 3, 9]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    means = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    rows = means[rng.integers(0, 3, offsets[-1])] + rng.normal(size=(offsets[-1], d))
    parts = [[(1.0, y) for y in rows[offsets[i] : offsets[i + 1]]] for i in range(m)]
    x = means + rng.normal(size=(m, K, d))
    alpha = safe_step(beta=1.0, W=10.0, rho=RHO, lambda_max=graph.lambda_max.value)
    task = Task(rows, offsets, graph, x, means, rho=RHO, rounds=1)
    ends = [
        run_program(Simulator(graph), program, Users(rows, offsets), x, rounds=2000).x
        for program in (DGC(rho=RHO, alpha=alpha), make_nk_means(task))
    ]
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-8)
    assert np.abs(gradient(ends[1], parts, neighbors)[0]).max() < 1e-8
    assert np.abs(ends[1] - ends[1][0]).max() > 0.1  # rho is small: this is no consensus


def test_the_step_is_that_of_the_footnote():
    rows, offsets = np.zeros((10, 2)), np.array([0, 3, 3, 10])
    start = np.zeros((3, 2, 2))
    task = Task(rows, offsets, graphs.path(3), start, start[0], rho=2.0, rounds=1)
    # The largest user has 7 rows, the ends of the path 1 neighbor; its Laplacian has 0, 1 and 3.
    assert make_nk_means(task).alpha == pytest.approx(NK_SHARE * 1 / (7 / 2 + 3))
