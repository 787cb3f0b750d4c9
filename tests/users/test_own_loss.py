"""A loss that a user of the library wrote."""

from __future__ import annotations

import numpy as np
import pytest

import peerclust as pc
from instances import (
    DISTANCES,
    LOSSES,
    SIZES,
    WEIGHTS,
    PseudoHuber,
    random_block,
)
from peerclust.users import Users
from reference_impl import same

losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


distances = pytest.mark.parametrize("distance", DISTANCES, ids=repr)


class HalfSquare:
    """K-means, written with numpy broadcasting in mind."""

    smoothness = 1.0

    def value(self, r2):
        return 0.5 * r2

    def gamma(self, r2):
        return 1.0


def test_a_gamma_that_is_one_number_counts_for_every_row():
    rows, offsets, x = random_block(SIZES, 3, 4)
    own, built_in = Users(rows, offsets, loss=HalfSquare()), Users(rows, offsets)
    first, second = own.assign(x), built_in.assign(x)
    same(own.gradient(first, x), built_in.gradient(second, x))
    same(own.cost(first, x), built_in.cost(second, x))


@pytest.mark.parametrize("member", ["gamma", "value"])
def test_a_loss_that_gives_too_few_numbers_is_an_error(member):
    rows, offsets, x = random_block(SIZES, 3, 4)
    loss = HalfSquare()
    setattr(loss, member, lambda r2: r2[:-1])
    users = Users(rows, offsets, loss=loss)
    assignment = users.assign(x)
    with pytest.raises(ValueError, match="broadcast"):
        (users.gradient if member == "gamma" else users.cost)(assignment, x)


class Hidden:
    """A built-in loss behind the three members that a user's own would have."""

    def __init__(self, loss):
        self.value, self.gamma, self.smoothness = loss.value, loss.gamma, loss.smoothness


@losses
@distances
def test_a_loss_of_the_user_s_own_does_what_the_same_built_in_does(loss, distance):
    rows, offsets, x = random_block(SIZES, 3, 4)
    w = WEIGHTS[-1](len(rows))
    own = Users(rows, offsets, weights=w, loss=Hidden(loss), distance=distance(3))
    built_in = Users(rows, offsets, weights=w, loss=loss, distance=distance(3))
    first, second = own.assign(x), built_in.assign(x)
    same(first.labels, second.labels)
    np.testing.assert_allclose(
        own.gradient(first, x), built_in.gradient(second, x), rtol=1e-12, atol=1e-12
    )
    same(own.cost(first, x), built_in.cost(second, x))


@pytest.mark.parametrize("solver", ["dgc", "accelerated", "admm", "exact"])
def test_three_members_are_all_that_cluster_needs_of_a_loss(solver):
    rows, classes = pc.datasets.iris()
    parts = [rows[i] for i in pc.partition.homogeneous(classes, 5, random_state=0)]
    given = {"n_clusters": 3, "solver": solver, "random_state": 0, "rounds": 40}
    if solver in ("dgc", "accelerated"):
        given["rho"] = 20.0
    own, built_in = (pc.cluster(parts, loss=loss, **given) for loss in (HalfSquare(), "kmeans"))
    np.testing.assert_allclose(own.centers, built_in.centers, rtol=1e-9)
    same(np.concatenate(own.labels), np.concatenate(built_in.labels))
    assert own.certificate.cost == pytest.approx(built_in.certificate.cost, rel=1e-9)
    same(own.predict(rows), built_in.predict(rows))


def test_a_frozen_loss_of_the_user_s_own_is_used_as_it_is():
    loss = PseudoHuber(0.7)
    assert Users(*random_block(SIZES, 2, 3)[:2], loss=loss).loss is loss
