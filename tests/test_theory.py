"""The constants of `theory` against gradients, curvatures and fixed points found numerically.

The cost, its gradient and its fixed points are those of the paper's formulas.
"""

import itertools
from math import sqrt

import numpy as np
import pytest
from scipy.stats import ortho_group

import peerclust as pc
from all_pairs import by_pairs
from instances import DISTANCES, GRAPHS, LOSSES, WEIGHTS
from paper_formulas import FOUR, Problem, fixed_point, h, problem, start
from peerclust import theory
from peerclust.bregman import generalized_kl, squared_mahalanobis
from peerclust.distances import Euclidean
from peerclust.losses import Fair, Huber, KMeans, Logistic, geometry_of


def largest_weight(p):
    return max(w.sum() for w in p.weights)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_smoothness_bounds_how_fast_the_gradient_changes(loss, distance):
    rng = np.random.default_rng(0)
    nearest = 0.0
    for graph, c, kind in zip(
        GRAPHS, itertools.cycle((1.0, 0.5, 2.0)), itertools.cycle(WEIGHTS), strict=False
    ):
        p = problem(rng, loss=loss, distance=distance, graph=graph, d=3, c=c, weights=kind)
        for _ in range(40):
            rho = float(10 ** rng.uniform(0, 3))
            bound = theory.gradient_smoothness(
                beta=theory.smoothness(loss, distance(3)),
                W=largest_weight(p),
                rho=rho,
                lambda_max=np.linalg.eigvalsh(p.L)[-1],
                c=c,
            )
            # The bound is for any clustering that both have, not only for the best.
            labels = rng.integers(rng.integers(1, p.K + 1), size=len(p.rows))
            x = start(rng, p, outside=0.5)
            z = x + rng.normal(size=x.shape) * 10 ** rng.uniform(-3, 0.5)
            change = p.gradient(x, labels, rho) - p.gradient(z, labels, rho)
            share = np.linalg.norm(change) / np.linalg.norm(x - z) / bound
            assert share <= 1 + 1e-10
            nearest = max(nearest, share)
    assert nearest > 0.1  # of the right size even for random points


@by_pairs(loss=LOSSES, distance=DISTANCES, graph=GRAPHS, c=[1.0, 2.0])
def test_the_smoothness_is_attained(loss, distance, graph, c):
    """All rows of a user at its center's distance of most curvature; users move against another."""
    m, d, W, rho = 6, 2, 7.0, 3.0
    r = np.linspace(1e-3, 6, 3000)
    curvature = (h(loss, (r + 1e-4) ** 2) - 2 * h(loss, r**2) + h(loss, (r - 1e-4) ** 2)) / 1e-8
    # Not at the kink of the Huber loss, where a difference of differences says little.
    steepest = r[np.argmax(np.round(curvature, 5))]
    p = problem(np.random.default_rng(1), loss=loss, distance=distance, graph=graph, m=m, d=d)
    values, vectors = np.linalg.eigh(p.A)
    e = vectors[:, -1]
    rows = np.random.default_rng(2).normal(size=(m, 1, d))
    p = Problem(
        parts=list(rows),
        weights=[np.array([W])] * m,
        graph=graph(m),
        loss=loss,
        A=p.A,
        distance=distance(d),
        K=1,
        c=c,
    )
    lambdas, waves = np.linalg.eigh(p.L)
    x = rows + steepest / sqrt(values[-1]) * e
    move = 1e-4 * waves[:, -1][:, None, None] * e
    labels = np.zeros(m, int)
    change = p.gradient(x + move, labels, rho) - p.gradient(x - move, labels, rho)
    bound = theory.gradient_smoothness(
        beta=theory.smoothness(loss, distance(d)),
        W=W,
        rho=rho,
        lambda_max=lambdas[-1],
        c=c,
    )
    assert np.linalg.norm(change) / np.linalg.norm(2 * move) == pytest.approx(bound, rel=1e-4)


def test_a_mahalanobis_distance_steepens_by_its_largest_eigenvalue():
    turn = ortho_group.rvs(3, random_state=0)
    A = turn @ np.diag([0.1, 2.0, 7.0]) @ turn.T
    assert theory.smoothness(Fair(2.0), pc.Mahalanobis(A)) == pytest.approx(9.0 * 7.0, rel=1e-12)


PARTS = [np.random.default_rng(3).normal(size=(n, 2)) for n in (5, 3, 2, 1)]


