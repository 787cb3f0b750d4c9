"""Compiled loops over centers: products, gradient steps, sums over neighbors; boxes of rows."""

from __future__ import annotations

import numpy as np
import pytest

from peerclust import graphs, kernels
from peerclust.kernels import TILE
from reference_impl import same


@pytest.mark.parametrize("d", [1, 2, 9])
@pytest.mark.parametrize("matrices", [1, 6])
def test_matvec_multiplies_each_vector_by_its_matrix(matrices, d):
    rng = np.random.default_rng(d)
    v, matrix = rng.normal(size=(12, d)), rng.normal(size=(matrices, d, d))
    out = np.empty_like(v)
    kernels.matvec(v, matrix, out)
    for i in range(12):
        np.testing.assert_allclose(out[i], v[i] @ matrix[i % matrices], rtol=1e-12, atol=1e-13)
        ordered = np.zeros(d)
        for e in range(d):
            ordered += v[i, e] * matrix[i % matrices][e]
        same(out[i], ordered)


@pytest.mark.parametrize("d", [1, 3, 4, 9, 64])
@pytest.mark.parametrize("alpha", [0.03, 0.0])
def test_gradient_step_takes_the_step_that_numpy_computes(alpha, d):
    rng = np.random.default_rng(d)
    x, s1, total = rng.normal(size=(3, 5, 3, d))
    s0, degree = rng.uniform(0, 9, (5, 3)), np.array([0.0, 1.0, 2.0, 3.0, 0.0])
    H, stiffness = rng.uniform(0, 9, (5, 3)), rng.uniform(0.5, 9, (5, 3))
    H[0, 1], H[2, 0] = 0.0, 0.0
    rho, _, factor = step = 7.0, alpha, 0.5
    gradient = (s0[..., None] * x - s1) * (1.0 / rho) + (degree[:, None, None] * x - total) * factor
    out, residual, alphas = np.zeros_like(x), np.zeros(5), np.full((5, 3), np.nan)
    flat = [each.reshape(5, -1) for each in (x, s1, total, out)]
    for first, last in ((0, 2), (2, 5)):
        kernels.gradient_step(
            first, last, flat[0], s0, flat[1], H, (flat[2], degree), step, stiffness,
            (flat[3], residual, alphas),
        )  # fmt: skip
    same(out, x - alphas[..., None] * gradient)
    expected = np.full((5, 3), alpha)
    if alpha == 0:
        for i, k in np.ndindex(5, 3):
            bend = H[i, k] / rho + 2 * factor * degree[i]
            # Of a center that nothing moves the step does not matter.
            expected[i, k] = 1 / bend if bend > 0 else 0.0
        assert expected[0, 1] == 0
    np.testing.assert_allclose(alphas, expected, rtol=1e-15)
    far = rho * np.linalg.norm(gradient, axis=2) / stiffness
    np.testing.assert_allclose(residual, far.max(axis=1), rtol=1e-14)


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("alpha", [0.1, 0.0])
def test_gradient_step_reports_a_center_that_is_not_finite(k, value, alpha):
    x = np.ones((2, 6))
    x[1, 2 * k] = value
    none, residual = np.zeros((2, 3)), np.zeros(2)
    kernels.gradient_step(
        0, 2, x, none, np.zeros_like(x), none, (np.zeros_like(x), np.ones(2)), (1.0, alpha, 1.0),
        np.ones((2, 3)), (np.empty_like(x), residual, np.empty((2, 3))),
    )  # fmt: skip
    assert np.isfinite(residual).tolist() == [True, False]


@pytest.mark.parametrize("d", [1, 4, 7])
def test_extrapolate_takes_nesterovs_step_that_numpy_computes(d):
    rng = np.random.default_rng(d)
    y, stepped, x = rng.normal(size=(3, 6, 3, d)) * np.array([1.0, 0.1, 1.0])[:, None, None, None]
    t, softness = rng.uniform(1, 9, (6, 3)), rng.uniform(0, 5, (6, 3))
    out, later, residual = np.empty_like(y), np.empty((6, 3)), np.empty(6)
    for first, last in ((0, 2), (2, 6)):
        kernels.nesterov_extrapolate(first, last, y, stepped, x, t, softness, out, later, residual)
    restarts = 0
    far = np.empty((6, 3))
    for i, k in np.ndindex(6, 3):
        went = stepped[i, k] - x[i, k]
        uphill = (y[i, k] - stepped[i, k]) @ went > 0
        restarts += uphill
        now = 1.0 if uphill else t[i, k]
        after = (1 + np.sqrt(1 + 4 * now**2)) / 2
        np.testing.assert_allclose(later[i, k], after, rtol=1e-14)
        expected = stepped[i, k] + (now - 1) / after * went
        np.testing.assert_allclose(out[i, k], expected, rtol=1e-13, atol=1e-14)
        far[i, k] = softness[i, k] * np.linalg.norm(expected - stepped[i, k])
    assert 0 < restarts < 18
    np.testing.assert_allclose(residual, far.max(axis=1), rtol=1e-12)


@pytest.mark.parametrize("at", [(0, 0), (2, 7), (1, 3)])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.0 + 1e-15, -1.0 - 1e-15])
def test_all_in_box_finds_one_number_outside(at, value):
    x = np.random.default_rng(0).uniform(-1, 1, (3, 8))
    x[0, :2] = -1.0, 1.0
    low, high = -np.ones(8), np.ones(8)
    assert kernels.all_in_box(x, low, high)
    x[at] = value
    assert not kernels.all_in_box(x, low, high)


@pytest.mark.parametrize("name", ["ring", "star", "path", "complete"])
def test_sum_neighbors_is_the_product_with_the_adjacency_matrix_to_the_last_bit(name):
    graph = graphs.resolve(name, 12)
    x = np.random.default_rng(0).normal(size=(12, 5))
    total = np.full((12, 5), np.nan)
    for first, last in ((0, 7), (7, 12)):
        kernels.sum_neighbors(first, last, graph.indptr, graph.indices, x, total)
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
    middle = kernels.split_median(moved, order, 0, 5000)
    if kind != "same":
        j = np.argmax(np.ptp(rows, axis=0))
        assert middle == 39 * TILE
        assert moved[:middle, j].max() <= moved[middle:, j].min()
    kernels.sort_into_boxes(0, 1, moved, order, np.array([0]), np.array([5000]))
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    same(moved, rows[order])
    begin = np.append(np.arange(0, 5000, TILE), 5000)
    mid, half = np.empty((2, 79, 2))
    kernels.transpose_boxes(moved, begin, mid, half)
    for b in range(79):
        here = rows[order[begin[b] : begin[b + 1]]]
        same(moved.reshape(-1)[2 * begin[b] : 2 * begin[b + 1]].reshape(2, -1), here.T.copy())
        assert (np.abs(here.astype(np.float64) - mid[b]) <= half[b]).all()
    if kind == "normal":
        # With rows in their original order, a box would be as wide as all rows together.
        assert np.median(half) < 0.15 * np.ptp(rows, axis=0).min()
