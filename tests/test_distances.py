from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist

from instances import DISTANCES, spd
from peerclust.distances import Euclidean, Linear, Mahalanobis, resolve
from peerclust.errors import ParameterError

SIZES = [1, 2, 3, 7, 20]
sizes = pytest.mark.parametrize("d", SIZES)
distances = pytest.mark.parametrize("distance", DISTANCES, ids=repr)


def matrix_of(distance, d):
    """A of a distance from the tests' own list."""
    return spd(d) if isinstance(distance, Mahalanobis) else np.eye(d)


@distances
@sizes
def test_forward_turns_the_distance_into_the_euclidean_one(distance, d):
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(2, 30, d))
    measure = distance(d)
    A = matrix_of(measure, d)
    r2 = ((measure.forward(x) - measure.forward(y)) ** 2).sum(axis=1)
    expected = [(a - b) @ A @ (a - b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(r2, expected, rtol=1e-12)
    np.testing.assert_allclose(
        np.sqrt(r2), np.diagonal(cdist(x, y, "mahalanobis", VI=A)), rtol=1e-12
    )


@distances
@sizes
def test_back_of_forward_multiplies_by_A(distance, d):
    v = np.random.default_rng(d).normal(size=(30, d))
    measure = distance(d)
    np.testing.assert_allclose(
        measure.back(measure.forward(v)), v @ matrix_of(measure, d), rtol=1e-12, atol=1e-13
    )


@distances
@sizes
def test_largest_is_the_largest_eigenvalue_of_A(distance, d):
    measure = distance(d)
    expected = np.linalg.norm(matrix_of(measure, d), ord=2)
    assert measure.largest == pytest.approx(expected, rel=1e-13)


@distances
def test_points_of_any_shape_are_taken_one_by_one(distance):
    measure = distance(3)
    points = np.random.default_rng(0).normal(size=(4, 5, 3))
    for function in (measure.forward, measure.back):
        together = function(points)
        assert together.shape == points.shape
        for i in range(4):
            for k in range(5):
                np.testing.assert_array_equal(together[i, k], function(points[i, k]))
        np.testing.assert_array_equal(function(points[:0]), np.empty((0, 5, 3)))


@distances
def test_points_in_any_memory_order_are_transformed_alike(distance):
    measure = distance(3)
    points = np.random.default_rng(0).normal(size=(6, 3))
    for function in (measure.forward, measure.back):
        expected = function(points)
        np.testing.assert_array_equal(function(np.asfortranarray(points)), expected)
        np.testing.assert_array_equal(function(np.repeat(points, 2, axis=0)[::2]), expected)


@distances
def test_points_are_not_written_to(distance):
    measure = distance(3)
    points = np.random.default_rng(0).normal(size=(6, 3))
    before = points.copy()
    measure.back(measure.forward(points))
    np.testing.assert_array_equal(points, before)


def test_euclidean_points_are_not_copied():
    points = np.zeros((4, 2), np.float32)
    assert Euclidean().forward(points) is points
    assert Euclidean().back(points) is points


def test_mahalanobis_transforms_single_precision_points_in_double():
    points = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    moved = Mahalanobis(spd(3)).forward(points)
    assert moved.dtype == np.float64
    np.testing.assert_array_equal(moved, Mahalanobis(spd(3)).forward(points.astype(np.float64)))


def test_mahalanobis_with_the_identity_is_euclidean_to_the_last_bit():
    points = np.random.default_rng(0).normal(size=(50, 4))
    measure = Mahalanobis(np.eye(4))
    np.testing.assert_array_equal(measure.forward(points), points)
    np.testing.assert_array_equal(measure.back(points), points)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 6), scale=st.floats(-12, 12))
def test_mahalanobis_of_any_scale_agrees_with_the_quadratic_form(seed, d, scale):
    A = spd(d, seed) * 10.0**scale
    x = np.random.default_rng(seed).normal(size=d)
    moved = Mahalanobis(A).forward(x)
    assert moved @ moved == pytest.approx(x @ A @ x, rel=1e-12)


def test_A_is_copied_and_cannot_be_written_to():
    given_A = spd(3)
    measure = Mahalanobis(given_A)
    point = np.ones(3)
    before = measure.forward(point).copy()
    given_A[0, 0] = 1e6
    np.testing.assert_array_equal(measure.A, spd(3))
    np.testing.assert_array_equal(measure.forward(point), before)
    with pytest.raises(ValueError, match="read-only"):
        measure.A[0, 0] = 2.0


def test_A_as_a_list_or_of_integers_is_taken():
    for A in ([[2, 1], [1, 2]], np.array([[2, 1], [1, 2]]), ((2.0, 1.0), (1.0, 2.0))):
        np.testing.assert_array_equal(Mahalanobis(A).A, np.array([[2.0, 1.0], [1.0, 2.0]]))


@pytest.mark.parametrize("seed", range(20))
def test_an_inverted_covariance_is_symmetric_enough(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(200, 30))
    rows[:, 1] = rows[:, 0] + 0.01 * rows[:, 1]  # almost the same feature twice
    rows *= 10.0 ** rng.uniform(-2, 2, size=30)  # in other units
    A = np.linalg.inv(np.cov(rows.T))
    kept = np.asarray(Mahalanobis(A).A)
    np.testing.assert_array_equal(kept, kept.T)
    np.testing.assert_allclose(kept, A, rtol=0, atol=1e-9 * np.abs(A).max())


