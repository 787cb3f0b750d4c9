"""The costs that the swap search compares: of each cluster, and of removing its center."""

from __future__ import annotations

import numpy as np
import pytest

from all_pairs import by_pairs
from instances import LOSSES, OBJECTIVES, SHAPES, SIZES, WEIGHTS, random_block
from peerclust.bregman import Bregman
from peerclust.distances import Euclidean
from peerclust.losses import Huber, KMeans
from peerclust.users import Users
from reference_impl import of_each_user, same, scores

objectives = pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)


def make_users(shape, objective, weights, dtype=np.float64):
    rows, offsets, x = random_block(*shape, dtype=dtype)
    return Users(rows, offsets, weights=weights(len(rows)), **objective(shape[1])), x


def row_losses(users, x):
    """Each row's loss at each of its user's centers, (N, K)."""
    losses = np.empty((len(users.rows), x.shape[1]))
    for i, mine in of_each_user(users.rows, users.offsets):
        r2 = scores(mine, x[i], users.loss, users.distance)
        here = slice(users.offsets[i], users.offsets[i + 1])
        losses[here] = r2 if isinstance(users.loss, Bregman) else users.loss.value(r2)
    return losses


def brute_force(users, labels, x):
    """E and U, (u, K), with the rows of a cluster found one cluster at a time."""
    losses, weights = row_losses(users, x), np.broadcast_to(users.weights, len(users.rows))
    E, U = np.zeros((2, *x.shape[:2]))
    owner = np.repeat(np.arange(users.m), np.diff(users.offsets))
    for i in range(users.m):
        for k in range(x.shape[1]):
            own = (owner == i) & (labels == k)
            w, at = weights[own], losses[own]
            E[i, k] = w @ at[:, k]
            if x.shape[1] > 1:
                U[i, k] = w @ np.delete(at, k, axis=1).min(axis=1) - E[i, k]
    return E, U


@by_pairs(shape=SHAPES, objective=OBJECTIVES, weights=WEIGHTS, dtype=[np.float64, np.float32])
def test_swap_costs_are_those_of_brute_force(shape, objective, weights, dtype):
    users, x = make_users(shape, objective, weights, dtype)
    assignment = users.assign(x)
    E, U = users.swap_costs(assignment, x)
    assert E.dtype == U.dtype == np.float64
    expected = brute_force(users, assignment.labels, x)
    scale = sum(np.abs(each).max() for each in expected)
    np.testing.assert_allclose(E, expected[0], rtol=1e-9, atol=1e-11 * scale)
    np.testing.assert_allclose(U, expected[1], rtol=1e-9, atol=1e-11 * scale)
    np.testing.assert_allclose(E.sum(axis=1), users.cost(assignment, x), rtol=1e-12, atol=1e-12)


@objectives
def test_the_cost_without_a_center_is_higher_by_its_removal_cost(objective):
    users, x = make_users((SIZES, 3, 5), objective, WEIGHTS[-1])
    assignment = users.assign(x)
    U, cost = users.swap_costs(assignment, x)[1], users.cost(assignment, x)
    for k in range(5):
        rest = np.delete(x, k, axis=1)
        np.testing.assert_allclose(
            users.cost(users.assign(rest), rest), cost + U[:, k], rtol=1e-10, atol=1e-10
        )


@objectives
def test_a_user_s_swap_costs_are_the_same_bits_in_any_block_and_batch(objective, monkeypatch):
    users, x = make_users(([9000, 0, 70, 8192, 3], 2, 3), objective, WEIGHTS[-1])
    whole = users.swap_costs(users.assign(x), x)
    for i in range(users.m):
        alone = users.single_user(i)
        own = alone.swap_costs(alone.assign(x[i : i + 1]), x[i : i + 1])
        for a, b in zip(own, whole, strict=True):
            same(a, b[i : i + 1])
    monkeypatch.setattr("peerclust.users.rows.BATCH_ROWS", 100)
    monkeypatch.setenv("PEERCLUST_THREADS", "1")
    for a, b in zip(users.swap_costs(users.assign(x), x), whole, strict=True):
        same(a, b)


@objectives
def test_other_centers_are_measured_with_the_labels_of_the_assignment(objective):
    users, x = make_users((SIZES, 3, 4), objective, WEIGHTS[0])
    assignment, later = users.assign(x), 1.3 * x[:, ::-1]
    expected = brute_force(users, assignment.labels, later)
    for computed, each in zip(users.swap_costs(assignment, later), expected, strict=True):
        np.testing.assert_allclose(computed, each, rtol=1e-9, atol=1e-9)
    assert (expected[1] < 0).any()
    users.assign(later)
    for computed, each in zip(users.swap_costs(assignment, later), expected, strict=True):
        np.testing.assert_allclose(computed, each, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_rows_that_are_repeated_count_as_one_with_a_weight(loss):
    rows, offsets, x = random_block([40, 7], 2, 3)
    times = np.random.default_rng(0).integers(0, 4, len(rows))
    weighted = Users(rows, offsets, weights=times.astype(np.float64), loss=loss)
    ends = np.concatenate([[0], np.cumsum(times)])[offsets]
    repeated = Users(np.repeat(rows, times, axis=0), ends, loss=loss)
    pairs = (users.swap_costs(users.assign(x), x) for users in (weighted, repeated))
    for a, b in zip(*pairs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_of_two_equal_centers_each_can_be_removed_for_nothing():
    rows, offsets, _ = random_block([30], 2, 1)
    x = np.array([[[1.0, 1.0], [4.0, 4.0], [1.0, 1.0]]])
    users = Users(rows, offsets, loss=Huber(0.5), distance=Euclidean())
    E, U = users.swap_costs(users.assign(x), x)
    assert E[0, 2] == U[0, 0] == U[0, 2] == 0.0
    assert E[0, 0] > 0
    assert U[0, 1] > 0


def test_the_only_center_has_a_removal_cost_of_zero():
    users, x = make_users((SIZES, 3, 1), lambda _: {"loss": KMeans()}, WEIGHTS[0])
    E, U = users.swap_costs(users.assign(x), x)
    assert (E[np.diff(users.offsets) > 0] > 0).all()
    same(U, np.zeros_like(E))
