"""Curvatures and weights of clusters, beside sums over rows; and what curvatures promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from all_pairs import by_pairs
from instances import DISTANCES, LOSSES, OBJECTIVES, SIZES, WEIGHTS, random_block
from peerclust import kernels
from peerclust.losses import Fair, Huber, KMeans, Logistic, curvature_ratio
from peerclust.users import Users
from reference_impl import largest_ratio, plain_curvature, plain_local_curvature, same


@by_pairs(
    objective=OBJECTIVES,
    weights=WEIGHTS,
    chunk_rows=[16, kernels.CHUNK_ROWS],
    latest=[True, False],
    sizes=[SIZES, [3, 0, 7, 15]],
)
def test_curvatures_are_plain_sums_over_rows(
    monkeypatch, objective, weights, chunk_rows, latest, sizes
):
    monkeypatch.setattr(kernels, "CHUNK_ROWS", chunk_rows)
    rows, offsets, x = random_block(sizes, 3, 4)
    w = weights(len(rows))
    users = Users(rows, offsets, weights=w, **objective(3))
    assignment = users.assign(x)
    labels = assignment.labels.copy()
    if not latest:
        users.assign(x[:, ::-1].copy())
    each = np.broadcast_to(w, len(rows))
    totals = users.label_weights(assignment, 4)
    for i in range(len(sizes)):
        here = slice(offsets[i], offsets[i + 1])
        for k in range(4):
            expected = math.fsum(each[here][labels[here] == k])
            assert totals[i, k] == pytest.approx(expected, rel=1e-14)
    # Where the rows were assigned, and where the centers have moved since.
    for at in (x, x + 0.1):
        plain = rows, offsets, labels, at, each, users.loss, users.distance
        bound, local = users.curvature(assignment, at), users.local_curvature(assignment, at)
        np.testing.assert_allclose(bound, plain_curvature(*plain), rtol=1e-12)
        np.testing.assert_allclose(local, plain_local_curvature(*plain), rtol=1e-12)
        assert (local <= bound * (1 + 1e-12)).all()


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_users_without_rows_have_no_curvature(objective):
    users = Users(np.empty((0, 2)), np.array([0, 0]), **objective(2))
    x = np.ones((1, 3, 2))
    assignment = users.assign(x)
    for found in (
        users.curvature(assignment, x),
        users.local_curvature(assignment, x),
        users.label_weights(assignment, 3),
    ):
        same(found, np.zeros((1, 3)))


def test_a_center_on_one_of_many_far_rows_has_little_local_curvature():
    # gamma is 1 at the row itself and 1e-3 at the others.
    rows = np.concatenate([np.zeros((1, 1)), np.full((9, 1), 1000.0)])
    users = Users(rows, np.array([0, 10]), loss=Huber(1.0))
    x = np.zeros((1, 1, 1))
    assignment = users.assign(x)
    assert users.curvature(assignment, x)[0, 0] == pytest.approx(1 + 9e-3)
    assert users.local_curvature(assignment, x)[0, 0] == pytest.approx(10 / math.sqrt(9e5))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_curvatures_of_far_rows_do_not_overflow_into_errors(loss, distance):
    rows = np.array([[1e150, -1e150], [-1e150, 1e150], [0.0, 0.0]])
    users = Users(rows, np.array([0, 3]), loss=loss, distance=distance(2))
    x = np.zeros((1, 1, 2))
    with np.errstate(over="ignore", invalid="ignore"):
        assignment = users.assign(x)
        found = users.curvature(assignment, x), users.local_curvature(assignment, x)
    assert np.isfinite(found).all()
    assert (np.array(found) >= 0).all()


def second_differences(loss, r):
    """h''(r) as differences of h' = gamma r."""
    step = 1e-6 * r

    def first(at):
        return np.asarray(loss.gamma(at * at)) * at

    return (first(r + step) - first(r - step)) / (2 * step)


@pytest.mark.parametrize("loss", [KMeans(), Huber(0.5), Logistic(), Fair(1.0), Fair(0.3)], ids=repr)
def test_the_curvature_ratio_is_the_largest_ratio_of_h_and_gamma(loss):
    r = np.geomspace(1e-4, 30.0, 20_001)
    ratio = second_differences(loss, r) / np.asarray(loss.gamma(r * r))
    # At the kink of the Huber loss a difference reads a mean of both sides.
    assert ratio.max() <= curvature_ratio(loss) * (1 + 1e-7)
    assert ratio.max() >= curvature_ratio(loss) * (1 - 1e-6)
    assert curvature_ratio(loss) == pytest.approx(largest_ratio(loss), rel=1e-15)


def test_a_custom_loss_has_no_ratio_of_its_own():
    assert curvature_ratio(LOSSES[-1]) == 1.0


concave = st.one_of(st.just(KMeans()), st.floats(1e-3, 1e3).map(Huber))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    loss=concave,
    seed=st.integers(0, 10_000),
    n=st.integers(1, 30),
    d=st.integers(1, 4),
    spread=st.floats(1e-3, 1e3),
    mahalanobis=st.booleans(),
    on_a_row=st.booleans(),
)
def test_a_step_over_the_curvature_never_raises_the_cost_of_kmeans_and_huber(
    loss, seed, n, d, spread, mahalanobis, on_a_row
):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, spread], (n, 1))
    distance = DISTANCES[mahalanobis](d)
    users = Users(
        rows, np.array([0, n]), weights=rng.uniform(0.1, 3.0, n), loss=loss, distance=distance
    )
    x = rng.normal(size=(1, 3, d)) * spread
    if on_a_row:
        x[0, 0] = rows[0]
    assignment = users.assign(x)
    H = users.curvature(assignment, x)[..., None]
    step = np.divide(users.gradient(assignment, x), H, out=np.zeros_like(x), where=H > 0)
    before, after = users.cost(assignment, x), users.cost(assignment, x - step)
    assert after <= before * (1 + 1e-12)


@pytest.mark.parametrize("loss", [Logistic(), Fair(0.5), Fair(3.0), LOSSES[-1]], ids=repr)
@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_the_curvature_of_other_losses_bounds_the_hessian_where_the_centers_are(loss, distance):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(40, 2)) * rng.choice([0.5, 3.0], (40, 1))
    users = Users(rows, np.array([0, 40]), loss=loss, distance=distance(2))
    for x in rng.normal(size=(30, 1, 2, 2)) * 2.0:
        assignment = users.assign(x)
        bound = users.curvature(assignment, x)
        for k in range(2):
            hessian = np.empty((2, 2))
            for j in range(2):
                e = np.zeros_like(x)
                e[0, k, j] = 1e-5
                up, down = users.gradient(assignment, x + e), users.gradient(assignment, x - e)
                hessian[j] = (up - down)[0, k] / 2e-5
            largest = np.linalg.eigvalsh((hessian + hessian.T) / 2)[-1]
            assert largest <= bound[0, k] * (1 + 1e-6) + 1e-6
