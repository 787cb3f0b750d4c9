"""The swap search: which center moves, where it goes, and that the result is the better for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.cluster import KMeans

from peerclust.bregman import generalized_kl
from peerclust.distances import Euclidean, Linear
from peerclust.programs.swaps import choose_swap, split_center
from peerclust.users import Users

EUCLIDEAN = Linear(Euclidean())


@settings(derandomize=True, deadline=None, max_examples=100)
@given(data=st.data())
def test_the_pair_of_least_score_is_chosen_until_none_is_negative(data):
    K = data.draw(st.integers(1, 7))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    E, U = rng.uniform(0, 5, K), rng.uniform(0, 12, K)
    tried = []
    while (swap := choose_swap(E, U, tried)) is not None:
        untried = set(range(K)) - set(tried)
        scores = {(i, j): U[i] - 2 * E[j] for i in range(K) for j in untried if i != j}
        assert swap == min(scores, key=scores.get)
        assert scores[swap] < 0
        tried.append(swap[1])
    left = set(range(K)) - set(tried)
    assert all(U[i] >= 2 * E[j] for j in left for i in range(K) if i != j)


def test_one_center_has_nowhere_to_move():
    assert choose_swap(np.array([3.0]), np.array([0.0])) is None


def test_clusters_without_any_cost_are_not_split():
    assert choose_swap(np.zeros(3), np.zeros(3)) is None
    assert choose_swap(np.zeros(3), np.array([0.0, 1.0, 2.0])) is None


def test_costs_that_are_not_finite_end_the_search():
    for bad in (np.nan, np.inf):
        assert choose_swap(np.array([bad, 1.0]), np.array([0.0, 1.0])) is None


def test_rounding_does_not_decide_between_equal_pairs():
    E, U = np.array([4.0, 9.0, 9.0, 4.0]), np.array([1.0, 50.0, 50.0, 1.0])
    rng = np.random.default_rng(0)
    for _ in range(50):
        rounded = [each * (1 + rng.uniform(-1e-12, 1e-12, 4)) for each in (E, U)]
        assert choose_swap(*rounded) == (0, 1)
    # and a difference that is more than rounding does
    assert choose_swap(E, U - 1e-6 * np.eye(4)[3]) == (3, 1)
    assert choose_swap(E + 1e-6 * np.eye(4)[2], U) == (0, 2)


def test_a_split_puts_both_centers_around_the_old_one_and_leaves_the_others():
    x = np.random.default_rng(0).normal(size=(5, 3))
    before = x.copy()
    moved = split_center(x, (1, 3), EUCLIDEAN, seed=0, step=0)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(moved[[0, 2, 4]], x[[0, 2, 4]])
    inside = (x[3] > x.min(axis=0)) & (x[3] < x.max(axis=0))
    assert inside.any()
    np.testing.assert_allclose(((moved[1] + moved[3]) / 2)[inside], x[3][inside], rtol=1e-12)
    nearest = min(np.linalg.norm(x[k] - x[3]) for k in (0, 1, 2, 4))
    assert 1e-3 * nearest < np.linalg.norm(moved[1] - moved[3]) <= 2.001e-3 * nearest


def test_a_split_stays_in_the_box_of_the_centers():
    rng = np.random.default_rng(0)
    for step in range(50):
        x = rng.normal(size=(4, 2))
        moved = split_center(x, (0, 1), EUCLIDEAN, seed=0, step=step)
        assert (x.min(axis=0) <= moved).all()
        assert (moved <= x.max(axis=0)).all()
        assert (moved[0] != moved[1]).any()


def test_a_split_keeps_each_row_of_another_cluster_there():
    rng = np.random.default_rng(0)
    x = 10.0 * rng.normal(size=(6, 2))
    rows = np.repeat(x, 50, axis=0) + 0.1 * rng.normal(size=(300, 2))
    moved = split_center(x, (0, 4), EUCLIDEAN, seed=0, step=0)
    labels = ((rows[:, None] - moved) ** 2).sum(axis=2).argmin(axis=1)
    for k in (1, 2, 3, 5):
        assert (labels[50 * k : 50 * k + 50] == k).all()
    assert set(labels[200:250]) == {0, 4}


def test_seed_and_step_alone_select_the_direction():
    x = np.random.default_rng(0).normal(size=(3, 4))
    first = split_center(x, (0, 1), EUCLIDEAN, seed=1, step=2)
    np.testing.assert_array_equal(split_center(x, (0, 1), EUCLIDEAN, seed=1, step=2), first)
    for seed, step in ((1, 3), (2, 2)):
        other = split_center(x, (0, 1), EUCLIDEAN, seed=seed, step=step)
        assert not np.allclose(other, first)


@pytest.mark.parametrize("at", [0.0, 7.0])
def test_centers_that_all_coincide_can_be_split(at):
    x = np.full((3, 2), at)
    moved = split_center(x, (2, 0), EUCLIDEAN, seed=0, step=0)
    assert (moved[0] != moved[2]).all()
    assert np.isfinite(moved).all()


def test_a_split_stays_in_the_domain_of_a_bregman_loss():
    loss = generalized_kl(smoothness=1.0)
    x = np.array([[1e-6, 2.0, 3.0], [4.0, 4.0, 4.0], [1.0, 1.0, 1.0]])
    for step in range(20):
        moved = split_center(x, (1, 0), loss, seed=0, step=step)
        assert (moved > 0).all()
        assert (moved[0] != moved[1]).any()


def lloyd(users, x):
    """Run K-means from common centers (K, d) until they stand; return them and E and U."""
    while True:
        at = users.broadcast_centers(x)
        assignment = users.assign(at)
        counts, sums = (each.sum(axis=0) for each in users.gradient_terms(assignment, at))
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1.0)[:, None], x)
        if np.allclose(means, x, rtol=1e-12, atol=1e-12):
            E, U = users.swap_costs(assignment, at)
            return x, E.sum(axis=0), U.sum(axis=0)
        x = means


@pytest.mark.parametrize("seed", range(4))
def test_swaps_lead_from_a_bad_start_to_scikit_learns_best_of_ten(seed):
    rng = np.random.default_rng(seed)
    blobs = np.repeat(9.0 * rng.normal(size=(8, 5)), 60, axis=0) + rng.normal(size=(480, 5))
    rows = rng.permutation(blobs)
    users = Users(rows, np.array([0, 100, 100, 480]))
    # Three centers start in the first blob, and none in the second and third.
    x, E, U = lloyd(users, blobs[[0, 1, 2, *range(180, 480, 60)]])
    first, tried, step = E.sum(), [], 0
    while len(tried) < 8 and (swap := choose_swap(E, U, tried)) is not None:
        new = lloyd(users, split_center(x, swap, EUCLIDEAN, seed, step))
        step += 1
        if new[1].sum() < (1 - 1e-6) * E.sum():
            (x, E, U), tried = new, []
        else:
            tried.append(swap[1])
    best = KMeans(8, n_init=10, random_state=seed).fit(rows).inertia_ / 2
    assert first > 1.2 * best
    assert E.sum() < 1.005 * best