EACH = [np.array([1.0, 2.0, 0.5, 0.5, 2.0]), np.ones(3), np.array([4.0, 5.0]), np.zeros(1)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # beta, W, rho, c, and lambda_max(L) = 4 of a ring of 4
        ({"loss": "kmeans", "rho": 10}, 0.99 / (1 * 5 / 10 + 4)),
        ({"loss": Huber(0.1), "rho": 10}, 0.99 / (1 * 5 / 10 + 4)),
        ({"loss": "logistic", "rho": 10}, 0.99 / (2.6016389 * 5 / 10 + 4)),
        ({"loss": Fair(2.0), "rho": 10}, 0.99 / (9 * 5 / 10 + 4)),
        ({"rho": 10, "consensus_factor": 0.5}, 0.99 / (1 * 5 / 10 + 0.5 * 4)),
        ({"rho": 10, "consensus_factor": "1-1/rho"}, 0.99 / (1 * 5 / 10 + 0.9 * 4)),
        ({"rho": 2, "consensus_factor": "1-1/rho"}, 0.99 / (1 * 5 / 2 + 0.5 * 4)),
        ({"rho": 10, "weights": "normalized"}, 0.99 / (1 * 5 / 11 / 10 + 4)),
        ({"rho": 10, "weights": EACH}, 0.99 / (1 * 9 / 10 + 4)),
        ({"rho": 10, "distance": pc.Mahalanobis([[3, 0], [0, 2]])}, 0.99 / (3 * 5 / 10 + 4)),
        ({"rho": 10, "loss": pc.bregman.generalized_kl(smoothness=6)}, 0.99 / (6 * 5 / 10 + 4)),
        ({"rho": 10, "graph": "star"}, 0.99 / (1 * 5 / 10 + 4)),
        ({"rho": 10, "graph": "complete", "loss": Fair(1.0)}, 0.99 / (4.5 * 5 / 10 + 4)),
    ],
)
def test_the_automatic_step_is_99_percent_of_the_safe_bound(options, expected):
    parts = [np.exp(part) for part in PARTS]
    options = {"graph": "ring", "solver": "dgc", "init": parts[0][:2]} | options
    solution = pc.cluster(parts, n_clusters=2, rounds=1, **options)
    assert solution.alpha == pytest.approx(expected, rel=1e-7)
    assert "0.99 / (beta W / rho + c lambda_max(L))" in solution.why["alpha"]


def test_a_bound_on_the_eigenvalue_is_said_to_be_one():
    given = {"n_clusters": 2, "solver": "dgc", "rho": 10, "rounds": 1, "random_state": 0}
    exact = pc.cluster(PARTS, graph="ring", **given)
    assert "bound" not in exact.why["alpha"]
    m = 1600
    wheel = pc.graphs.from_edges([(i, (i + step) % m) for i in range(m) for step in (1, 8)])
    parts = list(np.random.default_rng(4).normal(size=(m, 1, 2)))
    bounded = pc.cluster(parts, graph=wheel, init=np.eye(2), **given)
    assert "upper bound" in bounded.why["alpha"]
    angles = 2 * np.pi * np.arange(m) / m  # a circulant graph's eigenvalues are its waves'
    lambda_max = (4 - 2 * np.cos(angles) - 2 * np.cos(8 * angles)).max()
    assert bounded.alpha <= 0.99 / (1 / 10 + lambda_max)


def test_the_paper_step_of_a_fair_loss_with_two_users_is_outside_the_safe_bound():
    rng = np.random.default_rng(5)
    parts = [rng.normal(size=(30, 2)) for _ in range(2)]
    solution = pc.cluster(parts, n_clusters=1, loss=Fair(1.0), rho=1, alpha="paper", rounds=1)
    assert solution.alpha == pytest.approx(1 / (2 * 2 * 30 + 2 + 1))
    # 4.5 * 30 + 2 = 137 is more than the 123 that the step allows for, and it is no idle bound:
    # rows at r^2 = 3 eta from their center bend the cost so much.
    p = Problem(
        parts=[np.zeros((30, 2)), np.zeros((30, 2))],
        weights=[np.ones(30)] * 2,
        graph=pc.graphs.path(2),
        loss=Fair(1.0),
        A=np.eye(2),
        K=1,
    )
    x = np.array([[[sqrt(3), 0.0]], [[sqrt(3), 0.0]]])
    against = 1e-5 * np.array([[[1.0, 0.0]], [[-1.0, 0.0]]])
    labels = np.zeros(60, int)
    change = p.gradient(x + against, labels, 1.0) - p.gradient(x - against, labels, 1.0)
    curvature = np.linalg.norm(change) / np.linalg.norm(2 * against)
    assert curvature == pytest.approx(137, rel=1e-6)
    assert solution.alpha > 1 / curvature


