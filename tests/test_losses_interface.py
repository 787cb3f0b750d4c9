"""Losses as objects: what they take and refuse, names, copies, parameters."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

from instances import BREGMANS, LOSSES, PseudoHuber, spd
from peerclust import kernels
from peerclust.distances import Euclidean, Mahalanobis
from peerclust.errors import ParameterError
from peerclust.losses import (
    Fair,
    Huber,
    KMeans,
    Logistic,
    Loss,
    compiled_loss,
    geometry_of,
    resolve,
)

# 0, the smallest and the largest, and everything between
SQUARES = np.concatenate(([0.0], np.geomspace(1e-300, 1e300, 201), [4e-324, 1e-30, 1.0]))


losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


@losses
def test_numbers_lists_and_arrays_of_any_shape_are_taken(loss):
    squares = np.array([[0.0, 0.25, 1.0], [4.0, 30.0, 900.0]])
    for function in (loss.value, loss.gamma):
        flat = function(squares.ravel())
        np.testing.assert_array_equal(function(squares), flat.reshape(2, 3))
        assert [float(function(s)) for s in squares.ravel()] == flat.tolist()


@losses
def test_squared_distances_are_not_written_to(loss):
    squares = SQUARES.copy()
    loss.value(squares)
    loss.gamma(squares)
    np.testing.assert_array_equal(squares, SQUARES)


@losses
def test_every_loss_fits_the_protocol_and_resolves_to_itself(loss):
    assert isinstance(loss, Loss)
    assert resolve(loss) is loss


@pytest.mark.parametrize("make", BREGMANS, ids=repr)
def test_a_bregman_loss_fits_the_protocol_and_resolves_to_itself(make):
    loss = make(2)
    assert isinstance(loss, Loss)
    assert resolve(loss) is loss


@pytest.mark.parametrize("make", BREGMANS, ids=repr)
def test_a_bregman_loss_is_the_identity_of_its_divergence(make):
    loss = make(2)
    divergences = np.array([[0.0, 0.25], [4.0, 1e300]])
    np.testing.assert_array_equal(loss.value(divergences), divergences)
    np.testing.assert_array_equal(loss.gamma(divergences), np.ones((2, 2)))
    # The gradient is that of K-means after `back`, so its loop over rows is too.
    assert compiled_loss(loss) == compiled_loss(KMeans())


@pytest.mark.parametrize("make", BREGMANS, ids=repr)
def test_a_bregman_loss_is_its_own_geometry_and_takes_no_other_distance(make):
    loss = make(2)
    assert geometry_of(loss, Euclidean()) is loss
    with pytest.raises(ParameterError, match="`distance` of DGC must be left out with a Bregman"):
        geometry_of(loss, Mahalanobis(np.eye(2)), "DGC")


@losses
def test_the_geometry_of_a_radial_loss_is_its_distance(loss):
    rows = np.random.default_rng(0).normal(size=(5, 3))
    for distance in (Euclidean(), Mahalanobis(spd(3))):
        geometry = geometry_of(loss, distance)
        np.testing.assert_array_equal(geometry.forward(rows), distance.forward(rows))
        np.testing.assert_array_equal(geometry.back(rows, rows), distance.back(rows))
        centers, scores = geometry.place(rows)
        np.testing.assert_array_equal(centers, distance.forward(rows))
        assert (scores, geometry.divergence) == ((), None)
        assert geometry.in_theory
        values = np.linalg.eigvals(getattr(distance, "A", np.eye(3))).real
        for x in (rows, rows[None]):
            assert geometry.smallest_curvature(x) == pytest.approx(values.min(), rel=1e-12)
            assert geometry.largest_curvature(x) == pytest.approx(values.max(), rel=1e-12)
        assert geometry.contains(1e150 * rows)
        assert geometry.inside(rows).all()
    with pytest.raises(ParameterError, match=r"`A` of Mahalanobis must be \(2, 2\)"):
        geometry_of(loss, Mahalanobis(spd(3))).check_rows(rows[:, :2], "cluster")


def test_only_losses_with_a_formula_in_the_kernels_are_compiled():
    assert [compiled_loss(loss)[0] for loss in LOSSES] == [
        kernels.KMEANS,
        kernels.HUBER,
        kernels.HUBER,
        kernels.LOGISTIC,
        kernels.FAIR,
        kernels.FAIR,
        kernels.GIVEN,
    ]


@losses
def test_equal_losses_compare_equal_and_survive_a_copy(loss):
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert copy.deepcopy(loss) == loss
    assert hash(copy.copy(loss)) == hash(loss)


@pytest.mark.parametrize(
    ("name", "loss"),
    [("kmeans", KMeans()), ("huber", Huber(1.0)), ("logistic", Logistic()), ("fair", Fair(1.0))],
)
def test_a_name_stands_for_its_loss_with_defaults(name, loss):
    assert resolve(name) == loss


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("hubber", "huber"),
        ("Huber", "huber"),
        ("k-means", "kmeans"),
        ("logistik", "logistic"),
        ("fare", "fair"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_one(wrong, right):
    with pytest.raises(ParameterError) as error:
        resolve(wrong, of="DGC")
    assert str(error.value) == (
        "`loss` of DGC must be one of 'kmeans', 'huber', 'logistic', 'fair'."
        f" Got {wrong!r}. Did you mean {right!r}?"
    )


def test_a_name_near_none_gets_no_guess():
    with pytest.raises(ParameterError, match=r"Got 'zzzzzz'\.$"):
        resolve("zzzzzz")


class OnlyValue:
    def value(self, r2):
        return r2


class OnlyDivergence:
    smoothness = 1.0

    def divergence(self, x, y):
        return 0.0


@pytest.mark.parametrize(
    "loss",
    [None, 3, OnlyValue(), OnlyDivergence(), KMeans, Fair, PseudoHuber, np.square],
    ids=lambda loss: getattr(loss, "__name__", type(loss).__name__),
)
def test_what_is_no_loss_is_refused(loss):
    with pytest.raises(ParameterError, match="`loss` of cluster must be a name, a Bregman loss"):
        resolve(loss)


@pytest.mark.parametrize("smoothness", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_a_loss_without_a_usable_smoothness_is_refused(smoothness):
    loss = PseudoHuber()
    object.__setattr__(loss, "smoothness", smoothness)
    with pytest.raises(ParameterError, match="`smoothness` of PseudoHuber must be a number > 0"):
        resolve(loss)


@pytest.mark.parametrize(
    "wrong",
    [0, 0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 10**400, "1", None, True, [1.0], 1j],
    ids=lambda wrong: repr(wrong)[:8],
)
@pytest.mark.parametrize(("loss", "name"), [(Huber, "delta"), (Fair, "eta")])
def test_a_parameter_that_is_no_positive_number_is_refused(loss, name, wrong):
    message = f"`{name}` of {loss.__name__} must be "
    with pytest.raises(ParameterError, match=message):
        loss(wrong)


@pytest.mark.parametrize("number", [2, np.int64(2), np.float32(2.0), np.float64(2.0)], ids=repr)
@pytest.mark.parametrize(("loss", "name"), [(Huber, "delta"), (Fair, "eta")])
def test_a_parameter_of_any_real_kind_is_stored_as_a_float(loss, name, number):
    kept = getattr(loss(number), name)
    assert type(kept) is float
    assert kept == 2.0
