"""Compiled loops over rows: nearest centers, sums by cluster, chunk by chunk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from instances import LOSSES
from peerclust import kernels
from peerclust.kernels import TILE, Chunks, RowData
from peerclust.kernels.exact_sums import no_sums
from reference_impl import same, squares

NONE = np.empty(0)


compiled = [loss for loss in LOSSES if hasattr(loss, "compiled")]


# Three users, the second without rows; the third in three chunks.
OWNER, START, STOP = CHUNKS = Chunks(
    np.array([0, 2, 2, 2]), np.array([0, 70, 200, 265]), np.array([70, 200, 265, 280])
)


def run_nearest(rows, x, first=0, last=None):
    labels = np.full(len(rows), -7, np.int32)
    r2 = np.full(len(rows), -7.0)
    end = len(rows) if last is None else last
    kernels.nearest(first, end, rows, x, None, None, labels, r2)
    return labels, r2


def run_assign(rows, x, first, last, code, parameter, weights=NONE):
    labels, changed = np.full(len(rows), -7, np.int32), np.full(4, -7)
    sums = no_sums(4, *x.shape[1:])
    data = tuple(RowData(rows, weights, 1.0, code, parameter))
    kernels.assign(first, last, data, tuple(CHUNKS), x, None, None, labels, sums, changed)
    return labels, sums.hi0, sums.hi1, changed


def run_gradient(rows, x, labels, code, parameter, weights, given=NONE):
    sums = no_sums(4, *x.shape[1:])
    data = RowData(rows, weights, 1.0, code, parameter)
    kernels.gradient(0, 4, data, CHUNKS, x, labels, given, sums)
    return sums.hi0, sums.hi1


@pytest.fixture
def chunks():
    rng = np.random.default_rng(0)
    return rng.normal(size=(280, 3)), rng.normal(size=(3, 4, 3)), rng.uniform(0, 2, 280)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 2, 3, 17])
@pytest.mark.parametrize("n", [0, 1, 2, TILE - 1, TILE, TILE + 1, 5 * TILE + 3])
def test_nearest_is_argmin_of_plain_squared_distances_to_the_last_bit(n, d, dtype):
    rng = np.random.default_rng((n, d))
    rows, x = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(5, d))
    expected = squares(rows, x)
    labels, r2 = run_nearest(rows, x)
    same(labels, expected.argmin(axis=1).astype(np.int32))
    same(r2, expected.min(axis=1))


def test_nearest_leaves_rows_outside_its_range_alone():
    rng = np.random.default_rng(0)
    rows, x = rng.normal(size=(300, 2)), rng.normal(size=(3, 2))
    labels, r2 = run_nearest(rows, x, 65, 211)
    whole = run_nearest(rows, x)
    same(labels[65:211], whole[0][65:211])
    same(r2[65:211], whole[1][65:211])
    outside = np.r_[0:65, 211:300]
    assert (labels[outside] == -7).all()
    assert (r2[outside] == -7.0).all()


@settings(derandomize=True, deadline=None, max_examples=80)
@given(data=st.data(), d=st.integers(1, 3), K=st.integers(1, 6))
def test_of_equally_near_centers_the_first_is_taken(data, d, K):
    # On a small lattice most rows have several nearest centers, and many centers are the same.
    point = st.lists(st.integers(-2, 2), min_size=d, max_size=d)
    rows = np.array(data.draw(st.lists(point, min_size=1, max_size=90)))
    x = np.array(data.draw(st.lists(point, min_size=K, max_size=K)))
    exact = ((rows[:, None] - x) ** 2).sum(axis=2)
    labels, r2 = run_nearest(rows.astype(np.float64), x.astype(np.float64))
    np.testing.assert_array_equal(labels, exact.argmin(axis=1))
    np.testing.assert_array_equal(r2, exact.min(axis=1))


@pytest.mark.parametrize("loss", compiled, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_assign_sums_weights_and_rows_of_each_cluster_of_each_chunk(chunks, loss, weighted):
    rows, x, w = chunks
    labels, s0, s1, changed = run_assign(rows, x, 0, 4, *loss.compiled, w if weighted else NONE)
    for t in range(4):
        here = slice(START[t], STOP[t])
        r2 = squares(rows[here], x[OWNER[t]])
        np.testing.assert_array_equal(labels[here], r2.argmin(axis=1))
        each = loss.gamma(r2.min(axis=1)) * (w[here] if weighted else 1.0)
        assert changed[t] == STOP[t] - START[t]
        for k in range(4):
            mine = labels[here] == k
            assert s0[t, k] == pytest.approx(each[mine].sum(), rel=1e-13)
            np.testing.assert_allclose(
                s1[t, k], each[mine] @ rows[here][mine], rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("loss", compiled, ids=repr)
def test_chunks_one_by_one_give_the_same_as_together(chunks, loss):
    rows, x, w = chunks
    together = run_assign(rows, x, 0, 4, *loss.compiled, w)
    for t in range(4):
        labels, s0, s1, changed = run_assign(rows, x, t, t + 1, *loss.compiled, w)
        same(labels[START[t] : STOP[t]], together[0][START[t] : STOP[t]])
        same(s0[t], together[1][t])
        same(s1[t], together[2][t])
        assert changed[t] == together[3][t]
        # and nothing else has been touched
        assert (np.delete(labels, np.arange(START[t], STOP[t])) == -7).all()
        assert not np.delete(s0, t, axis=0).any()
        assert not np.delete(s1, t, axis=0).any()
        assert (np.delete(changed, t) == -7).all()


@pytest.mark.parametrize("loss", compiled, ids=repr)
def test_gradient_at_the_same_centers_repeats_the_sums_of_assign_to_the_last_bit(chunks, loss):
    rows, x, w = chunks
    labels, s0, s1, _ = run_assign(rows, x, 0, 4, *loss.compiled, w)
    again = run_gradient(rows, x, labels, *loss.compiled, w)
    same(again[0], s0)
    same(again[1], s1)


def test_a_given_gamma_of_one_gives_the_gradient_of_kmeans(chunks):
    rows, x, w = chunks
    labels, s0, s1, _ = run_assign(rows, x, 0, 4, kernels.KMEANS, 0.0, w)
    given = run_gradient(rows, x, labels, kernels.GIVEN, 0.0, w, np.ones(280))
    same(given[0], s0)
    same(given[1], s1)


@pytest.mark.parametrize(("first", "last"), [(0, 4), (1, 3), (3, 4)])
def test_own_distance2_is_the_plain_squared_distance_to_the_own_center(chunks, first, last):
    rows, x, _ = chunks
    labels = np.random.default_rng(1).integers(0, 4, 280).astype(np.int32)
    r2 = np.empty(STOP[last - 1] - START[first])
    kernels.own_distance2(first, last, rows, CHUNKS, x, labels, r2)
    expected = [
        squares(rows[row : row + 1], x[OWNER[t]])[0, labels[row]]
        for t in range(first, last)
        for row in range(START[t], STOP[t])
    ]
    same(r2, np.array(expected))


@pytest.mark.parametrize("weighted", [False, True])
def test_weighted_sum_adds_the_chunks_of_a_user_in_order(chunks, weighted):
    _, _, w = chunks
    values = np.random.default_rng(1).normal(size=280)
    out = np.zeros(3)
    kernels.weighted_sum(0, 4, values, w if weighted else NONE, 0.3, CHUNKS, out)
    expected = np.zeros(3)
    for t in range(4):
        total = 0.0
        for row in range(START[t], STOP[t]):
            total += (w[row] if weighted else 0.3) * values[row]
        expected[OWNER[t]] += total
    same(out, expected)
    parts = np.zeros(3)
    for t in range(4):
        here = values[START[t] : STOP[t]].copy()
        kernels.weighted_sum(t, t + 1, here, w if weighted else NONE, 0.3, CHUNKS, parts)
    same(parts, out)


@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_by_user_adds_the_chunks_of_a_user_in_order(shape):
    parts = np.random.default_rng(0).normal(size=(4, *shape))
    out = np.zeros((3, *shape))
    kernels.by_user(OWNER, parts, out)
    same(out[0], 0.0 + parts[0])
    same(out[1], np.zeros(shape))
    same(out[2], ((0.0 + parts[1]) + parts[2]) + parts[3])