def test_the_paper_step_lets_a_steep_fair_loss_climb_and_the_automatic_one_does_not():
    rng = np.random.default_rng(6)
    parts = [rng.normal(size=(30, 2)) for _ in range(2)]
    options = {"n_clusters": 1, "loss": Fair(4.0), "rho": 1, "init": np.array([[9.0, 9.0]])}
    options["solver"] = "dgc"
    climbs = {}
    for alpha in ("paper", "auto"):
        run = pc.cluster(parts, alpha=alpha, rounds=40, tol=0, trace=True, **options)
        climbs[alpha] = bool((np.diff(run.trace.cost) > 1e-9 * run.trace.cost[:-1]).any())
    assert climbs == {"paper": True, "auto": False}


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_from_three_users_on_the_paper_step_is_inside_the_safe_bound(loss):
    for m, largest, rho, lambda_max in itertools.product(
        (3, 5, 20), (1, 15, 1000), (1.0, 10.0, 1e4), (1.0, 4.0, 50.0)
    ):
        step = theory.paper_step(m=m, largest=largest, rho=rho, lambda_max=lambda_max)
        assert step < 1 / (loss.smoothness * largest / rho + lambda_max)


def test_a_user_whom_nothing_moves_has_a_step_all_the_same():
    assert theory.safe_step(beta=1.0, W=0.0, rho=2.0, lambda_max=0.0) > 0


def fixed_at(seed, loss, graph, kind, choose):
    """A random problem, R_0, the rho chosen for it, and a fixed point there."""
    rng = np.random.default_rng(seed)
    p = problem(rng, loss=loss, graph=graph, weights=kind, spread=4.0)
    chosen = rng.choice(np.flatnonzero(p.w > 0), p.K, replace=False)
    x = np.repeat(p.rows[chosen][None], p.graph.m, axis=0)
    x += 0.3 * rng.normal(size=x.shape)  # a fair loss has no curvature at a row
    radius = max(np.linalg.norm(p.rows, axis=1).max(), np.linalg.norm(x, axis=2).max())
    rho = choose(p.w.sum(), radius)
    return p, radius, rho, fixed_point(p, x, rho)


def pull_of_neighbors(p, x):
    """||L x|| over all users, centers and features."""
    return np.linalg.norm(np.einsum("ij,jkd->ikd", p.L, x))


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_beyond_rho_0_the_pull_of_neighbors_is_within_eps(loss, graph):
    closest = 0.0
    for seed, (kind, eps) in enumerate(itertools.product(WEIGHTS, (1.0, 0.01))):

        def rho_0(W_total, radius, eps=eps):
            return theory.rho_for_gradient(
                eps=eps, beta=loss.smoothness, radius=radius, W_total=W_total
            )

        p, _, _, x = fixed_at(seed, loss, graph, kind, rho_0)
        assert pull_of_neighbors(p, x) <= eps
        closest = max(closest, pull_of_neighbors(p, x) / eps)
    assert closest > 1e-3  # far too large to choose rho by, but not out of this world


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_the_fraction_of_the_papers_appendix_is_upside_down(loss):
    eps = 0.05
    p, _, rho, x = fixed_at(
        0, loss, GRAPHS[0], WEIGHTS[0], lambda _, radius: eps / (2 * loss.smoothness * radius)
    )
    assert rho < 0.01
    assert pull_of_neighbors(p, x) > eps


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_disagreement_is_within_its_bound_at_every_rho(loss):
    for seed, (graph, rho) in enumerate(itertools.product(GRAPHS, (1.0, 30.0, 1000.0))):
        p, radius, _, x = fixed_at(seed, loss, graph, WEIGHTS[2], lambda *_, rho=rho: rho)
        bound = theory.disagreement_bound(
            rho=rho,
            beta=loss.smoothness,
            radius=radius,
            W_total=p.w.sum(),
            lambda_2=np.linalg.eigvalsh(p.L)[1],
        )
        assert np.linalg.norm(x - x.mean(axis=0)) <= bound


