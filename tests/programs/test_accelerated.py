"""Accelerated DGC beside its equations, written out, and beside plain DGC."""

import numpy as np
import pytest
from equations import GRAPHS, K, assert_same, m, problem, sums, watched

import peerclust as pc
from all_pairs import by_pairs
from instances import LOSSES
from peerclust.programs.accelerated import Accelerated
from peerclust.programs.dgc import DGC
from peerclust.runtimes import Loopback, Simulator, run_program

ROUNDS, RHO, ALPHA, C = 40, 3.0, 0.05, 0.7


def accelerated(x, parts, neighbors, rounds):
    """The centers said after each round, and how often a center was restarted."""
    y, stepped, t = x.copy(), x.copy(), np.ones((m, K))
    after, restarts = [], 0
    for _ in range(rounds):
        said = np.empty_like(y)
        ends = np.empty_like(y)
        for i in range(m):
            S0, S1 = sums(y[i], parts[i])
            for k in range(K):
                g = (S0[k] * y[i, k] - S1[k]) / RHO
                for j in neighbors[i]:
                    g = g + C * (y[i, k] - y[j, k])
                ends[i, k] = y[i, k] - ALPHA * g
                went = ends[i, k] - stepped[i, k]
                if g @ went > 0:
                    t[i, k] = 1.0
                    restarts += 1
                later = (1 + (1 + 4 * t[i, k] ** 2) ** 0.5) / 2
                said[i, k] = ends[i, k] + (t[i, k] - 1) / later * went
                t[i, k] = later
        y, stepped = said, ends
        after.append(y)
    return after, restarts


@by_pairs(name=GRAPHS, weighted=[True, False], runtime=[Simulator, Loopback])
def test_rounds_equal_the_equations(name, weighted, runtime):
    graph, neighbors = GRAPHS[name]
    users, parts, x = problem(0, weighted=weighted)
    program = Accelerated(rho=RHO, alpha=ALPHA, consensus_factor=C)
    got, _ = watched(runtime, graph, program, users, x, ROUNDS)
    expected, restarts = accelerated(x, parts, neighbors, ROUNDS)
    assert restarts > 0
    assert_same(got, expected)


def test_the_first_round_is_plain_dgc():
    users, _, x = problem(0, weighted=True)
    graph = GRAPHS["ring"][0]
    first = [
        run_program(Simulator(graph), kind(rho=RHO, alpha=ALPHA), users, x, rounds=1).x
        for kind in (Accelerated, DGC)
    ]
    assert np.array_equal(*first)


def test_a_fixed_point_of_dgc_is_one_of_momentum():
    users, _, x = problem(0, weighted=True)
    graph = GRAPHS["ring"][0]
    end = run_program(Simulator(graph), DGC(rho=RHO, alpha=ALPHA), users, x, rounds=5000).x
    stays = run_program(
        Simulator(graph), Accelerated(rho=RHO, alpha=ALPHA), users, end, rounds=50
    ).x
    assert np.abs(stays - end).max() < 1e-12


PARTS = [
    pc.datasets.iris()[0][i]
    for i in pc.partition.homogeneous(pc.datasets.iris()[1], 10, random_state=0)
]


@pytest.mark.parametrize("distance", ["euclidean", "mahalanobis"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_it_converges_for_every_loss_and_distance_at_a_cost_no_higher(loss, distance):
    A = np.diag([3.0, 1.0, 2.0, 1.0]) + 0.3
    given = {
        "n_clusters": 3, "loss": loss, "rho": 100, "random_state": 1, "tol": 1e-7,
        "distance": pc.Mahalanobis(A) if distance == "mahalanobis" else distance,
    }  # fmt: skip
    fast = pc.cluster(PARTS, solver="accelerated", rounds=5000, **given)
    slow = pc.cluster(PARTS, solver="dgc", rounds=60_000, **given)
    assert fast.certificate.residual < 1e-6
    assert slow.certificate.residual < 1e-6
    assert fast.certificate.cost <= 1.001 * slow.certificate.cost
    assert fast.certificate.rounds < slow.certificate.rounds / 2


@pytest.mark.parametrize("B", [2, 5])
def test_several_updates_a_round_are_as_many_exchanges(B):
    given = {"n_clusters": 3, "rho": 100, "random_state": 0, "rounds": 2000, "tol": 1e-7}
    end = pc.cluster(PARTS, B=B, **given)
    assert end.certificate.residual < 1e-6
    assert end.certificate.messages == end.certificate.rounds * B * 20


@pytest.mark.parametrize("seed", range(4))
def test_momentum_stays_in_the_domain_of_a_bregman_loss(seed):
    rng = np.random.default_rng(seed)
    parts = [rng.gamma(2.0, m, (40, 2)) for m in (0.3, 1.0, 3.0)]
    loss = pc.bregman.generalized_kl(smoothness=5.0)
    given = {"n_clusters": 3, "loss": loss, "rho": 30, "random_state": seed, "rounds": 3000}
    end = pc.cluster(parts, solver="accelerated", **given)
    assert (end.centers > 0).all()
    assert end.certificate.residual < 1e-4


def test_a_residual_fades_so_that_a_swing_does_not_end_the_run():
    for seed in range(4):
        ended = pc.cluster(PARTS, n_clusters=3, rho=1000, rounds=5000, random_state=seed)
        assert ended.status.converged, ended.status
        assert ended.certificate.residual <= 1e-6
