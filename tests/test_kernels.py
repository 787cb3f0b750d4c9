from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from instances import LOSSES
from peerclust import graphs, kernels
from peerclust.kernels import TILE
from peerclust.users.assigners import no_sums
from plain import same

NONE = np.empty(0)
NO_SLOPE, NO_OFFSET = np.empty((0, 0, 0)), np.empty((0, 0))
compiled = [loss for loss in LOSSES if hasattr(loss, "compiled")]

# Three users, the second without rows; the third in three tasks.
OWNER = np.array([0, 2, 2, 2])
START = np.array([0, 70, 200, 265])
STOP = np.array([70, 200, 265, 280])


def squares(rows, x):
    """Squared distances (N, K), added up feature by feature from the first, in plain numpy."""
    total = np.zeros((len(rows), len(x)))
    for j in range(x.shape[1]):
        step = rows[:, j, None].astype(np.float64) - x[:, j]
        total += step * step
    return total


def run_nearest(rows, x, first=0, last=None):
    labels = np.full(len(rows), -7, np.int32)
    r2 = np.full(len(rows), -7.0)
    end = len(rows) if last is None else last
    kernels.nearest(rows, first, end, x, np.empty((0, 0)), np.empty(0), labels, r2)
    return labels, r2


def run_assign(rows, x, first, last, code, parameter, weights=NONE):
    labels, changed = np.full(len(rows), -7, np.int32), np.full(4, -7)
    sums = no_sums(4, *x.shape[1:])
    kernels.assign(
        rows, weights, 1.0, OWNER, START, STOP, first, last, x, NO_SLOPE, NO_OFFSET,
        code, parameter, labels, sums, changed,
    )  # fmt: skip
    return labels, sums.hi0, sums.hi1, changed


def run_pull(rows, x, labels, code, parameter, weights, given=NONE):
    sums = no_sums(4, *x.shape[1:])
    kernels.pull(
        rows, weights, 1.0, OWNER, START, STOP, 0, 4, x, labels, code, parameter, given, sums
    )
    return sums.hi0, sums.hi1


@pytest.fixture
def tasks():
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


def test_nearest_leaves_rows_outside_its_stretch_alone():
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
def test_assign_sums_weights_and_rows_of_each_cluster_of_each_task(tasks, loss, weighted):
    rows, x, w = tasks
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
def test_tasks_one_by_one_give_what_they_give_together(tasks, loss):
    rows, x, w = tasks
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
def test_pull_at_the_same_centers_repeats_the_sums_of_assign_to_the_last_bit(tasks, loss):
    rows, x, w = tasks
    labels, s0, s1, _ = run_assign(rows, x, 0, 4, *loss.compiled, w)
    again = run_pull(rows, x, labels, *loss.compiled, w)
    same(again[0], s0)
    same(again[1], s1)


def test_a_given_gamma_of_one_pulls_as_kmeans_does(tasks):
    rows, x, w = tasks
    labels, s0, s1, _ = run_assign(rows, x, 0, 4, kernels.KMEANS, 0.0, w)
    given = run_pull(rows, x, labels, kernels.GIVEN, 0.0, w, np.ones(280))
    same(given[0], s0)
    same(given[1], s1)


@pytest.mark.parametrize(("first", "last"), [(0, 4), (1, 3), (3, 4)])
def test_own_r2_is_the_plain_squared_distance_to_the_own_center(tasks, first, last):
    rows, x, _ = tasks
    labels = np.random.default_rng(1).integers(0, 4, 280).astype(np.int32)
    r2 = np.empty(STOP[last - 1] - START[first])
    kernels.own_r2(rows, OWNER, START, STOP, first, last, x, labels, r2)
    expected = [
        squares(rows[row : row + 1], x[OWNER[t]])[0, labels[row]]
        for t in range(first, last)
        for row in range(START[t], STOP[t])
    ]
    same(r2, np.array(expected))


