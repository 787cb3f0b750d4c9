"""LSP2P beside its equation, written out, and beside Lloyd's algorithm on all rows."""

import numpy as np
import pytest
from equations import GRAPHS, K, assert_same, d, m, problem, sums, watched

from all_pairs import by_pairs
from peerclust import graphs
from peerclust.losses import Huber
from peerclust.programs.lsp2p import LSP2P
from peerclust.programs.protocol import NeighborSum
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.users import Users

ROUNDS = 30


def lsp2p(x, parts, neighbors, rounds):
    """The centers after each round, and how far each user was from its averages before it."""
    after, residuals = [], []
    for _ in range(rounds):
        said = [sums(x[i], parts[i]) for i in range(m)]
        new, off = x.copy(), np.zeros((m, K))
        for i in range(m):
            for k in range(K):
                count = said[i][0][k]
                total = said[i][1][k]
                for j in neighbors[i]:
                    count = count + said[j][0][k]
                    total = total + said[j][1][k]
                off[i, k] = np.linalg.norm(count * x[i, k] - total)
                if count > 0:
                    new[i, k] = total / count
        x = new
        after.append(x)
        residuals.append(off.max(axis=1))
    return after, residuals


def lloyd(x, rows, weights, rounds):
    """The centers (K, d) of Lloyd's algorithm after each round."""
    after = []
    for _ in range(rounds):
        S0, S1 = sums(x, list(zip(weights, rows, strict=True)))
        x = np.array([S1[k] / S0[k] if S0[k] > 0 else x[k] for k in range(len(x))])
        after.append(x)
    return after


@by_pairs(name=GRAPHS, seed=[0, 1], weighted=[True, False], runtime=[Simulator, Loopback])
def test_rounds_equal_the_equation(name, seed, weighted, runtime):
    graph, neighbors = GRAPHS[name]
    users, parts, x = problem(seed, weighted=weighted)
    got, residuals = watched(runtime, graph, LSP2P(), users, x, ROUNDS)
    expected, off = lsp2p(x, parts, neighbors, ROUNDS)
    assert_same(got, expected)
    np.testing.assert_allclose(residuals, off, rtol=0, atol=1e-10)


def test_the_equation_is_tried_on_changing_labels():
    """What keeps the test above from being vacuous."""
    _, parts, x = problem(0, weighted=True)
    after, residuals = lsp2p(x, parts, GRAPHS["ring"][1], ROUNDS)
    counts = [[sums(at[i], parts[i])[0] for i in range(m)] for at in (x, after[0], after[-1])]
    assert counts[0] != counts[1] != counts[2]
    assert residuals[1].max() > 1


@pytest.mark.parametrize("weighted", [True, False], ids=["weights", "unit"])
def test_on_a_complete_graph_it_is_lloyds_algorithm_on_all_rows(weighted):
    users, parts, x = problem(2, weighted=weighted)
    weights = [w for part in parts for w, _ in part]
    got, _ = watched(
        Simulator, graphs.complete(m), LSP2P(), users, users.broadcast_centers(x[0]), ROUNDS
    )
    expected = lloyd(x[0], users.rows, weights, ROUNDS)
    assert np.abs(expected[0] - expected[3]).max() > 0.1
    assert_same(got, [np.repeat(each[None], m, axis=0) for each in expected])


def test_one_user_alone_does_lloyds_algorithm():
    rng = np.random.default_rng(3)
    rows, x = rng.normal(size=(40, d)), rng.normal(size=(1, K, d))
    users = Users(rows, np.array([0, 40]))
    got, _ = watched(Simulator, graphs.path(1), LSP2P(), users, x, ROUNDS)
    assert_same(got, [each[None] for each in lloyd(x[0], rows, np.ones(40), ROUNDS)])


def test_a_center_that_nobody_near_has_rows_of_stays():
    users, _, x = problem(4, weighted=True)
    x = x.copy()
    x[:, 2] = 1000.0 + np.arange(m)[:, None]
    got, _ = watched(Simulator, graphs.ring(m), LSP2P(), users, x, ROUNDS)
    np.testing.assert_array_equal(got[-1][:, 2], x[:, 2])


@pytest.mark.parametrize("runtime", [Simulator, Loopback], ids=lambda r: r.__name__)
def test_a_message_is_a_sum_and_a_number_for_each_center(runtime):
    users, _, x = problem(5, weighted=False)
    said = LSP2P().say(LSP2P().start(users, x))
    assert isinstance(said, NeighborSum)
    assert said.x.shape == (m, K, d + 1)
    assert said.x.dtype == np.float64
    run = run_program(runtime(graphs.ring(m)), LSP2P(), users, x, rounds=7)
    votes = 16  # two integers by which the users agree to stop
    assert run.traffic.messages == 7 * 2 * m
    assert run.traffic.bytes == run.traffic.messages * (8 * K * (d + 1) + votes)


def test_it_stops_when_every_user_is_at_its_averages():
    users, _, x = problem(0, weighted=True)
    run = run_program(Simulator(graphs.ring(m)), LSP2P(), users, x, rounds=200, threshold=1e-9)
    assert run.stopped
    assert run.rounds < 200
    assert run.states[0].residual.max() <= 1e-9


def test_for_another_loss_one_user_alone_never_raises_its_cost():
    rng = np.random.default_rng(6)
    rows, x = rng.normal(size=(60, d)) * 3, rng.normal(size=(1, K, d))
    users = Users(rows, np.array([0, 60]), loss=Huber(0.5))
    costs = []

    def on_round(states, blocks):
        costs.append(blocks[0].cost(states[0].assignment, states[0].x)[0])

    run_program(Simulator(graphs.path(1)), LSP2P(), users, x, rounds=60, on_round=on_round)
    assert (np.diff(costs) <= 1e-12).all()
    assert costs[-1] < 0.99 * costs[0]
