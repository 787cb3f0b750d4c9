from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import kl_div

from instances import BREGMANS, spd
from peerclust.bregman import Bregman, generalized_kl, squared_euclidean, squared_mahalanobis
from peerclust.distances import Mahalanobis
from peerclust.errors import ParameterError
from peerclust.losses import KMeans
from reference_impl import slope

# f(x, y) of each in closed form, as others write it: no psi, no gradient
CLOSED = {
    "squared_euclidean": lambda x, y: 0.5 * ((x - y) ** 2).sum(axis=-1),
    "squared_mahalanobis": lambda x, y: (
        0.5 * np.einsum("...i,ij,...j", x - y, spd(x.shape[-1]), x - y)
    ),
    "generalized_kl": lambda x, y: kl_div(y, x).sum(axis=-1),
}
CONVEX_IN_X = ["squared_euclidean", "squared_mahalanobis"]

SIZES = [1, 2, 3, 9, 40]
sizes = pytest.mark.parametrize("d", SIZES)
bregmans = pytest.mark.parametrize("make", BREGMANS, ids=repr)


def points(d, *shape, seed=0):
    """Points in the domain of every loss."""
    return np.random.default_rng((seed, d)).uniform(0.2, 4.0, size=(*shape, d))


@bregmans
@sizes
def test_divergence_is_the_one_in_the_books(make, d):
    loss = make(d)
    x, y = points(d, 30), points(d, 30, seed=1)
    np.testing.assert_allclose(
        loss.divergence(x, y), CLOSED[loss.name](x, y), rtol=1e-11, atol=1e-12 * d
    )


@bregmans
def test_divergence_takes_points_that_broadcast(make):
    loss = make(3)
    x, y = points(3, 4, 1), points(3, 7, seed=1)
    together = loss.divergence(x, y)
    assert together.shape == (4, 7)
    for k in range(4):
        for r in range(7):
            assert together[k, r] == pytest.approx(float(loss.divergence(x[k, 0], y[r])), rel=1e-12)


@bregmans
@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data(), d=st.integers(1, 5))
def test_divergence_is_zero_at_the_row_and_positive_elsewhere(make, data, d):
    numbers = st.lists(st.floats(0.1, 100.0), min_size=d, max_size=d).map(np.array)
    x, y = data.draw(numbers), data.draw(numbers)
    loss = make(d)
    assert loss.divergence(y, y) == pytest.approx(0.0, abs=1e-10)
    if np.abs(x - y).max() > 1e-2:
        assert loss.divergence(x, y) > 0


@bregmans
@sizes
def test_gradient_matches_finite_differences_of_the_divergence(make, d):
    loss = make(d)
    x, y = points(d, 4, 3), points(d, 4, 3, seed=1)
    gradient = loss.back(x, x - y)
    for i in range(4):
        for k in range(3):
            numeric = slope(lambda at, to=y[i, k]: CLOSED[loss.name](at, to), x[i, k], step=2e-4)
            np.testing.assert_allclose(gradient[i, k], numeric, rtol=1e-8, atol=1e-8)


@bregmans
@sizes
def test_generator_gradient_and_hessian_are_derivatives_of_one_another(make, d):
    loss = make(d)
    x = points(d)
    np.testing.assert_allclose(
        loss.gradient(x), slope(lambda at: float(loss.psi(at)), x, 2e-4), rtol=1e-8, atol=1e-8
    )
    hessian = np.broadcast_to(loss.hessian(x), (d, d))
    for j in range(d):
        column = slope(lambda at, j=j: float(loss.gradient(at)[j]), x, 2e-4)
        np.testing.assert_allclose(hessian[j], column, rtol=1e-8, atol=1e-8)


