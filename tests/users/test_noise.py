"""Users whose gradients are noisy: the same rows, assignments and costs."""

from __future__ import annotations

import numpy as np
import pytest

from instances import OBJECTIVES, SIZES, random_block
from peerclust.users import Users
from reference_impl import same

objectives = pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
small = pytest.mark.parametrize("sizes", [SIZES, [3, 0, 7, 15]], ids=["of any size", "small"])


class Noise:
    """Some numbers of the shape that is asked for, and which shapes were."""

    def __init__(self):
        self.shapes = []

    def __call__(self, shape):
        self.shapes.append(shape)
        return np.random.default_rng(0).normal(size=shape)


@small
@objectives
def test_noise_is_in_gradients_only(objective, sizes):
    rows, offsets, x = random_block(sizes, 3, 4)
    users, noise = Users(rows, offsets, **objective(3)), Noise()
    noisy = users.with_noise(noise)
    assignment = noisy.assign(x)
    same(assignment.labels, Users(rows, offsets, **objective(3)).assign(x).labels)
    for at in (x, x + 0.05):
        same(noisy.cost(assignment, at), users.cost(assignment, at))
        same(noisy.curvature(assignment, at), users.curvature(assignment, at))
    assert noise.shapes == []
    for at in (x, x + 0.05):
        expected = users.gradient(assignment, at) + Noise()(x.shape)
        same(noisy.gradient(assignment, at), expected)
        s0, s1 = noisy.gradient_terms(assignment, at)
        same(s0[..., None] * at - s1, expected)
    assert noise.shapes == [x.shape] * 4


@small
@objectives
@pytest.mark.parametrize("only", [True, False])
@pytest.mark.parametrize("alpha", [0.25, 0.0])
def test_a_step_of_noisy_users_has_the_noise(objective, sizes, only, alpha):
    rows, offsets, x = random_block(sizes, 3, 4)
    users, noise = Users(rows, offsets, **objective(3)), Noise()
    assignment, m = users.assign(x), len(sizes)
    total, degree = np.zeros_like(x), np.zeros((m, 1, 1))
    stiffness = np.random.default_rng(1).uniform(0.5, 9.0, x.shape[:2])
    neighbors, options = (total, degree), (2.0, alpha, 1.0)
    step = users.with_noise(noise).gradient_step(
        assignment, x, neighbors, options, stiffness, only=only
    )
    gradient = (users.gradient(assignment, x) + Noise()(x.shape)) / 2.0
    moved = x - step.alpha[..., None] * gradient
    np.testing.assert_allclose(step.x, moved, rtol=1e-12, atol=1e-12)
    far = (2.0 * np.linalg.norm(gradient, axis=2) / stiffness).max(axis=1)
    np.testing.assert_allclose(step.residual, far, rtol=1e-12)
    assert noise.shapes == [x.shape]
    # The noise is in the gradient, not in the step size.
    quiet = users.gradient_step(assignment, x, neighbors, options, stiffness, only=False)
    same(step.alpha, quiet.alpha)


@objectives
def test_noisy_users_share_the_cache(objective):
    rows, offsets, x = random_block([600, 40], 2, 3)
    users = Users(rows, offsets, **objective(2))
    noisy = users.with_noise(Noise())
    first = users.assign(x)
    second = noisy.assign(x.copy(), first)
    assert (second.changed, second.rows_scanned) == (0, 640)
    reads = 640 if users.geometry.divergence is not None else 0
    for each in (users, noisy, users):
        second = each.assign(x.copy(), second)
        assert (second.changed, second.rows_scanned) == (0, reads)
    same(second.labels, first.labels)
    expected = Users(rows, offsets, **objective(2))
    same(users.gradient(second, x), expected.gradient(expected.assign(x), x))