@pytest.mark.parametrize(
    ("A", "message"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "must be symmetric"),
        ([[2.0, 1.0], [0.0, 2.0]], "must be symmetric"),
        ([[1.0, 1e-3], [0.0, 1.0]], "must be symmetric"),
        ([[1e6, 1e-3], [0.0, 1e-6]], "must be symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "must be positive definite. .* smallest eigenvalue is -1"),
        ([[1.0, 1.0], [1.0, 1.0]], "must be positive definite"),
        ([[1.0, 0.0], [0.0, 0.0]], "must be positive definite"),
        ([[0.0]], "must be positive definite"),
        ([[-1.0]], "must be positive definite"),
        ([[1.0, 1.0 - 2e-16], [1.0 - 2e-16, 1.0]], "must be positive definite"),
        ([[np.nan, 0.0], [0.0, 1.0]], "must be finite"),
        ([[1.0, np.nan], [np.nan, 1.0]], "must be finite"),
        ([[np.inf, 0.0], [0.0, 1.0]], "must be finite"),
        ([[1.0, 0.0]], r"must be a square matrix. Got shape \(1, 2\)"),
        ([1.0, 2.0], r"must be a square matrix. Got shape \(2,\)"),
        (3.0, r"must be a square matrix. Got shape \(\)"),
        (np.empty((0, 0)), r"must be a square matrix. Got shape \(0, 0\)"),
        (np.ones((2, 2, 2)), "must be a square matrix"),
        ("matrix", "must be a matrix of numbers"),
        (None, "must be"),
        ([[1.0], [1.0, 2.0]], "must be a matrix of numbers"),
        ([["a", "b"], ["c", "d"]], "must be a matrix of numbers"),
        ([[1.0, 1j], [-1j, 1.0]], "must be a matrix of numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "A",
)
def test_a_matrix_that_gives_no_distance_is_refused(A, message):
    with pytest.raises(ParameterError, match=f"`A` of Mahalanobis {message}"):
        Mahalanobis(A)


@sizes
def test_check_refuses_rows_with_another_number_of_features(d):
    measure = Mahalanobis(spd(3))
    if d == 3:
        measure.check(d)
        return
    with pytest.raises(ParameterError) as error:
        measure.check(d)
    assert str(error.value) == (
        f"`A` of Mahalanobis must be ({d}, {d}) for rows with {d} features. Got (3, 3)."
    )


@sizes
def test_euclidean_fits_any_number_of_features(d):
    Euclidean().check(d)


@distances
def test_a_distance_survives_a_copy(distance):
    measure = distance(3)
    points = np.random.default_rng(0).normal(size=(6, 3))
    for twin in (pickle.loads(pickle.dumps(measure)), copy.deepcopy(measure)):
        np.testing.assert_array_equal(twin.forward(points), measure.forward(points))
        np.testing.assert_array_equal(twin.back(points), measure.back(points))
        assert twin.largest == measure.largest


@distances
def test_a_distance_resolves_to_itself(distance):
    measure = distance(2)
    assert resolve(measure) is measure


def test_the_name_euclidean_stands_for_the_euclidean_distance():
    assert resolve("euclidean") == Euclidean()


@pytest.mark.parametrize(
    ("wrong", "right"), [("euclidian", "euclidean"), ("mahalonobis", "mahalanobis")]
)
def test_an_unknown_name_is_answered_with_the_nearest_one(wrong, right):
    with pytest.raises(ParameterError) as error:
        resolve(wrong, of="DGC")
    assert str(error.value) == (
        "`distance` of DGC must be one of 'euclidean', 'mahalanobis'."
        f" Got {wrong!r}. Did you mean {right!r}?"
    )


def test_mahalanobis_by_name_alone_is_refused_for_want_of_its_matrix():
    with pytest.raises(ParameterError, match=r"must be Mahalanobis\(A\) with its matrix A"):
        resolve("mahalanobis")


@pytest.mark.parametrize("wrong", [None, 2, np.eye(2), Euclidean, Mahalanobis, len], ids=repr)
def test_what_is_no_distance_is_refused(wrong):
    with pytest.raises(ParameterError, match=r"must be 'euclidean', Mahalanobis\(A\) or an object"):
        resolve(wrong)


@distances
@sizes
def test_curvatures_are_the_ends_of_the_spectrum_of_A(distance, d):
    geometry, values = Linear(distance(d)), np.linalg.eigvals(matrix_of(distance(d), d)).real
    for x in (np.zeros((2, 3, d)), np.ones((1, 1, d))):
        assert geometry.smallest_curvature(x) == pytest.approx(values.min(), rel=1e-10)
        assert geometry.largest_curvature(x) == pytest.approx(values.max(), rel=1e-10)


class Flat:
    """A distance of one's own that does not see the second feature."""

    largest = 4.0

    def check(self, d):
        pass

    def forward(self, points):
        return points * np.array([2.0, 0.0])

    back = forward


def test_a_distance_that_does_not_see_a_direction_has_no_curvature_there():
    geometry = Linear(resolve(Flat()))
    assert geometry.smallest_curvature(np.zeros((1, 1, 2))) == 0.0
    assert geometry.largest_curvature(np.zeros((1, 1, 2))) == 4.0