@pytest.mark.parametrize("consensus_factor", [1.0, 0.5, 3.0, "1-1/rho"])
def test_the_pilot_rho_balances_rows_and_neighbors(consensus_factor):
    for curvature, lambda_max in ((30.0, 0.5), (0.1, 4.0), (1e-9, 7.0)):
        rho = theory.initial_rho(
            curvature=curvature, lambda_max=lambda_max, consensus_factor=consensus_factor
        )
        c = 1 - 1 / rho if consensus_factor == "1-1/rho" else consensus_factor
        assert curvature / rho == pytest.approx(c * lambda_max, rel=1e-6)
    assert theory.initial_rho(curvature=15.0, lambda_max=0.0) == 1  # one user


@pytest.mark.parametrize("curvature", [[3.0], [0.5, 40.0, 2.0], [0.0, 7.0, 0.0]])
@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_the_penalties_of_admm_follow_the_curvatures_and_the_spectrum(graph, curvature):
    values = np.linalg.eigvalsh(problem(np.random.default_rng(0), loss=KMeans(), graph=graph).L)
    penalties = theory.admm_penalty(
        curvature=np.array(curvature), lambda_2=values[1], lambda_max=values[-1]
    )
    for c, H in zip(penalties, curvature, strict=True):
        # An empty cluster takes the largest penalty.
        assert c == pytest.approx(0.8 * (H or max(curvature)) / sqrt(values[1] * values[-1]))
    alone = theory.admm_penalty(curvature=np.array(curvature), lambda_2=0.0, lambda_max=0.0)
    assert (alone > 0).all()


def test_zeros_are_replaced_by_the_largest_value():
    for values, expected in [
        ([0.0, 2.0, 5.0], [5.0, 2.0, 5.0]),
        ([0.0, 0.0], [1.0, 1.0]),
        ([3.0], [3.0]),
        ([], []),
    ]:
        assert theory.replace_zeros(np.array(values)).tolist() == expected


def test_the_stiffness_is_the_least_of_the_mean_and_of_own_curvature_and_penalty():
    rng = np.random.default_rng(7)
    H = rng.uniform(0, 9, (6, 4)) * rng.integers(0, 2, (6, 4))
    H[:, 3] = 0.0  # an empty cluster
    mean = H.mean(axis=0)
    curvature = theory.Curvature.of(H, mean, (H * H).mean(axis=0))
    even = [mean[k] ** 2 / (H[:, k] ** 2).mean() if mean[k] > 0 else 1.0 for k in range(4)]
    np.testing.assert_allclose(curvature.evenness, even, rtol=1e-14)
    for pull in (0.0, 0.1, 3.0, 1e6):
        found = curvature.stiffness(pull)
        for i, k in np.ndindex(H.shape):
            own = H[i, k] + curvature.evenness[k] * pull
            expected = min(mean[k], own) if mean[k] > 0 else own
            if expected > 0:
                assert found[i, k] == expected
        assert (found > 0).all()
    # Users that agree move together: the mean is all that counts.
    found = curvature.stiffness(None)
    assert (found == np.where(mean > 0, mean, mean.max())).all()
    assert found.shape == H.shape


@pytest.mark.parametrize("consensus_factor", [1.0, 0.5, 3.0, "1-1/rho"])
def test_scaling_rho_scales_what_weighs_consensus_against_the_rows(consensus_factor):
    larger = theory.scale_rho(30.0, 7.0, consensus_factor)
    before = 30.0 * theory.compute_c(consensus_factor, 30.0)
    assert larger * theory.compute_c(consensus_factor, larger) == pytest.approx(7.0 * before)


def test_the_theory_covers_radial_losses_and_squares_of_metrics():
    kl, square = generalized_kl(smoothness=3.0), squared_mahalanobis(np.eye(2))
    for loss in (KMeans(), Huber(), Logistic(), Fair(), square, kl):
        assert geometry_of(loss, Euclidean()).in_theory == (loss is not kl)
    parts = [np.exp(part) for part in PARTS]
    given = {"n_clusters": 2, "solver": "dgc", "rho": 10, "rounds": 1, "random_state": 0}
    solution = pc.cluster(parts, loss=kl, **given)
    assert "outside the theory" in solution.why["alpha"]
