"""Distinct rows of each user, with the sums of their weights."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from instances import (
    random_block,
)
from peerclust.users import Users
from reference_impl import same


def each_weight(weights, n):
    return np.broadcast_to(weights, n)


def lattice_users(seed, weights, *, users=3):
    """Rows with many duplicates; weights are multiples of 1/8, so that their sums are exact."""
    rng = np.random.default_rng(seed)
    sizes = [0, *rng.integers(1, 60, users)]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = rng.integers(-2, 3, size=(offsets[-1], 2)) * 0.1
    w = rng.integers(1, 30, len(rows)) / 8.0 if weights else 0.5
    return Users(rows, offsets, weights=w)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", [False, True])
def test_distinct_merges_equal_rows_of_a_user_and_adds_their_weights(seed, weights):
    users = lattice_users(seed, weights)
    chosen, total, offsets = users.distinct
    w = each_weight(users.weights, len(users.rows))
    for i in range(users.m):
        expected = Counter()
        for row in range(users.offsets[i], users.offsets[i + 1]):
            expected[tuple((users.rows[row] + 0.0).tolist())] += w[row]
        here = slice(offsets[i], offsets[i + 1])
        assert ((chosen[here] >= users.offsets[i]) & (chosen[here] < users.offsets[i + 1])).all()
        found = [tuple((row + 0.0).tolist()) for row in users.rows[chosen[here]]]
        assert len(found) == len(set(found))
        assert dict(zip(found, total[here].tolist(), strict=True)) == expected
    assert offsets[-1] == len(chosen) == len(total)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", [False, True])
def test_distinct_rows_come_in_an_order_of_their_own(seed, weights):
    users = lattice_users(seed, weights)
    rng = np.random.default_rng(seed)
    order = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(users.offsets)])
    w = users.weights[order] if weights else users.weights
    shuffled = Users(users.rows[order], users.offsets, weights=w)
    np.testing.assert_array_equal(
        shuffled.rows[shuffled.distinct[0]], users.rows[users.distinct[0]]
    )
    same(shuffled.distinct[1], users.distinct[1])
    same(shuffled.distinct[2], users.distinct[2])


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30))
def test_distinct_takes_a_repetition_for_a_weight(seed, n):
    rng = np.random.default_rng(seed)
    rows, times = rng.integers(-3, 4, size=(n, 2)) * 0.3, rng.integers(1, 5, n)
    weighted = Users(rows, np.array([0, n]), weights=times.astype(np.float64))
    repeated = Users(np.repeat(rows, times, axis=0), np.array([0, times.sum()]))
    np.testing.assert_array_equal(
        weighted.rows[weighted.distinct[0]], repeated.rows[repeated.distinct[0]]
    )
    same(weighted.distinct[1], repeated.distinct[1])
    same(weighted.distinct[2], repeated.distinct[2])


def test_distinct_takes_minus_zero_for_zero():
    users = Users(np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, -0.0], [1.0, 0.0]]), np.array([0, 4]))
    chosen, weights, offsets = users.distinct
    assert sorted(map(tuple, np.abs(users.rows[chosen]).tolist())) == [(0.0, 1.0), (1.0, 0.0)]
    assert weights.tolist() == [2.0, 2.0]
    assert offsets.tolist() == [0, 2]


def test_distinct_of_random_rows_is_all_of_them():
    rows, offsets, _ = random_block([2000, 0, 3000], 3, 1)
    chosen, weights, found = Users(rows, offsets).distinct
    np.testing.assert_array_equal(np.sort(chosen), np.arange(5000))
    assert (weights == 1.0).all()
    same(found, offsets)


def test_equal_rows_of_different_users_stay_apart():
    users = Users(np.ones((6, 2)), np.array([0, 2, 2, 6]))
    chosen, weights, offsets = users.distinct
    assert len(chosen) == 2
    assert weights.tolist() == [2.0, 4.0]
    assert offsets.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("weights", [False, True])
def test_distinct_of_a_block_of_one_is_that_user_s_part_of_the_whole(weights):
    users = lattice_users(1, weights, users=6)
    chosen, total, offsets = users.distinct
    for i in range(users.m):
        alone, weight, ends = users.single_user(i).distinct
        here = slice(offsets[i], offsets[i + 1])
        same(alone + users.offsets[i], chosen[here])
        same(weight, total[here])
        np.testing.assert_array_equal(ends, [0, len(alone)])


@pytest.mark.parametrize("weights", [1.0, np.empty(0)], ids=["unit", "each"])
def test_users_without_rows_have_no_distinct_ones(weights):
    chosen, total, offsets = Users(np.empty((0, 2)), np.array([0, 0, 0]), weights=weights).distinct
    assert len(chosen) == len(total) == 0
    assert offsets.tolist() == [0, 0, 0]
