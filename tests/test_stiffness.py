"""What a residual says of the true distance: quadratic problems in one dimension, solved directly.

    J_rho(x) = sum_i H_i (x_i - y_i)^2 / (2 rho) + c/2 x' L x,    one cluster, random H, some 0.

A residual is max_i rho |g_i| / stiffness_i with g the gradient, and the truth max_i |x_i - x*_i|.
The Hessian is diagonally dominant with nonpositive entries beside the diagonal, so its inverse has
no negative entry. So the worst x of all with a given residual has all gradients at their limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from instances import GRAPHS, Maker
from peerclust import graphs, theory


def random_tree(m):
    rng = np.random.default_rng(m)
    return graphs.from_edges([(int(rng.integers(i)), i) for i in range(1, m)], m=m)


ALL = [*GRAPHS, Maker("tree", random_tree)]


def curvature(H):
    """Return the curvature of users with one cluster."""
    mean, squares = np.array([H.mean()]), np.array([(H * H).mean()])
    return theory.Curvature.of(H[:, None], mean, squares)


@dataclass(frozen=True)
class Quadratic:
    """The Hessian of rho J_rho and the solution; lambda_2 is that of a dense Laplacian."""

    H: np.ndarray
    y: np.ndarray
    L: np.ndarray
    rho: float
    c: float

    @property
    def hessian(self):
        return np.diag(self.H) + self.rho * self.c * self.L

    @property
    def solution(self):
        return np.linalg.solve(self.hessian, self.H * self.y)

    @property
    def stiffness(self):
        pull = self.rho * self.c * np.linalg.eigvalsh(self.L)[1]
        return curvature(self.H).stiffness(pull)[:, 0]

    def compare(self, x):
        """The true distance over the residual."""
        gradient = self.H * (x - self.y) + self.rho * self.c * (self.L @ x)
        return np.abs(x - self.solution).max() / np.abs(gradient / self.stiffness).max()

    @property
    def worst(self):
        """The largest such ratio over all x."""
        return (np.abs(np.linalg.inv(self.hessian)) @ self.stiffness).max()

    def descend(self, x, steps, *, own):
        """Take gradient steps: with one safe step size, or one of each user's own."""
        degree = np.diag(self.L)
        if own:
            alpha = 1 / (self.H + 2 * self.rho * self.c * degree)
        else:
            largest = self.H.max() + self.rho * self.c * np.linalg.eigvalsh(self.L)[-1]
            alpha = np.full(len(x), 0.99 / largest)
        once = np.eye(len(x)) - alpha[:, None] * self.hessian
        return self.solution + np.linalg.matrix_power(once, steps) @ (x - self.solution)


def random_curvatures(rng, m):
    kind = rng.integers(4)
    H = [
        rng.uniform(0, 20, m),
        10 ** rng.uniform(-2, 3, m),
        rng.integers(0, 30, m).astype(float),
        np.where(rng.random(m) < 0.2, 100.0, rng.uniform(0, 1, m)),
    ][kind]
    # Clusters that some or most users have no rows of.
    H = H * (rng.random(m) >= rng.choice([0.0, 0.3, 0.8]))
    H[rng.integers(m)] += 0.01
    return H


def random_problems(seed, n, least=1.0):
    rng = np.random.default_rng(seed)
    for case in range(n):
        graph = ALL[case % len(ALL)](int(rng.integers(2, 40)))
        m = graph.m
        rho = least * 10 ** rng.uniform(0, 5)
        L = graph.laplacian.toarray().astype(float)
        problem = Quadratic(
            random_curvatures(rng, m), 10 * rng.normal(size=m), L, rho, rng.choice([0.5, 1.0, 2.0])
        )
        yield problem, rng


def test_where_runs_end_the_residual_is_about_the_distance():
    found = []
    for p, rng in random_problems(0, 400):
        m = len(p.y)
        common = np.full(m, p.y.mean() + 10 * rng.normal())
        for x in (p.solution + 10 * rng.normal(size=m), common):
            for steps in (10, 100, 1000):
                for own in (True, False):
                    now = p.descend(x, steps, own=own)
                    # Beyond that only rounding is left.
                    if np.abs(now - p.solution).max() > 1e-9 * np.abs(p.solution).max():
                        found.append(p.compare(now))
    found = np.array(found)
    assert len(found) > 2000
    assert found.max() <= 2.0 * (1 + 1e-6)
    # Nor is it far too cautious.
    assert 0.3 < np.median(found) < 1.5


@pytest.mark.parametrize("least", [1e-3, 1.0])
def test_no_point_is_much_further_away_than_the_residual(least):
    ratios = [p.worst for p, _ in random_problems(1, 400, least)]
    assert max(ratios) <= 2.0 * (1 + 1e-9)
    assert np.median(ratios) > 0.3


def test_a_user_that_has_all_rows_does_not_hide_the_others_motion():
    """Without the evenness, the others' distance would be about m times the residual."""
    for make in (graphs.star, graphs.complete):
        L = make(40).laplacian.toarray().astype(float)
        p = Quadratic(np.append(np.zeros(39), 100.0), np.zeros(40), L, 1e-4, 1.0)
        assert 0.3 < p.worst <= 2.0


def test_a_clique_with_a_path_is_the_worst_that_was_found():
    edges = [(i, j) for j in range(128) for i in range(j)] + [(i, i + 1) for i in range(127, 135)]
    L = graphs.from_edges(edges, m=136).laplacian.toarray().astype(float)
    p = Quadratic(np.repeat([1.0, 0.0], [128, 8]), np.zeros(136), L, 32.0, 1.0)
    assert 2.0 < p.worst < 2.3


@pytest.mark.parametrize("graph", ALL, ids=repr)
def test_users_alike_are_at_most_twice_as_far_as_the_residual(graph):
    L = graph(13).laplacian.toarray().astype(float)
    for rho in (1e-3, 1.0, 1e3, 1e6):
        p = Quadratic(np.full(13, 7.0), np.arange(13.0), L, rho, 1.0)
        assert 0.3 < p.worst <= 2.0
        # A displacement of all users alike is measured to the last digit.
        assert p.compare(p.solution + 3.0) == pytest.approx(1.0, rel=1e-6)


def test_users_that_agree_measure_the_pooled_distance():
    rng = np.random.default_rng(2)
    for _ in range(50):
        H, y = random_curvatures(rng, 9), rng.normal(size=9)
        solution = (H * y).sum() / H.sum()
        x = solution + rng.normal()
        mean_gradient = (H * (x - y)).mean()
        (stiffness,) = set(curvature(H).stiffness(None)[:, 0])
        assert abs(mean_gradient) / stiffness == pytest.approx(abs(x - solution), rel=1e-9)