@pytest.mark.parametrize("weighted", [False, True])
def test_weighted_sum_adds_the_tasks_of_a_user_in_order(tasks, weighted):
    _, _, w = tasks
    values = np.random.default_rng(1).normal(size=280)
    out = np.zeros(3)
    kernels.weighted_sum(values, w if weighted else NONE, 0.3, OWNER, START, STOP, 0, 4, out)
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
        kernels.weighted_sum(
            here, w if weighted else NONE, 0.3, OWNER, START, STOP, t, t + 1, parts
        )
    same(parts, out)


@pytest.mark.parametrize("shape", [(4,), (4, 3)])
def test_by_user_adds_the_tasks_of_a_user_in_order(shape):
    parts = np.random.default_rng(0).normal(size=(4, *shape))
    out = np.zeros((3, *shape))
    kernels.by_user(OWNER, parts, out)
    same(out[0], 0.0 + parts[0])
    same(out[1], np.zeros(shape))
    same(out[2], ((0.0 + parts[1]) + parts[2]) + parts[3])


@pytest.mark.parametrize("d", [1, 2, 9])
@pytest.mark.parametrize("matrices", [1, 6])
def test_times_multiplies_each_vector_by_its_matrix(matrices, d):
    rng = np.random.default_rng(d)
    v, matrix = rng.normal(size=(12, d)), rng.normal(size=(matrices, d, d))
    out = np.empty_like(v)
    kernels.times(v, matrix, out)
    for i in range(12):
        np.testing.assert_allclose(out[i], v[i] @ matrix[i % matrices], rtol=1e-12, atol=1e-13)
        ordered = np.zeros(d)
        for e in range(d):
            ordered += v[i, e] * matrix[i % matrices][e]
        same(out[i], ordered)


def hashes(rows):
    out = np.empty(len(rows), np.uint64)
    kernels.hashes(np.ascontiguousarray(rows), out)
    return out


@pytest.mark.parametrize("d", [1, 2, 5, 64])
def test_hashes_of_random_rows_all_differ(d):
    rows = np.random.default_rng(d).normal(size=(100_000, d))
    assert len(np.unique(hashes(rows))) == 100_000


def test_hashes_of_neighboring_numbers_and_lattice_points_all_differ():
    line = 1.0 + np.arange(50_000)[:, None] * np.finfo(float).eps
    assert len(np.unique(hashes(line))) == 50_000
    lattice = np.array(list(itertools.product(range(-9, 10), repeat=4)), dtype=np.float64)
    assert len(np.unique(hashes(lattice))) == len(lattice) == 19**4


def test_hashes_tell_the_order_of_features():
    rows = np.random.default_rng(0).normal(size=(1000, 2))
    assert (hashes(rows) != hashes(rows[:, ::-1])).all()
    assert (hashes(np.zeros((1, 2))) != hashes(np.zeros((1, 3)))).all()


def test_hashes_depend_on_a_row_s_values_alone():
    rows = np.random.default_rng(0).normal(size=(500, 3))
    order = np.random.default_rng(1).permutation(500)
    same(hashes(rows)[order], hashes(rows[order]))
    same(hashes(rows)[123:124], hashes(rows[123:124]))


def test_hashes_take_minus_zero_for_zero_and_single_precision_for_its_value():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0]])
    assert hashes(rows)[0] == hashes(rows)[1]
    single = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    same(hashes(single), hashes(single.astype(np.float64)))


def test_every_bit_of_a_hash_is_set_in_half_of_the_rows():
    # The order of the hashes stands for a random order of the rows.
    codes = hashes(np.arange(20_000, dtype=np.float64)[:, None])
    for bit in range(64):
        share = np.mean((codes >> np.uint64(bit)) & np.uint64(1))
        assert share == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("d", [1, 3, 4, 9, 64])
