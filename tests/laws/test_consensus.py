"""What a large rho brings (thm:cons-conv)."""

from functools import cache

import numpy as np
import pytest

import peerclust as pc
from paper_formulas import FOUR, Problem, fixed_point, largest_apart

RHOS = [10.0, 100.0, *np.logspace(3, 5, 5)]


@cache
def iris_fixed_points(loss, seed=0):
    """Iris on a ring of 10, and its fixed points by continuation in rho."""
    rows, classes = pc.datasets.iris()
    users = pc.partition.homogeneous(classes, 10, random_state=seed)
    p = Problem(
        parts=[rows[i] for i in users],
        weights=[np.ones(len(i)) for i in users],
        graph=pc.graphs.ring(10),
        loss=loss,
        A=np.eye(4),
    )
    means = np.stack([rows[classes == k].mean(axis=0) for k in range(3)])
    x, points = np.repeat(means[None], 10, axis=0), {}
    for rho in RHOS:
        points[rho] = x = fixed_point(p, x, rho)
    return p, points


def slope(values, rhos):
    return np.polyfit(np.log(rhos), np.log(values), 1)[0]


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_dgc_stays_at_fixed_points_found_without_it(loss):
    p, points = iris_fixed_points(loss)
    for rho, x in points.items():
        assert np.abs(p.gradient(x, p.labels(x), rho)).max() < 1e-13
        solution = p.run(init=x, rho=rho, rounds=20, tol=0)
        assert solution.certificate.residual < 1e-9
        np.testing.assert_allclose(solution.centers, x, rtol=0, atol=1e-11)


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_disagreement_falls_like_one_over_rho(loss):
    _, points = iris_fixed_points(loss)
    rhos = [rho for rho in RHOS if rho >= 1e3]
    found = slope([largest_apart(points[rho]) for rho in rhos], rhos)
    assert found == pytest.approx(-1.0, abs=0.05)


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_consensus_points_are_stationary_points_of_the_pooled_problem(loss):
    p, points = iris_fixed_points(loss)
    rhos = [rho for rho in RHOS if rho >= 1e3]
    residuals = []
    for rho in rhos:
        gradient = p.pooled_gradient(points[rho].mean(axis=0))
        H = p.curvatures(points[rho], p.labels(points[rho])).sum(axis=0)
        residuals.append((np.linalg.norm(gradient, axis=1) / H).max() / p.spread)
        solution = p.run(init=points[rho], rho=rho, rounds=1, tol=0)
        assert solution.certificate.pooled_residual == pytest.approx(residuals[-1], rel=1e-4)
    assert slope(residuals, rhos) == pytest.approx(-1.0, abs=0.05)
    assert residuals[-1] < 1e-5


@pytest.mark.parametrize("loss", FOUR, ids=repr)
def test_for_a_finite_rho_all_users_label_as_the_mean_centers_do(loss):
    p, points = iris_fixed_points(loss)

    def differ(rho):
        """How many rows their user labels otherwise than the mean centers do."""
        solution = p.run(init=points[rho], rho=rho, rounds=1, tol=0)
        common = np.repeat(points[rho].mean(axis=0)[None], p.graph.m, axis=0)
        return int((np.concatenate(solution.labels) != p.labels(common)).sum())

    assert differ(RHOS[0]) > 0
    assert [differ(rho) for rho in RHOS if rho >= 1e4] == [0, 0, 0]
