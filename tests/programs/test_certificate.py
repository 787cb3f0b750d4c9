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
from reference_impl import plain_local_curvature

ROWS, CLASSES = pc.datasets.iris()
GRAPHS = [
    graphs.ring(8),
    graphs.star(8),
    graphs.erdos_renyi(8, 0.5, random_state=1),
    graphs.exponential(8),
]


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


def largest_pair(x):
    """The largest distance of two users' centers, for each center."""
    return np.linalg.norm(x[:, None] - x[None], axis=3).max(axis=(0, 1))


def certify(graph, users, x, runtime=Simulator, **options):
    """Return the program, all that the blocks found, and the run."""
    lambda_2 = np.sort(np.linalg.eigvalsh(graph.laplacian.toarray()))[1]
    program = Certify(8, lambda_2=lambda_2, **options)
    run = run_program(runtime(graph), program, users, x, rounds=program.rounds)
    return program, [program.read(state) for state in run.states], run


# A custom loss is among them.
@by_pairs(loss=LOSSES, distance=DISTANCES, graph=GRAPHS, runtime=[Simulator, Loopback])
def test_users_find_what_is_computed_from_all_rows(loss, distance, graph, runtime):
    users, x, weights = make(loss, distance(4))
    rho, c = 7.0, 0.6
    program, everyone, run = certify(graph, users, x, runtime, rho=rho, c=c)
    found = everyone[0]
    for each in everyone:
        for name, value in vars(found).items():
            assert np.array_equal(getattr(each, name), value), name
    mean = x.mean(axis=0)
    cost, gradient = pooled(users, mean, weights)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-14)
    assert found.pooled_cost == pytest.approx(cost, rel=1e-12)
    assert np.allclose(found.radius, np.linalg.norm(x - mean, axis=2).max(axis=0), rtol=1e-12)
    assert found.radius_stacked == pytest.approx(np.linalg.norm(x - mean, axis=(1, 2)).max())
    assert largest_pair(x).mean() <= found.disagreement <= 2 * largest_pair(x).mean()
    assignment = users.assign(x)
    differences = np.einsum("ij,jkd->ikd", graph.laplacian.toarray(), x)
    J = users.cost(assignment, x).sum() / rho + 0.5 * c * (x * differences).sum()
    assert found.cost == pytest.approx(J, rel=1e-12)
    H = plain_local_curvature(
        users.rows, users.offsets, assignment.labels, x, weights, users.loss, users.distance
    )
    np.testing.assert_allclose(found.curvature, H.mean(axis=0), rtol=1e-12)
    totals = [weights[assignment.labels == k].sum() for k in range(3)]
    np.testing.assert_allclose(found.weights, totals, rtol=1e-12)
    lengths = np.linalg.norm(gradient, axis=1) / H.sum(axis=0)
    assert found.pooled_residual == pytest.approx(lengths.max(), rel=1e-9)
    own = np.linalg.norm(users.gradient(assignment, x) + rho * c * differences, axis=2)
    lambda_2 = np.linalg.eigvalsh(graph.laplacian.toarray())[1]
    even = H.mean(axis=0) ** 2 / (H * H).mean(axis=0)
    stiffness = np.minimum(H.mean(axis=0), H + even * rho * c * lambda_2)
    assert found.residual == pytest.approx((own / stiffness).max(), rel=1e-10)
    kept = np.concatenate([state.stiffness for state in run.states])
    np.testing.assert_allclose(kept, stiffness, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([s.curvature for s in run.states]), H, rtol=1e-12)
    assert program.rounds == 6


@by_pairs(loss=LOSSES, graph=GRAPHS, runtime=[Simulator, Loopback])
def test_without_a_rho_the_pooled_problem_and_the_disagreement_count(loss, graph, runtime):
    users, x, _ = make(loss, DISTANCES[0](4))
    close = x.mean(axis=0) + 1e-6 * (x - x.mean(axis=0))
    for at, apart in ((x, False), (close, True)):
        _, (found, *_), run = certify(graph, users, at, runtime)
        assert found.cost == pytest.approx(users.cost(users.assign(at), at).sum(), rel=1e-12)
        assert found.residual == max(found.pooled_residual, 2 * found.radius.max())
        assert (found.residual == found.pooled_residual) == apart
        # Users that agree move together: the mean curvature is that of all.
        stiffness = np.concatenate([state.stiffness for state in run.states])
        np.testing.assert_allclose(stiffness, np.repeat(found.curvature[None], 8, axis=0))


