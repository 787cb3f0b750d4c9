"""What users find among themselves beside what is computed from all rows and centers."""

import numpy as np
import pytest

import peerclust as pc
from all_pairs import by_pairs
from instances import DISTANCES, LOSSES
from peerclust import graphs, partition
from peerclust.programs.certificate import Certify
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.users import Users

ROWS, CLASSES = pc.datasets.iris()
GRAPHS = [graphs.ring(8), graphs.star(8), graphs.erdos_renyi(8, 0.5, random_state=1)]


def make(loss, distance, seed=0):
    rng = np.random.default_rng(seed)
    parts = partition.by_class(CLASSES, 8, per_user=2, random_state=seed)
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    weights = rng.uniform(0.5, 2.0, 150)
    rows = ROWS[np.concatenate(parts)]
    users = Users(rows, offsets, weights=weights, loss=loss, distance=distance)
    x = rows[[3, 60, 110]] + rng.normal(size=(8, 3, 4)) * 0.2
    return users, x, weights


def pooled(users, mean, weights):
    """Cost and gradient of all rows at common centers, from their definitions."""
    A = np.eye(4) if users.distance.largest == 1.0 else np.asarray(users.distance.A)
    off = mean[None] - users.rows[:, None]
    r2 = np.einsum("nki,ij,nkj->nk", off, A, off)
    labels = r2.argmin(axis=1)
    own = r2[np.arange(len(r2)), labels]
    gamma = weights * np.asarray(users.loss.gamma(own))
    pulls = gamma[:, None] * (off[np.arange(len(r2)), labels] @ A)
    gradient = np.stack([pulls[labels == k].sum(axis=0) for k in range(len(mean))])
    return (weights * users.loss.value(own)).sum(), gradient


@by_pairs(loss=LOSSES[:5], distance=DISTANCES, graph=GRAPHS, runtime=[Simulator, Loopback])
def test_users_find_what_is_computed_from_all_rows(loss, distance, graph, runtime):
    users, x, weights = make(loss, distance(4))
    rho, c = 7.0, 0.6
    program = Certify(graph.averaging_factors, m=8, rho=rho, c=c)
    run = run_program(runtime(graph), program, users, x, rounds=program.rounds)
    everyone = [program.read(state) for state in run.states]
    found = everyone[0]
    assert all(vars(each).keys() == vars(found).keys() for each in everyone)
    assert len({each.pooled_cost for each in everyone}) == 1
    mean = x.mean(axis=0)
    cost, gradient = pooled(users, mean, weights)
    assert found.pooled_cost == pytest.approx(cost, rel=1e-10)
    steepest = np.linalg.norm(gradient, axis=1).max()
    assert found.pooled_gradient == pytest.approx(steepest, rel=1e-8)
    assert np.allclose(found.radius, np.linalg.norm(x - mean, axis=2).max(axis=0), rtol=1e-10)
    assert found.radius_stacked == pytest.approx(np.linalg.norm(x - mean, axis=(1, 2)).max())
    assignment = users.assign(x)
    differences = np.einsum("ij,jkd->ikd", graph.laplacian.toarray(), x)
    J = users.cost(assignment, x).sum() / rho + 0.5 * c * (x * differences).sum()
    assert found.cost == pytest.approx(J, rel=1e-10)
    own = users.gradient(assignment, x) + rho * c * differences
    assert found.gradient == pytest.approx(np.linalg.norm(own, axis=2).max(), rel=1e-10)


def test_the_users_certificate_is_the_central_one_up_to_its_bounds():
    parts = [ROWS[i] for i in partition.homogeneous(CLASSES, 10, random_state=0)]
    for solver in ("accelerated", "admm"):
        given = {"n_clusters": 3, "solver": solver, "random_state": 0}
        both = [
            pc.cluster(parts, certify=how, **given).certificate
            for how in ("decentralized", "central")
        ]
        by_all, central = both
        assert (by_all.found_by, central.found_by) == ("decentralized", "central")
        for name in ("cost", "pooled_cost"):
            assert getattr(by_all, name) == pytest.approx(getattr(central, name), rel=1e-9)
        assert by_all.pooled_residual == pytest.approx(central.pooled_residual, abs=1e-9)
        for name in ("disagreement", "disagreement_stacked"):
            exact, bound = getattr(central, name), getattr(by_all, name)
            assert exact * (1 - 1e-9) <= bound <= 2.0 * exact * (1 + 1e-9)
        assert by_all.setup_messages > central.setup_messages


def test_more_users_than_can_average_are_refused():
    parts = [ROWS[i % 150 : i % 150 + 1] for i in range(1501)]
    with pytest.raises(pc.errors.GraphError, match="must have at most 1500 users"):
        pc.cluster(parts, n_clusters=2, rho=10, rounds=1, certify="decentralized", random_state=0)
