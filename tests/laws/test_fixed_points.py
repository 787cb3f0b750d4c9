"""Where runs end (thm:convergence, lm:fix-pt, lm:bregman-cons-fp)."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from all_pairs import by_pairs
from instances import BREGMANS, GRAPHS, LOSSES, WEIGHTS
from paper_formulas import CASES, in_hull, problem, start


@cache
def converged(name, graph=GRAPHS[0], c=1.0):
    """A problem, and where a long run on it ended."""
    rng = np.random.default_rng(24)
    p = problem(rng, **CASES[name], graph=graph, m=4, N=40, weights=WEIGHTS[2], c=c)
    x = start(rng, p)
    solution = p.run(init=x, rho=4.0, rounds=20_000, tol=1e-11, trace=True, random_state=0)
    return p, solution


@pytest.mark.parametrize("name", CASES)
def test_labels_stop_changing_and_the_centers_converge(name):
    p, solution = converged(name)
    trace = solution.trace
    assert solution.status.converged, str(solution.status)
    last_change = int(np.flatnonzero(trace.changed).max())
    assert last_change < len(trace) // 2, "labels changed until late"
    labels = np.concatenate(solution.labels)
    np.testing.assert_array_equal(labels, p.labels(solution.centers))
    residual = p.residual(solution.centers, labels, solution.rho)
    assert residual <= 1.1e-11
    # Both residuals are rounding by now; one a hundred times the other would be a slip.
    assert solution.certificate.residual == pytest.approx(residual, rel=0.1, abs=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_the_residual_is_that_of_its_definition_where_a_run_is_cut_short(name):
    p, _ = converged(name)
    x = start(np.random.default_rng(24), p)
    for rho, rounds in ((0.2, 3), (4.0, 20), (500.0, 60)):
        solution = p.run(init=x, rho=rho, rounds=rounds, tol=0, random_state=0)
        labels = np.concatenate(solution.labels)
        expected = p.residual(solution.centers, labels, rho)
        assert solution.certificate.residual == pytest.approx(expected, rel=1e-9, abs=1e-13)


@by_pairs(name=["KMeans()-euclidean", *map(repr, BREGMANS)], graph=GRAPHS[:3], c=[1.0, 0.5])
def test_bregman_fixed_points_have_the_closed_form(name, graph, c):
    p, solution = converged(name, graph, c)
    x, rho, d = solution.centers, solution.rho, p.rows.shape[1]
    assert solution.status.converged
    for i, k in np.ndindex(x.shape[:2]):
        own = np.asarray(solution.labels[i]) == k
        w, y = p.weights[i][own], p.parts[i][own]
        hessian = np.diag(1 / x[i, k]) if p.kl else p.A
        near = p.graph.neighbors(i)
        P = hessian * w.sum() / rho + c * len(near) * np.eye(d)
        pulled = hessian @ (w[:, None] * y).sum(axis=0) / rho + c * x[near, k].sum(axis=0)
        np.testing.assert_allclose(x[i, k], np.linalg.solve(P, pulled), rtol=0, atol=1e-8)


@pytest.mark.parametrize("breg", BREGMANS, ids=repr)
def test_one_user_with_a_bregman_loss_ends_at_weighted_cluster_means(breg):
    p = problem(np.random.default_rng(25), breg=breg, m=1, weights=WEIGHTS[2])
    solution = p.run(init="k-means++", rho=1.0, rounds=20_000, tol=1e-11, random_state=0)
    assert solution.status.converged
    for k in range(p.K):
        own = solution.labels[0] == k
        mean = np.average(p.parts[0][own], axis=0, weights=p.weights[0][own])
        np.testing.assert_allclose(solution.centers[0, k], mean, rtol=0, atol=1e-8)


@pytest.mark.parametrize("breg", BREGMANS, ids=repr)
def test_bregman_consensus_points_are_weighted_cluster_means(breg):
    p = problem(np.random.default_rng(26), breg=breg, m=3, graph=GRAPHS[3], weights=WEIGHTS[2])
    x = start(np.random.default_rng(27), p)[:1].repeat(3, axis=0)
    errors = []
    for rho in (30.0, 100.0, 1000.0):
        solution = p.run(init=x, rho=rho, rounds=50_000, tol=1e-7, random_state=0)
        assert solution.status.converged
        x = solution.centers
        labels = np.concatenate(solution.labels)
        means = [
            np.average(p.rows[labels == k], axis=0, weights=p.w[labels == k]) for k in range(p.K)
        ]
        errors.append(np.abs(solution.consensus - means).max())
    # O(1/rho) from the means
    assert errors[2] < 5e-4
    assert errors[2] / errors[1] == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_users_with_few_rows_or_none_take_part(loss, graph):
    rng = np.random.default_rng(28)
    sizes = [0, 1, 2, 15, 0, 12]
    p = replace(
        problem(rng, loss=loss, graph=graph),
        parts=[rng.normal(size=(n, 2)) + 3 * rng.integers(2, size=(n, 1)) for n in sizes],
        weights=[np.ones(n) for n in sizes],
    )
    x = start(rng, p, outside=0.2)
    solution = p.run(init=x, rho=6.0, rounds=20_000, tol=1e-10, random_state=0)
    assert solution.status.converged
    centers, labels = solution.centers, np.concatenate(solution.labels)
    np.testing.assert_array_equal(labels, p.labels(centers))
    assert np.abs(p.gradient(centers, labels, 6.0)).max() < 1e-8
    corners = np.concatenate([p.rows, x.reshape(-1, 2)])
    for i in (0, 4):
        assert len(solution.labels[i]) == 0
        # Without rows of its own, a user rests at the mean of its neighbors.
        rest = centers[p.graph.neighbors(i)].mean(axis=0)
        np.testing.assert_allclose(centers[i], rest, rtol=0, atol=1e-8)
        assert all(in_hull(center, corners) for center in centers[i])
