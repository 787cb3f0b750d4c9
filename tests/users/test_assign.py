"""Assignment of rows: to the nearest center, ties to the first, counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from all_pairs import by_pairs
from instances import (
    BREGMANS,
    DISTANCES,
    LOSSES,
    OBJECTIVES,
    SHAPES,
    SIZES,
    random_block,
)
from peerclust import kernels
from peerclust.distances import Euclidean, Mahalanobis
from peerclust.losses import Huber
from peerclust.users import Users
from peerclust.users.nearest import nearest
from reference_impl import of_each_user, same, scores, squares

shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


distances = pytest.mark.parametrize("distance", DISTANCES, ids=repr)


bregmans = pytest.mark.parametrize("bregman", BREGMANS, ids=repr)


objectives = pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)


@by_pairs(shape=SHAPES, dtype=[np.float64, np.float32], loss=LOSSES)
def test_assign_is_argmin_of_plain_squared_distances_to_the_last_bit(shape, dtype, loss):
    rows, offsets, x = random_block(*shape, dtype=dtype)
    labels = Users(rows, offsets, loss=loss).assign(x).labels
    assert labels.dtype == np.int32
    for i, mine in of_each_user(rows, offsets):
        np.testing.assert_array_equal(
            labels[offsets[i] : offsets[i + 1]], squares(mine, x[i]).argmin(axis=1)
        )


@shapes
@objectives
def test_assign_takes_the_center_of_least_loss(shape, objective):
    d = shape[1]
    rows, offsets, x = random_block(*shape)
    users = Users(rows, offsets, **objective(d))
    labels = users.assign(x).labels
    for i, mine in of_each_user(rows, offsets):
        found = scores(mine, x[i], users.loss, users.distance)
        own = found[np.arange(len(mine)), labels[offsets[i] : offsets[i + 1]]]
        # rounding may turn the order of two centers that are as near as makes no difference
        assert (own <= found.min(axis=1, initial=np.inf) * (1 + 1e-12) + 1e-12).all()


@pytest.mark.parametrize("chunk_rows", [16, kernels.CHUNK_ROWS])
@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data(), d=st.integers(1, 3), K=st.integers(1, 5))
def test_of_equally_near_centers_the_first_is_taken(chunk_rows, data, d, K):
    # On a small lattice most rows have several nearest centers, and many centers are the same.
    point = st.lists(st.integers(-2, 2), min_size=d, max_size=d)
    sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=4))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n = int(offsets[-1])
    rows = np.array(data.draw(st.lists(point, min_size=n, max_size=n)), int).reshape(n, d)
    x = np.array([data.draw(st.lists(point, min_size=K, max_size=K)) for _ in sizes])
    # Doubling the first feature (A = diag(4, 1, ...)) is exact too.
    double = Mahalanobis(np.diag([4.0] + [1.0] * (d - 1)))
    for distance, stretch in ((Euclidean(), 1), (double, 2)):
        unit = np.array([stretch] + [1] * (d - 1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "CHUNK_ROWS", chunk_rows)
            users = Users(rows.astype(np.float64), offsets, distance=distance)
            labels = users.assign(x.astype(np.float64)).labels
        for i in range(len(sizes)):
            here = slice(offsets[i], offsets[i + 1])
            exact = (((rows[here, None] - x[i]) * unit) ** 2).sum(axis=2)
            np.testing.assert_array_equal(labels[here], exact.argmin(axis=1))


@bregmans
def test_a_bregman_loss_gives_doubled_centers_to_the_first(bregman):
    rows, offsets, x = random_block(SIZES, 2, 6)
    x[:, 3:] = x[:, :3]
    users = Users(rows, offsets, loss=bregman(2))
    assert set(users.assign(x).labels) == {0, 1, 2}


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), shift=st.integers(-1000, 1000))
def test_moving_rows_and_centers_together_changes_nothing(seed, shift):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-50, 50, size=(60, 2)).astype(np.float64)
    x = rng.integers(-50, 50, size=(2, 3, 2)).astype(np.float64)
    offsets = np.array([0, 25, 60])
    before, after = (
        Users(rows, offsets, loss=Huber(9.0)),
        Users(rows + shift, offsets, loss=Huber(9.0)),
    )
    first, second = before.assign(x), after.assign(x + shift)
    same(first.labels, second.labels)
    np.testing.assert_allclose(
        before.gradient(first, x), after.gradient(second, x + shift), atol=1e-9
    )
    same(before.cost(first, x), after.cost(second, x + shift))


@losses
@distances
def test_naming_the_centers_in_another_order_only_renames_the_labels(loss, distance):
    rows, offsets, x = random_block(SIZES, 3, 5)
    order = np.array([3, 0, 4, 1, 2])
    one, other = (Users(rows, offsets, loss=loss, distance=distance(3)) for _ in range(2))
    renamed = x[:, order]
    first, second = one.assign(x), other.assign(renamed)
    np.testing.assert_array_equal(order[second.labels], first.labels)
    same(one.gradient(first, x)[:, order], other.gradient(second, renamed))
    same(one.cost(first, x), other.cost(second, renamed))


def test_changed_counts_the_labels_that_the_last_assignment_changed():
    rows, offsets, x = random_block(SIZES, 2, 4)
    users = Users(rows, offsets)
    first = users.assign(x)
    assert first.changed == len(rows)
    before = first.labels
    second = users.assign(x.copy(), first)
    assert second.changed == 0
    # The second and third center change names.
    third = users.assign(x[:, [0, 2, 1, 3]].copy(), second)
    assert third.changed == np.count_nonzero((before == 1) | (before == 2)) > 0
    assert third.changed == np.count_nonzero(third.labels != before)


def test_changed_counts_the_rows_of_all_chunks(monkeypatch):
    monkeypatch.setattr(kernels, "CHUNK_ROWS", 16)
    rows, offsets, x = random_block(SIZES, 2, 3)
    users = Users(rows, offsets)
    first = users.assign(x)
    assert first.changed == len(rows)
    second = users.assign(x + np.random.default_rng(0).normal(size=x.shape), first)
    assert second.changed == np.count_nonzero(second.labels != first.labels) > 0


@shapes
@objectives
def test_nearest_finds_the_labels_that_assign_gives(shape, objective):
    d = shape[1]
    rows, offsets, x = random_block(*shape)
    x[:] = x[0]
    users = Users(rows, offsets, **objective(d))
    labels, _ = users.nearest(x[0])
    same(labels, users.assign(x).labels)
    again, _ = nearest(rows, x[0], users.geometry)
    same(again, labels)
