"""The group-lasso penalty beside its optimality conditions and beside ADMM."""

import numpy as np
import pytest

import peerclust as pc
from peerclust import graphs
from peerclust.errors import ParameterError
from peerclust.programs.admm import ADMM
from peerclust.programs.group_lasso import GroupLasso
from peerclust.runtimes import Simulator, run_program
from peerclust.users import Users

PLACES = np.array([0.0, 1.0, 5.0, 6.0, 9.0])


def run(graph, rho, rounds=4000, weights=1.0):
    """One center for each user, one row a user: a small fused-lasso problem on the line."""
    users = Users(PLACES[:, None], np.arange(6), weights=weights)
    program = GroupLasso(rho=rho, c=0.5)
    return run_program(Simulator(graph), program, users, np.zeros((5, 1, 1)), rounds=rounds)


def objective(x, graph, rho):
    """J + rho sum over links |x_i - x_j|."""
    return 0.5 * ((x - PLACES) ** 2).sum() + rho * sum(abs(x[i] - x[j]) for i, j in graph.pairs)


@pytest.mark.parametrize("rho", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("graph", [graphs.path(5), graphs.ring(5), graphs.star(5)], ids=repr)
def test_it_ends_at_the_minimum_of_the_penalized_cost(graph, rho):
    x = run(graph, rho).x.ravel()
    best = objective(x, graph, rho)
    rng = np.random.default_rng(0)
    # Convex: no direction of any size leads down.
    for size in (1e-3, 1e-1, 1.0, 5.0):
        for step in rng.normal(size=(80, 5)) * size:
            assert objective(x + step, graph, rho) >= best - 1e-9
    for i in range(5):  # nor does moving a group that holds together
        for sign in (-1, 1):
            moved = np.where(np.isclose(x, x[i], atol=1e-6), x + sign * 1e-3, x)
            assert objective(moved, graph, rho) >= best - 1e-9


def test_from_some_rho_on_all_agree_exactly_and_below_they_do_not():
    graph = graphs.path(5)
    # On a path the link between i and i + 1 carries the gradient of all rows before it.
    needed = np.abs(np.cumsum(PLACES.mean() - PLACES)[:-1]).max()
    above, below = run(graph, 1.05 * needed).x.ravel(), run(graph, 0.8 * needed).x.ravel()
    assert np.ptp(above) < 1e-9
    assert np.abs(above - PLACES.mean()).max() < 1e-9
    assert np.ptp(below) > 0.1


def test_multipliers_of_a_link_are_opposite_to_the_last_bit_and_stay_in_the_ball():
    graph = graphs.erdos_renyi(6, 0.6, random_state=1)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(60, 3)), np.arange(0, 61, 10))
    ended = run_program(
        Simulator(graph), GroupLasso(rho=2.0, c=0.7), users, rng.normal(size=(6, 2, 3)), rounds=50
    )
    p = ended.states[0].p
    assert np.linalg.norm(p, axis=2).max() <= 2.0 * 1.5 + 1e-12  # over-relaxed by half
    owner = np.repeat(np.arange(6), np.diff(graph.indptr))
    for link, (i, j) in enumerate(zip(owner, graph.indices, strict=True)):
        back = np.flatnonzero((owner == j) & (graph.indices == i))[0]
        assert np.array_equal(p[link], -p[back])


def test_without_a_bound_it_is_admm():
    graph = graphs.ring(6)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(60, 3)), np.arange(0, 61, 10))
    x = rng.normal(size=(6, 2, 3))
    x[:] = x[0]  # ADMM does not accumulate the disagreement of the starts
    lasso = GroupLasso(rho=1e9, c=0.7)
    admm = ADMM(c=0.7, D=3, balance=np.inf)
    ends = [run_program(Simulator(graph), each, users, x, rounds=40).x for each in (lasso, admm)]
    assert np.abs(ends[0] - ends[1]).max() < 1e-10


def test_centers_with_penalties_of_their_own_do_what_centers_with_these_penalties_do():
    graph = graphs.ring(6)
    rng = np.random.default_rng(1)
    # Two clusters far apart, whose rows never change sides: each is a problem of its own.
    rows = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 100.0])
    order, x = np.argsort(np.arange(120) % 60, kind="stable"), rng.normal(size=(6, 2, 2))
    x[:, 1] += 100.0
    both = Users(rows[order], np.arange(0, 121, 20))
    run = run_program(Simulator(graph), GroupLasso(3.0, (0.3, 2.0)), both, x, rounds=30)
    for k, c in enumerate((0.3, 2.0)):
        alone = Users(rows[60 * k : 60 * k + 60], np.arange(0, 61, 10))
        one = run_program(Simulator(graph), GroupLasso(3.0, c), alone, x[:, k : k + 1], rounds=30)
        np.testing.assert_allclose(run.x[:, k], one.x[:, 0], rtol=1e-10)


def test_rho_is_any_number_above_zero_or_enough():
    parts = [PLACES[:2, None], PLACES[2:, None]]
    with pytest.raises(ParameterError, match="`rho` of cluster must be a number > 0"):
        pc.cluster(parts, n_clusters=1, solver="group-lasso", rho=0.0)
    small = pc.cluster(parts, n_clusters=1, solver="group-lasso", rho=0.01, random_state=0)
    # The link pulls by 0.01 at most: two rows give way by 0.005 each, three by a third of it.
    means = [PLACES[:2].mean() + 0.01 / 2, PLACES[2:].mean() - 0.01 / 3]
    np.testing.assert_allclose(small.centers.ravel(), means, atol=1e-5)
    assert not small.status.converged
    assert "`rho`" in small.status.advice
    ended = pc.cluster(parts, n_clusters=1, solver="group-lasso", random_state=0)
    assert ended.status.converged
    assert "W_total" in ended.why["rho"]