@bregmans
@sizes
def test_back_multiplies_each_vector_by_the_hessian_at_its_own_center(make, d):
    loss = make(d)
    x, v = points(d, 4, 3), np.random.default_rng(d).normal(size=(4, 3, d))
    expected = np.einsum("ikab,ikb->ika", np.broadcast_to(loss.hessian(x), (4, 3, d, d)), v)
    np.testing.assert_allclose(loss.back(x, v), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(loss.back(x, np.asfortranarray(v)), loss.back(x, v))


@bregmans
@sizes
def test_scores_are_the_divergence_up_to_psi_of_the_row(make, d):
    loss = make(d)
    x, y = points(d, 5), points(d, 20, seed=1)
    centers, (slopes, offsets) = loss.place(x)
    np.testing.assert_array_equal(centers, x)
    assert slopes.shape == (5, d)
    assert offsets.shape == (5,)
    scores = offsets - y @ slopes.T
    expected = CLOSED[loss.name](x, y[:, None]) - loss.psi(y)[:, None]
    np.testing.assert_allclose(scores, expected, rtol=1e-11, atol=1e-11 * d)


@bregmans
def test_the_weighted_mean_costs_least_of_all_centers(make):
    # lm:bregman-cons-fp rests on this: for a Bregman loss the best center is the mean.
    loss = make(3)
    rng = np.random.default_rng(0)
    y, w = points(3, 50), rng.uniform(0.1, 2.0, 50)
    mean = np.average(y, axis=0, weights=w)
    least = w @ loss.divergence(mean, y)
    for _ in range(50):
        assert w @ loss.divergence(mean + rng.normal(size=3) * 0.1, y) > least


@sizes
def test_squared_euclidean_is_the_loss_of_kmeans(d):
    x, y = points(d, 30), points(d, 30, seed=1)
    expected = KMeans().value(((x - y) ** 2).sum(axis=-1))
    np.testing.assert_allclose(
        squared_euclidean().divergence(x, y), expected, rtol=1e-11, atol=1e-13 * d
    )
    assert squared_euclidean().smoothness == KMeans().smoothness


@sizes
def test_squared_mahalanobis_is_the_loss_of_kmeans_under_mahalanobis(d):
    x, y = points(d, 30), points(d, 30, seed=1)
    distance = Mahalanobis(spd(d))
    r2 = ((distance.forward(x) - distance.forward(y)) ** 2).sum(axis=-1)
    loss = squared_mahalanobis(spd(d))
    np.testing.assert_allclose(
        loss.divergence(x, y), KMeans().value(r2), rtol=1e-11, atol=1e-12 * d
    )
    assert loss.smoothness == pytest.approx(np.linalg.eigvalsh(spd(d))[-1], rel=1e-12)


def test_generalized_kl_takes_rows_with_zeros_without_a_warning():
    loss = generalized_kl(smoothness=1.0)
    x, y = points(3, 6), points(3, 6, seed=1)
    y[0] = 0.0
    y[1:, 1] = 0.0
    with np.errstate(all="raise"):
        np.testing.assert_allclose(
            loss.divergence(x, y), CLOSED["generalized_kl"](x, y), rtol=1e-12
        )


def test_generalized_kl_of_a_negative_row_is_infinite():
    loss = generalized_kl(smoothness=1.0)
    assert loss.divergence(np.ones(2), np.array([1.0, -1e-9])) == np.inf


def test_only_generalized_kl_is_outside_the_theory():
    within = {make(2).name: make(2).in_theory for make in BREGMANS}
    assert within == {
        "squared_euclidean": True,
        "squared_mahalanobis": True,
        "generalized_kl": False,
    }
    anything = Bregman(psi=np.sum, gradient=np.log, hessian=np.diag, smoothness=1.0)
    assert not anything.in_theory


@sizes
@pytest.mark.parametrize("make", [m for m in BREGMANS if m.name in CONVEX_IN_X], ids=repr)
def test_what_is_in_theory_is_the_square_of_a_metric_and_smooth(make, d):
    loss = make(d)
    x, y, z = points(d, 50), points(d, 50, seed=1), points(d, 50, seed=2)

    def g(a, b):
        return np.sqrt(loss.divergence(a, b))

    np.testing.assert_allclose(g(x, y), g(y, x), rtol=1e-9)
    assert (g(x, z) <= g(x, y) + g(y, z) + 1e-12).all()
    # the curvature in x is the eigenvalues of H, which is constant
    eigenvalues = np.linalg.eigvalsh(np.broadcast_to(loss.hessian(x[0]), (d, d)))
    assert eigenvalues[-1] == pytest.approx(loss.smoothness, rel=1e-12)
    assert eigenvalues[0] > 0


def test_generalized_kl_is_convex_in_its_center_but_symmetric_or_smooth_it_is_not():
    loss = generalized_kl(smoothness=1.0)
    one, two = np.array([1.0]), np.array([2.0])
    assert abs(loss.divergence(one, two) - loss.divergence(two, one)) > 0.05
    for x in np.geomspace(1e-3, 1e3, 61)[:, None]:
        step = 1e-3 * x
        around = loss.divergence(x - step, one) + loss.divergence(x + step, one)
        bend = (around - 2 * loss.divergence(x, one)) / step[0] ** 2
        assert bend == pytest.approx(1.0 / x[0] ** 2, rel=1e-3, abs=1e-6)


def test_the_domain_of_generalized_kl_is_above_zero():
    loss = generalized_kl(smoothness=1.0)
    assert loss.contains(np.array([[1.0, 2.0], [0.1, 1e-300]]))
    for outside in (0.0, -1.0, math.nan):
        assert not loss.contains(np.array([[1.0, 2.0], [0.1, outside]]))


@pytest.mark.parametrize("make", [m for m in BREGMANS if m.name in CONVEX_IN_X], ids=repr)
def test_a_loss_without_a_domain_is_defined_everywhere(make):
    assert make(2).contains(np.array([[-1.0, 1e150]]))


@bregmans
def test_points_are_not_written_to(make):
    loss = make(3)
    x, y = points(3, 4, 2), points(3, 4, 2, seed=1)
    x_before, y_before = x.copy(), y.copy()
    loss.divergence(x, y)
    loss.place(x)
    loss.back(x, y)
    np.testing.assert_array_equal(x, x_before)
    np.testing.assert_array_equal(y, y_before)


@pytest.mark.parametrize("smoothness", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_a_smoothness_that_is_no_positive_number_is_refused(smoothness):
    with pytest.raises(ParameterError, match="`smoothness` of Bregman must be a number > 0"):
        generalized_kl(smoothness=smoothness)


@pytest.mark.parametrize("member", ["psi", "gradient", "hessian"])
def test_a_generator_that_is_no_function_is_refused(member):
    functions = {"psi": np.sum, "gradient": np.log, "hessian": np.diag, member: 3.0}
    with pytest.raises(ParameterError, match=f"`{member}` of Bregman must be a function of points"):
        Bregman(**functions, smoothness=1.0)


def test_squared_mahalanobis_refuses_what_mahalanobis_refuses():
    with pytest.raises(ParameterError, match="must be symmetric"):
        squared_mahalanobis([[1.0, 0.5], [0.0, 1.0]])


@bregmans
@sizes
def test_curvatures_are_the_ends_of_the_spectrum_of_the_hessian(make, d):
    loss, x = make(d), points(d, 2, 3)
    smallest, largest = loss.smallest_curvature(x), loss.largest_curvature(x)
    assert smallest.shape == largest.shape == (2, 3)
    for at in np.ndindex(2, 3):
        # Columns of the Hessian of psi, by differences of its gradient.
        hessian = np.stack(
            [
                slope(lambda z, j=j: float(np.asarray(loss.gradient(z))[j]), x[at], 1e-3)
                for j in range(d)
            ]
        )
        values = np.linalg.eigvalsh((hessian + hessian.T) / 2)
        assert smallest[at] == pytest.approx(values[0], rel=1e-6)
        assert largest[at] == pytest.approx(values[-1], rel=1e-6)