def test_runtimes_find_the_same_bits_with_the_same_messages():
    for graph in GRAPHS:
        users, x, _ = make(LOSSES[1], DISTANCES[0](4))
        ends = [certify(graph, users, x, each, rho=3.0) for each in (Simulator, Loopback)]
        (_, (a, *_), first), (_, (b, *_), second) = ends
        for name, value in vars(a).items():
            assert np.asarray(value).tobytes() == np.asarray(getattr(b, name)).tobytes(), name
        assert first.traffic == second.traffic
        # One exchange, two sums of 7 edges, and three maxima of D exchanges.
        D = int(graph.diameter.value)
        assert first.traffic.messages == 2 * graph.edges * (1 + 3 * D) + 2 * (2 * 7)


def test_an_empty_cluster_is_found_and_does_not_divide_by_zero():
    users, x, _ = make(LOSSES[0], DISTANCES[0](4))
    x = x.copy()
    x[:, 2] = 900.0 + np.arange(8)[:, None]
    for rho in (None, 5.0):
        _, (found, *_), run = certify(GRAPHS[0], users, x, rho=rho)
        assert found.weights[2] == found.curvature[2] == 0.0
        assert np.isfinite(found.residual)
        assert np.isfinite(found.pooled_residual)
        assert (np.concatenate([state.stiffness for state in run.states]) > 0).all()


def test_nobodys_rows_or_one_users_rows_are_enough():
    x = np.ones((8, 2, 1))
    for sizes in ([0] * 8, [0, 0, 3, 0, 0, 0, 0, 0]):
        rows = np.arange(float(sum(sizes)))[:, None]
        users = Users(rows, np.concatenate([[0], np.cumsum(sizes)]))
        _, (found, *_), _ = certify(GRAPHS[0], users, x, rho=2.0)
        assert np.isfinite([found.residual, found.pooled_residual, found.cost]).all()


@pytest.mark.parametrize("solver", ["accelerated", "dgc", "admm", "exact"])
def test_a_solution_has_the_certificate_that_its_users_found(solver):
    parts = [ROWS[i] for i in partition.homogeneous(CLASSES, 10, random_state=0)]
    given = {"n_clusters": 3, "solver": solver, "graph": "ring", "random_state": 0}
    end = pc.cluster(parts, rounds=5000, **given)
    certificate, x, graph = end.certificate, end.centers, graphs.ring(10)
    assert end.status.converged, end.status
    assert certificate.residual <= 1e-6
    users = Users(np.concatenate(parts), np.concatenate([[0], np.cumsum([*map(len, parts)])]))
    lambda_2 = 2 - 2 * np.cos(2 * np.pi / 10)
    program = Certify(10, rho=end.rho, lambda_2=lambda_2)
    run = run_program(Simulator(graph), program, users, x, rounds=program.rounds)
    found = program.read(run.states[0])
    assert certificate.cost == pytest.approx(found.cost, rel=1e-12)
    assert certificate.pooled_cost == pytest.approx(found.pooled_cost, rel=1e-12)
    spread = certificate.spread
    assert certificate.residual == pytest.approx(found.residual / spread, rel=1e-6, abs=1e-14)
    pooled_residual = found.pooled_residual / spread
    assert certificate.pooled_residual == pytest.approx(pooled_residual, rel=1e-6, abs=1e-14)
    assert certificate.disagreement == pytest.approx(largest_pair(x).mean(), rel=1e-9)
    assert certificate.disagreement <= found.disagreement * (1 + 1e-9)


def test_many_users_certify_too():
    parts = [ROWS[i % 150 : i % 150 + 1] for i in range(1501)]
    end = pc.cluster(parts, n_clusters=2, rho=10, rounds=1, random_state=0)
    assert end.certificate.residual > 0
