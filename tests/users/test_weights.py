"""What weights mean: a weight is a repetition."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from instances import (
    LOSSES,
    OBJECTIVES,
    SIZES,
    WEIGHTS,
    random_block,
    spd,
)
from peerclust import kernels
from peerclust.distances import Mahalanobis
from peerclust.losses import Huber
from peerclust.users import Users
from reference_impl import same

all_weights = pytest.mark.parametrize("weights", WEIGHTS, ids=repr)


objectives = pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)


def each_weight(weights, n):
    return np.broadcast_to(weights, n)


@objectives
def test_twice_the_weight_is_twice_the_gradient_and_twice_the_cost(objective):
    rows, offsets, x = random_block(SIZES, 3, 4)
    w = WEIGHTS[-1](len(rows))
    once, twice = (Users(rows, offsets, weights=each, **objective(3)) for each in (w, 2.0 * w))
    first, second = once.assign(x), twice.assign(x)
    same(first.labels, second.labels)
    same(2.0 * once.gradient(first, x), twice.gradient(second, x))
    same(2.0 * once.cost(first, x), twice.cost(second, x))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data())
def test_a_row_given_three_times_counts_as_once_with_a_weight_of_three(data):
    n = data.draw(st.integers(1, 20))
    times = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows = rng.integers(-9, 9, size=(n, 2)).astype(np.float64)  # whole numbers: sums are exact
    x = rng.integers(-9, 9, size=(1, 3, 2)).astype(np.float64)
    weighted = Users(rows, np.array([0, n]), weights=times.astype(np.float64))
    repeated = Users(np.repeat(rows, times, axis=0), np.array([0, times.sum()]))
    first, second = weighted.assign(x), repeated.assign(x)
    np.testing.assert_array_equal(np.repeat(first.labels, times), second.labels)
    np.testing.assert_array_equal(weighted.gradient(first, x), repeated.gradient(second, x))
    np.testing.assert_array_equal(weighted.cost(first, x), repeated.cost(second, x))
    np.testing.assert_array_equal(weighted.total_weights, repeated.total_weights)


def test_a_scalar_weight_is_that_weight_for_each_row_to_the_last_bit():
    rows, offsets, x = random_block(SIZES, 3, 4)
    for loss in LOSSES:
        one = Users(rows, offsets, weights=0.3, loss=loss)
        each = Users(rows, offsets, weights=np.full(len(rows), 0.3), loss=loss)
        first, second = one.assign(x), each.assign(x)
        same(one.gradient(first, x), each.gradient(second, x))
        same(one.cost(first, x), each.cost(second, x))


@all_weights
@pytest.mark.parametrize("chunk_rows", [16, kernels.CHUNK_ROWS])
def test_total_weights_are_the_sums_of_each_user(monkeypatch, weights, chunk_rows):
    monkeypatch.setattr(kernels, "CHUNK_ROWS", chunk_rows)
    rows, offsets, _ = random_block(SIZES, 1, 1)
    w = weights(len(rows))
    expected = [math.fsum(each_weight(w, len(rows))[a:b]) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(Users(rows, offsets, weights=w).total_weights, expected, rtol=1e-14)


def test_with_weights_gives_the_same_users_with_other_weights():
    rows, offsets, x = random_block(SIZES, 3, 4)
    w, ids = WEIGHTS[-1](len(rows)), range(7, 7 + len(SIZES))
    users = Users(rows, offsets, loss=Huber(0.5), distance=Mahalanobis(spd(3)), ids=ids)
    users.assign(x)
    other = users.with_weights(w)
    direct = Users(rows, offsets, weights=w, loss=Huber(0.5), distance=Mahalanobis(spd(3)))
    same(other.gradient(other.assign(x), x), direct.gradient(direct.assign(x), x))
    assert other.ids == tuple(ids)
    assert other.rows is rows