def test_descend_takes_the_step_that_numpy_computes(d):
    rng = np.random.default_rng(d)
    x, s1, total = rng.normal(size=(3, 5, 3, d))
    s0, degree = rng.uniform(0, 9, (5, 3)), rng.integers(0, 4, 5).astype(float)
    rho, alpha, factor = 7.0, 0.03, 0.5
    gradient = (s0[..., None] * x - s1) * (1.0 / rho) + (degree[:, None, None] * x - total) * factor
    out, size = np.zeros_like(x), np.zeros(5)
    flat = [each.reshape(5, -1) for each in (x, s1, total, out)]
    for first, last in ((0, 2), (2, 5)):
        kernels.descend(
            flat[0], s0, *flat[1:3], degree, first, last, rho, alpha, factor, flat[3], size
        )
    same(out, x - alpha * gradient)
    np.testing.assert_allclose(size, np.linalg.norm(gradient, axis=2).max(axis=1), rtol=1e-14)


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_descend_tells_of_a_center_that_is_not_finite(k, value):
    x = np.ones((2, 6))
    x[1, 2 * k] = value
    none, size = np.zeros((2, 3)), np.zeros(2)
    kernels.descend(
        x, none, np.zeros_like(x), np.zeros_like(x), np.ones(2), 0, 2, 1.0, 0.1, 1.0,
        np.empty_like(x), size,
    )  # fmt: skip
    assert np.isfinite(size).tolist() == [True, False]


@pytest.mark.parametrize("at", [(0, 0), (2, 7), (1, 3)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.0 + 1e-15, -1.0 - 1e-15])
def test_within_finds_one_number_outside(at, value):
    x = np.random.default_rng(0).uniform(-1, 1, (3, 8))
    x[0, :2] = -1.0, 1.0
    low, high = -np.ones(8), np.ones(8)
    assert kernels.within(x, low, high)
    x[at] = value
    assert not kernels.within(x, low, high)


@pytest.mark.parametrize("name", ["ring", "star", "path", "complete"])
def test_sum_neighbors_is_the_product_with_the_adjacency_matrix_to_the_last_bit(name):
    graph = graphs.resolve(name, 12)
    x = np.random.default_rng(0).normal(size=(12, 5))
    total = np.full((12, 5), np.nan)
    for first, last in ((0, 7), (7, 12)):
        kernels.sum_neighbors(graph.indptr, graph.indices, x, first, last, total)
    same(total, graph.adjacency @ x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["normal", "lattice", "sorted", "same"])
def test_rows_are_sorted_into_boxes_of_nearby_rows(kind, dtype):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5000, 2)).astype(dtype)
    if kind == "lattice":
        rows = np.round(rows)
    if kind == "sorted":
        rows = np.sort(rows, axis=0)
    if kind == "same":
        rows[:] = rows[0]
    moved, order = rows.copy(), np.arange(5000, dtype=np.int32)
    middle = kernels.halve(moved, order, 0, 5000)
    if kind != "same":
        j = np.argmax(np.ptp(rows, axis=0))
        assert middle == 39 * TILE
        assert moved[:middle, j].max() <= moved[middle:, j].min()
    kernels.sort_into_boxes(moved, order, np.array([0]), np.array([5000]), 0, 1)
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    same(moved, rows[order])
    begin = np.append(np.arange(0, 5000, TILE), 5000)
    mid, half = np.empty((2, 79, 2))
    kernels.lay_out(moved.reshape(-1), begin, 0, 79, mid, half)
    for b in range(79):
        here = rows[order[begin[b] : begin[b + 1]]]
        same(moved.reshape(-1)[2 * begin[b] : 2 * begin[b + 1]].reshape(2, -1), here.T.copy())
        assert (np.abs(here.astype(np.float64) - mid[b]) <= half[b]).all()
    if kind == "normal":
        # Of rows in any order a box would be as wide as all of them.
        assert np.median(half) < 0.15 * np.ptp(rows, axis=0).min()
