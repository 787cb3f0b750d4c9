"""Gradient and cost of a block, beside plain sums over rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from all_pairs import by_pairs
from instances import (
    BREGMANS,
    DISTANCES,
    LOSSES,
    OBJECTIVES,
    SIZES,
    WEIGHTS,
    random_block,
)
from peerclust import kernels
from peerclust.bregman import generalized_kl
from peerclust.distances import Mahalanobis
from peerclust.errors import DivergedError
from peerclust.losses import KMeans
from peerclust.users import Users
from reference_impl import of_each_user, plain_cost, plain_curvature, plain_gradient, same

losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


distances = pytest.mark.parametrize("distance", DISTANCES, ids=repr)


bregmans = pytest.mark.parametrize("bregman", BREGMANS, ids=repr)


all_weights = pytest.mark.parametrize("weights", WEIGHTS, ids=repr)


objectives = pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)


def each_weight(weights, n):
    return np.broadcast_to(weights, n)


@by_pairs(objective=OBJECTIVES, weights=WEIGHTS, chunk_rows=[16, kernels.CHUNK_ROWS])
def test_gradient_is_the_plain_sum_of_weighted_gradients(
    monkeypatch, objective, weights, chunk_rows
):
    monkeypatch.setattr(kernels, "CHUNK_ROWS", chunk_rows)
    rows, offsets, x = random_block(SIZES, 3, 4)
    w = weights(len(rows))
    users = Users(rows, offsets, weights=w, **objective(3))
    assignment = users.assign(x)
    expected, size = plain_gradient(
        rows, offsets, assignment.labels, x, each_weight(w, len(rows)), users.loss, users.distance
    )
    # x and y are of size 5, and S0 x - S1 is a difference
    scale = 1e-12 * (1.0 + size.max())
    gradient = users.gradient(assignment, x)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=scale)
    s0, s1 = users.gradient_terms(assignment, x)
    np.testing.assert_allclose(s0[..., None] * x - s1, gradient, rtol=1e-15, atol=0)


@by_pairs(objective=OBJECTIVES, weights=WEIGHTS, chunk_rows=[16, kernels.CHUNK_ROWS])
def test_cost_is_the_plain_sum_of_weighted_losses(monkeypatch, objective, weights, chunk_rows):
    monkeypatch.setattr(kernels, "CHUNK_ROWS", chunk_rows)
    rows, offsets, x = random_block(SIZES, 3, 4)
    w = weights(len(rows))
    users = Users(rows, offsets, weights=w, **objective(3))
    assignment = users.assign(x)
    expected = plain_cost(
        rows, offsets, assignment.labels, x, each_weight(w, len(rows)), users.loss, users.distance
    )
    np.testing.assert_allclose(users.cost(assignment, x), expected, rtol=1e-11, atol=1e-12)


@objectives
def test_after_a_step_without_an_assignment_the_old_labels_count(objective):
    # Algorithm 1 makes B steps a round with the clusters of the first.
    rows, offsets, x = random_block(SIZES, 3, 4)
    w = WEIGHTS[-1](len(rows))
    users = Users(rows, offsets, weights=w, **objective(3))
    assignment = users.assign(x)
    labels = assignment.labels.copy()
    for step in range(1, 4):
        moved = x + 0.04 * step * np.random.default_rng(step).uniform(size=x.shape)
        expected, size = plain_gradient(rows, offsets, labels, moved, w, users.loss, users.distance)
        np.testing.assert_allclose(
            users.gradient(assignment, moved), expected, rtol=1e-12, atol=1e-12 * (1.0 + size.max())
        )
        np.testing.assert_allclose(
            users.cost(assignment, moved),
            plain_cost(rows, offsets, labels, moved, w, users.loss, users.distance),
            rtol=1e-11,
            atol=1e-12,
        )
        same(assignment.labels, labels)


@objectives
@pytest.mark.parametrize("chunk_rows", [16, kernels.CHUNK_ROWS])
def test_gradient_does_not_depend_on_earlier_calls(monkeypatch, objective, chunk_rows):
    monkeypatch.setattr(kernels, "CHUNK_ROWS", chunk_rows)
    rows, offsets, x = random_block(SIZES, 3, 4)
    users = Users(rows, offsets, **objective(3))
    assignment = users.assign(x)
    at_once = users.gradient(assignment, x)
    same(users.gradient(assignment, x.copy()), at_once)
    users.gradient(assignment, x + 0.1)
    users.cost(assignment, x + 0.2)
    same(users.gradient(assignment, x), at_once)
    fresh = Users(rows, offsets, **objective(3))
    before = fresh.assign(x + 0.3)
    fresh.gradient(before, x + 0.1)
    same(fresh.gradient(fresh.assign(x, before), x.copy()), at_once)


@by_pairs(
    objective=OBJECTIVES,
    sizes=[SIZES, [3, 0, 7, 15]],
    latest=[True, False],
    B=[1, 2],
    alpha=[0.03, 0.0],
)
def test_gradient_step_descends_on_the_cost_and_the_disagreement(
    objective, sizes, latest, B, alpha
):
    rows, offsets, x = random_block(sizes, 3, 4)
    users = Users(rows, offsets, weights=WEIGHTS[-1](len(rows)), **objective(3))
    assignment, m = users.assign(x), len(sizes)
    if not latest:
        users.assign(x[:, ::-1].copy())
    rng = np.random.default_rng(0)
    rho, c = 7.0, 0.5
    stiffness = rng.uniform(0.5, 9.0, x.shape[:2])
    labels, w = assignment.labels, each_weight(users.weights, len(rows))
    for _ in range(B):
        total, degree = rng.uniform(0.2, 9.0, x.shape), rng.integers(0, 4, (m, 1, 1)).astype(float)
        own, size = plain_gradient(rows, offsets, labels, x, w, users.loss, users.distance)
        gradient = own / rho + c * (degree * x - total)
        before = x.copy()
        step = users.gradient_step(
            assignment, x, (total, degree), (rho, alpha, c), stiffness, only=B == 1
        )
        alphas = np.full(x.shape[:2], alpha)
        if alpha == 0:
            # A center without rows and neighbors has no curvature, and nothing moves it.
            bend = plain_curvature(rows, offsets, labels, x, w, users.loss, users.distance) / rho
            bend += 2 * c * degree[:, :, 0]
            alphas = np.divide(1.0, bend, out=np.zeros_like(bend), where=bend > 0)
        np.testing.assert_allclose(step.alpha, alphas, rtol=1e-12)
        atol = 1e-12 * (1.0 + size.max()) * (1.0 + alphas.max())
        expected = x - alphas[..., None] * gradient
        np.testing.assert_allclose(step.x, expected, rtol=1e-12, atol=atol)
        far = (rho * np.linalg.norm(gradient, axis=2) / stiffness).max(axis=1)
        np.testing.assert_allclose(step.residual, far, rtol=1e-12, atol=20 * atol)
        same(x, before)
        x = x + 0.04


@objectives
def test_gradient_is_the_slope_of_the_cost(objective):
    rows, offsets, x = random_block([30, 0, 12], 2, 3)
    users = Users(rows, offsets, **objective(2))
    assignment = users.assign(x)
    numeric = np.empty_like(x)
    for place in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[place] = 1e-5
        change = users.cost(assignment, x + e) - users.cost(assignment, x - e)
        numeric[place] = change[place[0]] / 2e-5
    np.testing.assert_allclose(users.gradient(assignment, x), numeric, rtol=1e-6, atol=1e-6)


@bregmans
def test_gradient_of_a_bregman_loss_is_zero_at_the_mean_of_its_rows(bregman):
    rows, offsets, x = random_block([150, 60], 3, 2)
    w = WEIGHTS[-1](len(rows))
    users = Users(rows, offsets, weights=w, loss=bregman(3))
    assignment = users.assign(x)
    means = np.empty_like(x)
    for i, mine in of_each_user(rows, offsets):
        here = slice(offsets[i], offsets[i + 1])
        for k in range(2):
            held = assignment.labels[here] == k
            means[i, k] = np.average(mine[held], axis=0, weights=w[here][held])
    np.testing.assert_allclose(users.gradient(assignment, means), 0.0, atol=1e-10)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_a_squared_norm_as_a_bregman_loss_does_what_kmeans_does(distance):
    rows, offsets, x = random_block(SIZES, 3, 4)
    radial = Users(rows, offsets, loss=KMeans(), distance=distance(3))
    bregman = Users(rows, offsets, loss=BREGMANS[DISTANCES.index(distance)](3))
    first, second = radial.assign(x), bregman.assign(x)
    same(first.labels, second.labels)
    np.testing.assert_allclose(
        bregman.gradient(second, x), radial.gradient(first, x), rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose(bregman.cost(second, x), radial.cost(first, x), rtol=1e-11)


@losses
def test_mahalanobis_with_the_identity_does_what_euclidean_does_to_the_last_bit(loss):
    rows, offsets, x = random_block(SIZES, 3, 4)
    plain = Users(rows, offsets, loss=loss)
    moved = Users(rows, offsets, loss=loss, distance=Mahalanobis(np.eye(3)))
    first, second = plain.assign(x), moved.assign(x)
    same(first.labels, second.labels)
    np.testing.assert_array_equal(plain.gradient(first, x), moved.gradient(second, x))
    same(plain.cost(first, x), moved.cost(second, x))


@losses
@distances
def test_rows_of_the_largest_allowed_size_keep_everything_finite(loss, distance):
    sign = np.random.default_rng(0).choice([-1.0, 1.0], size=(40, 2))
    rows = 0.9e150 * sign * np.geomspace(1e-300, 1.0, 40)[:, None]
    x = np.array([[[0.9e150, 0.9e150], [0.0, 0.0], [-0.9e150, 0.9e150]]])
    users = Users(rows, np.array([0, 40]), weights=1.0 / 40, loss=loss, distance=distance(2))
    with np.errstate(all="raise", under="ignore"):
        assignment = users.assign(x)
        pull, cost = users.gradient(assignment, x), users.cost(assignment, x)
    assert np.isfinite(pull).all()
    assert np.isfinite(cost).all()


def test_a_returned_gradient_is_not_changed_by_later_calls():
    rows, offsets, x = random_block(SIZES, 3, 4)
    for loss in LOSSES:
        users = Users(rows, offsets, loss=loss)
        assignment = users.assign(x)
        pull = users.gradient(assignment, x)
        kept = pull.copy()
        pull += 1.0
        same(users.gradient(assignment, x), kept)


@objectives
def test_users_without_rows_have_no_gradient_and_no_cost(objective):
    users = Users(np.empty((0, 2)), np.array([0, 0, 0]), **objective(2))
    x = np.ones((2, 3, 2))
    assignment = users.assign(x)
    assert assignment.changed == 0
    for at in (x, x + 1.0):
        np.testing.assert_array_equal(users.gradient(assignment, at), np.zeros((2, 3, 2)))
        np.testing.assert_array_equal(users.cost(assignment, at), np.zeros(2))
    np.testing.assert_array_equal(users.total_weights, np.zeros(2))
    labels, r2 = users.nearest(x[0])
    assert len(labels) == len(r2) == 0


@pytest.mark.parametrize("outside", [0.0, -0.5])
def test_a_center_outside_the_domain_is_an_error_that_says_what_to_do(outside):
    rows, offsets, x = random_block(SIZES, 2, 3)
    users = Users(rows, offsets, loss=generalized_kl(smoothness=1.0))
    assignment = users.assign(x)
    x = x.copy()
    x[3, 1, 0] = outside
    for method in (users.assign, partial(users.gradient, assignment)):
        with pytest.raises(DivergedError, match="left the domain of the generalized_kl loss"):
            method(x)
