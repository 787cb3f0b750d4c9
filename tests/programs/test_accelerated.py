"""Accelerated DGC beside its equations, written out, and beside plain DGC."""

from dataclasses import replace

import numpy as np
import pytest
from equations import GRAPHS, K, assert_same, m, problem, sums, watched

import peerclust as pc
from all_pairs import by_pairs
from instances import LOSSES
from peerclust.programs.accelerated import Accelerated
from peerclust.programs.dgc import DGC
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.runtimes.loop import begin

ROUNDS, RHO, ALPHA, C = 40, 3.0, 0.05, 0.7


def accelerated(x, parts, neighbors, rounds, fixed=ALPHA, stiffness=None):
    """The centers said after each round, how often a center was restarted, and the residuals."""
    y, stepped, t = x.copy(), x.copy(), np.ones((m, K))
    stiffness = np.ones((m, K)) if stiffness is None else stiffness
    after, restarts, residuals = [], 0, []
    for _ in range(rounds):
        said = np.empty_like(y)
        ends = np.empty_like(y)
        far = np.zeros((m, K))
        for i in range(m):
            S0, S1 = sums(y[i], parts[i])
            for k in range(K):
                g = (S0[k] * y[i, k] - S1[k]) / RHO
                for j in neighbors[i]:
                    g = g + C * (y[i, k] - y[j, k])
                alpha = fixed or 1 / (S0[k] / RHO + 2 * C * len(neighbors[i]))
                ends[i, k] = y[i, k] - alpha * g
                went = ends[i, k] - stepped[i, k]
                if g @ went > 0:
                    t[i, k] = 1.0
                    restarts += 1
                later = (1 + (1 + 4 * t[i, k] ** 2) ** 0.5) / 2
                said[i, k] = ends[i, k] + (t[i, k] - 1) / later * went
                t[i, k] = later
                # A center that swings through a point of no gradient by A moves A sqrt(alpha h).
                swing = (
                    np.linalg.norm(said[i, k] - ends[i, k]) / (alpha * stiffness[i, k] / RHO) ** 0.5
                )
                far[i, k] = max(RHO * np.linalg.norm(g) / stiffness[i, k], swing)
        y, stepped = said, ends
        after.append(y)
        residuals.append(far.max(axis=1))
    return after, restarts, residuals


@by_pairs(name=GRAPHS, weighted=[True, False], runtime=[Simulator, Loopback], alpha=[ALPHA, 0.0])
def test_rounds_equal_the_equations(name, weighted, runtime, alpha):
    graph, neighbors = GRAPHS[name]
    users, parts, x = problem(0, weighted=weighted)
    program = Accelerated(rho=RHO, alpha=alpha, consensus_factor=C)
    got, residuals = watched(runtime, graph, program, users, x, ROUNDS)
    expected, restarts, lengths = accelerated(x, parts, neighbors, ROUNDS, alpha)
    assert restarts > 0
    assert_same(got, expected)
    np.testing.assert_allclose(residuals, lengths, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("alpha", [ALPHA, 0.0])
def test_residuals_are_lengths_by_the_stiffness(alpha):
    graph, neighbors = GRAPHS["ring"]
    users, parts, x = problem(0, weighted=True)
    stiffness = np.random.default_rng(0).uniform(0.5, 9.0, (m, K))
    program, found = Accelerated(rho=RHO, alpha=alpha, consensus_factor=C), []
    start = begin(program, [users], [x])
    start = replace(start, states=[state.with_stiffness(stiffness) for state in start.states])
    run_program(
        Simulator(graph), program, users, x, rounds=ROUNDS, resume_from=start,
        on_round=lambda states, _: found.append(states[0].residual),
    )  # fmt: skip
    _, _, lengths = accelerated(x, parts, neighbors, ROUNDS, alpha, stiffness)
    np.testing.assert_allclose(found, lengths, rtol=1e-9, atol=1e-12)


def test_without_a_step_size_each_user_and_center_has_its_own():
    assert Accelerated(rho=RHO).alpha == 0.0
    end = pc.cluster(PARTS, n_clusters=3, solver="accelerated", rho=100, random_state=0)
    assert end.alpha is None
    assert "for each user and center" in end.why["alpha"]


@pytest.mark.parametrize("alpha", [ALPHA, 0.0])
def test_the_first_round_is_plain_dgc(alpha):
    users, _, x = problem(0, weighted=True)
    graph = GRAPHS["ring"][0]
    first = [
        run_program(Simulator(graph), kind(rho=RHO, alpha=alpha), users, x, rounds=1).x
        for kind in (Accelerated, DGC)
    ]
    assert np.array_equal(*first)


@pytest.mark.parametrize("alpha", [ALPHA, 0.0])
def test_a_fixed_point_of_dgc_is_one_of_momentum(alpha):
    users, _, x = problem(0, weighted=True)
    graph = GRAPHS["ring"][0]
    end = run_program(Simulator(graph), DGC(rho=RHO, alpha=ALPHA), users, x, rounds=5000).x
    stays = run_program(
        Simulator(graph), Accelerated(rho=RHO, alpha=alpha), users, end, rounds=50
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
    end = pc.cluster(PARTS, B=B, solver="accelerated", graph="ring", **given)
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
        given = {"n_clusters": 3, "solver": "accelerated", "rho": 1000, "rounds": 5000}
        ended = pc.cluster(PARTS, random_state=seed, **given)
        assert ended.status.converged, ended.status
        assert ended.certificate.residual <= 1e-6
