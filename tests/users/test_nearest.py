"""The nearest of common centers, and how far they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from all_pairs import by_pairs
from instances import (
    BREGMANS,
    DISTANCES,
    SHAPES,
    SIZES,
    random_block,
    spd,
)
from peerclust.bregman import Bregman, generalized_kl
from peerclust.distances import Euclidean, Mahalanobis
from peerclust.losses import Huber, KMeans, geometry_of
from peerclust.users import Users
from peerclust.users.nearest import measure, nearest
from reference_impl import same, scores

distances = pytest.mark.parametrize("distance", DISTANCES, ids=repr)


bregmans = pytest.mark.parametrize("bregman", BREGMANS, ids=repr)


@by_pairs(shape=SHAPES, dtype=[np.float64, np.float32], distance=DISTANCES)
def test_nearest_is_argmin_of_scipy_s_distances(shape, dtype, distance):
    d = shape[1]
    rows, offsets, x = random_block(*shape, dtype=dtype)
    users = Users(rows, offsets, loss=Huber(0.5), distance=distance(d))
    A = spd(d) if isinstance(users.distance, Mahalanobis) else np.eye(d)
    expected = cdist(rows.astype(np.float64), x[0], "mahalanobis", VI=A)
    labels, r2 = users.nearest(x[0])
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels, expected.argmin(axis=1))
    np.testing.assert_allclose(r2, expected.min(axis=1, initial=np.inf) ** 2, rtol=1e-10)


@bregmans
def test_nearest_under_a_bregman_loss_is_argmin_of_the_divergence(bregman):
    rows, offsets, x = random_block(SIZES, 3, 5)
    loss = bregman(3)
    expected = scores(rows, x[0], loss, None)
    labels, divergence = Users(rows, offsets, loss=loss).nearest(x[0])
    np.testing.assert_array_equal(labels, expected.argmin(axis=1))
    np.testing.assert_allclose(divergence, expected.min(axis=1), rtol=1e-10, atol=1e-12)
    assert (divergence >= 0).all()


@bregmans
def test_a_row_next_to_its_center_is_not_at_a_negative_divergence(bregman):
    # psi(y) - psi(x) - <grad psi(x), y - x> is a difference of large numbers here
    rows = 1000.0 * random_block([500], 3, 1)[0]
    loss = bregman(3)
    plain = [float(loss.divergence(row * (1 + 1e-9), row)) for row in rows]
    clipped = [nearest(row[None], row[None] * (1 + 1e-9), loss)[1][0] for row in rows]
    assert min(plain) < 0
    np.testing.assert_array_equal(clipped, np.maximum(plain, 0.0))


@distances
@pytest.mark.parametrize(
    "loss", [KMeans(), generalized_kl(smoothness=30.0)], ids=["kmeans", "generalized_kl"]
)
def test_rows_measured_in_batches_give_the_same_bits(loss, distance, monkeypatch):
    rng = np.random.default_rng(0)
    rows, centers = rng.uniform(1, 2, (700, 3)), rng.uniform(1, 2, (5, 3))
    geometry = geometry_of(loss, Euclidean() if isinstance(loss, Bregman) else distance(3))
    whole = *nearest(rows, centers, geometry), measure(rows, centers, geometry)
    monkeypatch.setattr("peerclust.users.nearest.BATCH_ROWS", 150)
    batches = *nearest(rows, centers, geometry), measure(rows, centers, geometry)
    for a, b in zip(batches, whole, strict=True):
        same(a, b)
    labels, r2, each = whole
    np.testing.assert_array_equal(each.argmin(axis=1), labels)
    same(each[np.arange(700), labels], r2)
    for k in range(5):
        same(each[:, k], nearest(rows, centers[k : k + 1], geometry)[1])


def test_nearest_keeps_the_labels_of_the_last_assignment():
    rows, offsets, x = random_block(SIZES, 2, 3)
    users = Users(rows, offsets)
    assignment = users.assign(x)
    users.nearest(x[0, ::-1])
    same(assignment.labels, Users(rows, offsets).assign(x).labels)
