from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist
from scipy.special import kl_div

from instances import BREGMANS, DISTANCES, LOSSES, WEIGHTS, PseudoHuber, spd
from peerclust import kernels
from peerclust.bregman import Bregman, generalized_kl
from peerclust.distances import Euclidean, Mahalanobis
from peerclust.errors import DivergedError
from peerclust.kernels import threads
from peerclust.losses import Fair, Huber, KMeans
from peerclust.users import Users, chunks
from peerclust.users.nearest import measure, nearest
from plain import same

# The users' numbers of rows, features d and centers K. kernels.TILE is 64, kernels.SEGMENT 8192.
SHAPES = [
    ([1], 1, 1),
    ([0], 2, 3),
    ([0, 0, 0], 1, 2),
    ([2], 3, 9),
    ([0, 1, 2, 0, 63, 64, 65, 0], 2, 3),
    ([200, 7, 1, 130], 5, 4),
    ([40, 41], 17, 6),
    ([3] * 20, 1, 2),
    ([8191, 8193, 0, 20_000, 8192, 5], 2, 3),
]
SIZES = [5, 0, 1, 17, 64, 0, 16, 150, 33, 2]

shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)
distances = pytest.mark.parametrize("distance", DISTANCES, ids=repr)
bregmans = pytest.mark.parametrize("bregman", BREGMANS, ids=repr)
all_weights = pytest.mark.parametrize("weights", WEIGHTS, ids=repr)
# Every loss with every distance, and every Bregman loss, which brings its own.
everything = pytest.mark.parametrize(
    ("loss", "distance"),
    [(lambda d, loss=loss: loss, distance) for loss in LOSSES for distance in DISTANCES]
    + [(bregman, DISTANCES[0]) for bregman in BREGMANS],
    ids=[f"{loss!r}-{distance!r}" for loss in LOSSES for distance in DISTANCES]
    + [repr(bregman) for bregman in BREGMANS],
)


def problem(sizes, d, K, *, dtype=np.float64, seed=0):
    """Rows, offsets and each user's own centers; above zero, so in every domain."""
    rng = np.random.default_rng((seed, sum(sizes), d, K))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = rng.uniform(0.2, 5.0, size=(offsets[-1], d)).astype(dtype)
    return rows, offsets, rng.uniform(0.2, 5.0, size=(len(sizes), K, d))


def of_each_user(rows, offsets):
    """Each user's number and its rows in double precision."""
    for i in range(len(offsets) - 1):
        yield i, rows[offsets[i] : offsets[i + 1]].astype(np.float64)


def squares(rows, x):
    """Squared distances (N, K), added up feature by feature from the first, in plain numpy."""
    total = np.zeros((len(rows), len(x)))
    for j in range(x.shape[1]):
        step = rows[:, j, None] - x[:, j]
        total += step * step
    return total


def scores(rows, x, loss, distance):
    """What nearest means, (N, K), each in a way of its own."""
    if not isinstance(loss, Bregman):
        A = getattr(distance, "A", None)
        if A is None:
            return squares(rows, x)
        gap = rows[:, None] - x
        return np.einsum("rki,ij,rkj->rk", gap, A, gap)
    gap = rows[:, None] - x
    return {
        "squared_euclidean": lambda: 0.5 * np.einsum("rki,rki->rk", gap, gap),
        "squared_mahalanobis": lambda: 0.5 * np.einsum("rki,ij,rkj->rk", gap, spd(x.shape[1]), gap),
        "generalized_kl": lambda: kl_div(rows[:, None], x).sum(axis=2),
    }[loss.name]()


def plain_pull(rows, offsets, labels, x, w, loss, distance):
    """Sum w grad f(x_i(label), y) row by row, and the sum of the sizes of what is added."""
    out, size = np.zeros_like(x), np.zeros(x.shape[:2])
    A = np.asarray(getattr(distance, "A", np.eye(x.shape[2])))
    for i, mine in of_each_user(rows, offsets):
        for r, y in enumerate(mine):
            row = offsets[i] + r
            k = labels[row]
            gap = x[i, k] - y
            if isinstance(loss, Bregman):
                H = np.broadcast_to(loss.hessian(x[i, k]), (len(gap), len(gap)))
                gradient = H @ gap
            else:
                gradient = float(loss.gamma(gap @ A @ gap)) * (A @ gap)
            out[i, k] += w[row] * gradient
            size[i, k] += w[row] * np.linalg.norm(gradient)
    return out, size


def plain_cost(rows, offsets, labels, x, w, loss, distance):
    out = np.zeros(len(x))
    for i, mine in of_each_user(rows, offsets):
        here = slice(offsets[i], offsets[i + 1])
        own = scores(mine, x[i], loss, distance)[np.arange(len(mine)), labels[here]]
        values = own if isinstance(loss, Bregman) else loss.value(own)
        out[i] = math.fsum(w[here] * values)
    return out


def each_weight(weights, n):
    return np.broadcast_to(weights, n)


def part(users, a, b):
    """The users a to b as a block of their own, whoever holds them."""
    here = slice(users.offsets[a], users.offsets[b])
    whole = isinstance(users.weights, float)
    return Users(
        users.rows[here].copy(),
        users.offsets[a : b + 1] - users.offsets[a],
        weights=users.weights if whole else users.weights[here].copy(),
        loss=users.loss,
        distance=users.distance,
        numbers=users.numbers[a:b],
    )


# --- assign -------------------------------------------------------------------------------------


@shapes
@dtypes
@losses
def test_assign_is_argmin_of_plain_squared_distances_to_the_last_bit(shape, dtype, loss):
    rows, offsets, x = problem(*shape, dtype=dtype)
    users = Users(rows, offsets, loss=loss)
    users.assign(x)
    assert users.labels.dtype == np.int32
    for i, mine in of_each_user(rows, offsets):
        np.testing.assert_array_equal(
            users.labels[offsets[i] : offsets[i + 1]], squares(mine, x[i]).argmin(axis=1)
        )


@shapes
@everything
def test_assign_takes_the_center_of_least_loss(shape, loss, distance):
    d = shape[1]
    rows, offsets, x = problem(*shape)
    users = Users(rows, offsets, loss=loss(d), distance=distance(d))
    users.assign(x)
    for i, mine in of_each_user(rows, offsets):
        found = scores(mine, x[i], users.loss, users.distance)
        own = found[np.arange(len(mine)), users.labels[offsets[i] : offsets[i + 1]]]
        # rounding may turn the order of two centers that are as near as makes no difference
        assert (own <= found.min(axis=1, initial=np.inf) * (1 + 1e-12) + 1e-12).all()


@pytest.mark.parametrize("segment", [16, kernels.SEGMENT])
@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data(), d=st.integers(1, 3), K=st.integers(1, 5))
def test_of_equally_near_centers_the_first_is_taken(segment, data, d, K):
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
            patch.setattr(kernels, "SEGMENT", segment)
            users = Users(rows.astype(np.float64), offsets, distance=distance)
            users.assign(x.astype(np.float64))
        for i in range(len(sizes)):
            here = slice(offsets[i], offsets[i + 1])
            exact = (((rows[here, None] - x[i]) * unit) ** 2).sum(axis=2)
            np.testing.assert_array_equal(users.labels[here], exact.argmin(axis=1))


@bregmans
def test_a_bregman_loss_gives_doubled_centers_to_the_first(bregman):
    rows, offsets, x = problem(SIZES, 2, 6)
    x[:, 3:] = x[:, :3]
    users = Users(rows, offsets, loss=bregman(2))
    users.assign(x)
    assert set(users.labels) == {0, 1, 2}


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
    before.assign(x)
    after.assign(x + shift)
    same(before.labels, after.labels)
    np.testing.assert_allclose(before.pull(x), after.pull(x + shift), atol=1e-9)
    same(before.cost(x), after.cost(x + shift))


@losses
@distances
def test_naming_the_centers_in_another_order_only_renames_the_labels(loss, distance):
    rows, offsets, x = problem(SIZES, 3, 5)
    order = np.array([3, 0, 4, 1, 2])
    first, other = (Users(rows, offsets, loss=loss, distance=distance(3)) for _ in range(2))
    renamed = x[:, order]
    first.assign(x)
    other.assign(renamed)
    np.testing.assert_array_equal(order[other.labels], first.labels)
    same(first.pull(x)[:, order], other.pull(renamed))
    same(first.cost(x), other.cost(renamed))


def test_changed_counts_the_labels_that_the_last_assignment_changed():
    rows, offsets, x = problem(SIZES, 2, 4)
    users = Users(rows, offsets)
    users.assign(x)
    assert users.changed == len(rows)
    before = users.labels.copy()
    users.assign(x.copy())
    assert users.changed == 0
    users.assign(x[:, [0, 2, 1, 3]].copy())  # the second and third center change names
    assert users.changed == np.count_nonzero((before == 1) | (before == 2)) > 0
    assert users.changed == np.count_nonzero(users.labels != before)


def test_changed_counts_the_rows_of_all_tasks(monkeypatch):
    monkeypatch.setattr(kernels, "SEGMENT", 16)
    rows, offsets, x = problem(SIZES, 2, 3)
    users = Users(rows, offsets)
    users.assign(x)
    assert users.changed == len(rows)
    before = users.labels.copy()
    users.assign(x + np.random.default_rng(0).normal(size=x.shape))
    assert users.changed == np.count_nonzero(users.labels != before) > 0


# --- pull and cost ------------------------------------------------------------------------------


@everything
@all_weights
@pytest.mark.parametrize("segment", [16, kernels.SEGMENT])
def test_pull_is_the_plain_sum_of_weighted_gradients(monkeypatch, loss, distance, weights, segment):
    monkeypatch.setattr(kernels, "SEGMENT", segment)
    rows, offsets, x = problem(SIZES, 3, 4)
    w = weights(len(rows))
    users = Users(rows, offsets, weights=w, loss=loss(3), distance=distance(3))
    users.assign(x)
    expected, size = plain_pull(
        rows, offsets, users.labels, x, each_weight(w, len(rows)), users.loss, users.distance
    )
    # x and y are of size 5, and S0 x - S1 is a difference
    scale = 1e-12 * (1.0 + size.max())
    np.testing.assert_allclose(users.pull(x), expected, rtol=1e-12, atol=scale)
    s0, s1 = users.pull_in_parts(x)
    np.testing.assert_allclose(s0[..., None] * x - s1, users.pull(x), rtol=1e-15, atol=0)


@everything
@all_weights
@pytest.mark.parametrize("segment", [16, kernels.SEGMENT])
def test_cost_is_the_plain_sum_of_weighted_losses(monkeypatch, loss, distance, weights, segment):
    monkeypatch.setattr(kernels, "SEGMENT", segment)
    rows, offsets, x = problem(SIZES, 3, 4)
    w = weights(len(rows))
    users = Users(rows, offsets, weights=w, loss=loss(3), distance=distance(3))
    users.assign(x)
    expected = plain_cost(
        rows, offsets, users.labels, x, each_weight(w, len(rows)), users.loss, users.distance
    )
    np.testing.assert_allclose(users.cost(x), expected, rtol=1e-11, atol=1e-12)


@everything
def test_after_a_step_without_an_assignment_the_old_labels_count(loss, distance):
    # Algorithm 1 makes B steps a round with the clusters of the first.
    rows, offsets, x = problem(SIZES, 3, 4)
    w = WEIGHTS[-1](len(rows))
    users = Users(rows, offsets, weights=w, loss=loss(3), distance=distance(3))
    users.assign(x)
    labels = users.labels.copy()
    for step in range(1, 4):
        moved = x + 0.04 * step * np.random.default_rng(step).uniform(size=x.shape)
        expected, size = plain_pull(rows, offsets, labels, moved, w, users.loss, users.distance)
        np.testing.assert_allclose(
            users.pull(moved), expected, rtol=1e-12, atol=1e-12 * (1.0 + size.max())
        )
        np.testing.assert_allclose(
            users.cost(moved),
            plain_cost(rows, offsets, labels, moved, w, users.loss, users.distance),
            rtol=1e-11,
            atol=1e-12,
        )
        same(users.labels, labels)


@everything
@pytest.mark.parametrize("segment", [16, kernels.SEGMENT])
def test_pull_does_not_depend_on_what_was_asked_before(monkeypatch, loss, distance, segment):
    monkeypatch.setattr(kernels, "SEGMENT", segment)
    rows, offsets, x = problem(SIZES, 3, 4)
    users = Users(rows, offsets, loss=loss(3), distance=distance(3))
    users.assign(x)
    at_once = users.pull(x)
    same(users.pull(x.copy()), at_once)
    users.pull(x + 0.1)
    users.cost(x + 0.2)
    same(users.pull(x), at_once)
    fresh = Users(rows, offsets, loss=loss(3), distance=distance(3))
    fresh.assign(x + 0.3)
    fresh.pull(x + 0.1)
    fresh.assign(x)
    same(fresh.pull(x.copy()), at_once)


@everything
def test_pull_is_the_slope_of_the_cost(loss, distance):
    rows, offsets, x = problem([30, 0, 12], 2, 3)
    users = Users(rows, offsets, loss=loss(2), distance=distance(2))
    users.assign(x)
    numeric = np.empty_like(x)
    for place in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[place] = 1e-5
        numeric[place] = (users.cost(x + e) - users.cost(x - e))[place[0]] / 2e-5
    np.testing.assert_allclose(users.pull(x), numeric, rtol=1e-6, atol=1e-6)


@bregmans
def test_a_bregman_loss_does_not_pull_a_center_at_the_mean_of_its_rows(bregman):
    rows, offsets, x = problem([150, 60], 3, 2)
    w = WEIGHTS[-1](len(rows))
    users = Users(rows, offsets, weights=w, loss=bregman(3))
    users.assign(x)
    means = np.empty_like(x)
    for i, mine in of_each_user(rows, offsets):
        here = slice(offsets[i], offsets[i + 1])
        for k in range(2):
            held = users.labels[here] == k
            means[i, k] = np.average(mine[held], axis=0, weights=w[here][held])
    np.testing.assert_allclose(users.pull(means), 0.0, atol=1e-10)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_a_squared_norm_as_a_bregman_loss_does_what_kmeans_does(distance):
    rows, offsets, x = problem(SIZES, 3, 4)
    radial = Users(rows, offsets, loss=KMeans(), distance=distance(3))
    bregman = Users(rows, offsets, loss=BREGMANS[DISTANCES.index(distance)](3))
    for users in (radial, bregman):
        users.assign(x)
    same(radial.labels, bregman.labels)
    np.testing.assert_allclose(bregman.pull(x), radial.pull(x), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(bregman.cost(x), radial.cost(x), rtol=1e-11)


@losses
def test_mahalanobis_with_the_identity_does_what_euclidean_does_to_the_last_bit(loss):
    rows, offsets, x = problem(SIZES, 3, 4)
    plain = Users(rows, offsets, loss=loss)
    moved = Users(rows, offsets, loss=loss, distance=Mahalanobis(np.eye(3)))
    for users in (plain, moved):
        users.assign(x)
    same(plain.labels, moved.labels)
    np.testing.assert_array_equal(plain.pull(x), moved.pull(x))
    same(plain.cost(x), moved.cost(x))


@everything
def test_twice_the_weight_is_twice_the_pull_and_twice_the_cost(loss, distance):
    rows, offsets, x = problem(SIZES, 3, 4)
    w = WEIGHTS[-1](len(rows))
    once, twice = (
        Users(rows, offsets, weights=each, loss=loss(3), distance=distance(3))
        for each in (w, 2.0 * w)
    )
    for users in (once, twice):
        users.assign(x)
    same(once.labels, twice.labels)
    same(2.0 * once.pull(x), twice.pull(x))
    same(2.0 * once.cost(x), twice.cost(x))


@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data())
def test_a_row_given_three_times_counts_as_once_with_a_weight_of_three(data):
    n = data.draw(st.integers(1, 20))
    times = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows = rng.integers(-9, 9, size=(n, 2)).astype(np.float64)  # whole numbers: sums are exact
    x = rng.integers(-9, 9, size=(1, 3, 2)).astype(np.float64)
    weighted = Users(rows, np.array([0, n]), weights=times.astype(np.float64))
    repeated = Users(np.repeat(rows, times, axis=0), np.array([0, times.sum()]))
    for users in (weighted, repeated):
        users.assign(x)
    np.testing.assert_array_equal(np.repeat(weighted.labels, times), repeated.labels)
    np.testing.assert_array_equal(weighted.pull(x), repeated.pull(x))
    np.testing.assert_array_equal(weighted.cost(x), repeated.cost(x))
    np.testing.assert_array_equal(weighted.total_weights, repeated.total_weights)


def test_a_scalar_weight_is_that_weight_for_each_row_to_the_last_bit():
    rows, offsets, x = problem(SIZES, 3, 4)
    for loss in LOSSES:
        one = Users(rows, offsets, weights=0.3, loss=loss)
        each = Users(rows, offsets, weights=np.full(len(rows), 0.3), loss=loss)
        for users in (one, each):
            users.assign(x)
        same(one.pull(x), each.pull(x))
        same(one.cost(x), each.cost(x))


@all_weights
@pytest.mark.parametrize("segment", [16, kernels.SEGMENT])
def test_total_weights_are_the_sums_of_each_user(monkeypatch, weights, segment):
    monkeypatch.setattr(kernels, "SEGMENT", segment)
    rows, offsets, _ = problem(SIZES, 1, 1)
    w = weights(len(rows))
    expected = [math.fsum(each_weight(w, len(rows))[a:b]) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(Users(rows, offsets, weights=w).total_weights, expected, rtol=1e-14)


def test_weighted_gives_the_same_users_with_other_weights():
    rows, offsets, x = problem(SIZES, 3, 4)
    w, numbers = WEIGHTS[-1](len(rows)), range(7, 7 + len(SIZES))
    users = Users(rows, offsets, loss=Huber(0.5), distance=Mahalanobis(spd(3)), numbers=numbers)
    users.assign(x)
    other = users.weighted(w)
    direct = Users(rows, offsets, weights=w, loss=Huber(0.5), distance=Mahalanobis(spd(3)))
    for each in (other, direct):
        each.assign(x)
    same(other.pull(x), direct.pull(x))
    assert other.numbers == tuple(numbers)
    assert other.rows is rows


@losses
@distances
def test_rows_of_the_largest_allowed_size_keep_everything_finite(loss, distance):
    sign = np.random.default_rng(0).choice([-1.0, 1.0], size=(40, 2))
    rows = 0.9e150 * sign * np.geomspace(1e-300, 1.0, 40)[:, None]
    x = np.array([[[0.9e150, 0.9e150], [0.0, 0.0], [-0.9e150, 0.9e150]]])
    users = Users(rows, np.array([0, 40]), weights=1.0 / 40, loss=loss, distance=distance(2))
    with np.errstate(all="raise", under="ignore"):
        users.assign(x)
        pull, cost = users.pull(x), users.cost(x)
    assert np.isfinite(pull).all()
    assert np.isfinite(cost).all()


# --- a user's own loss --------------------------------------------------------------------------


class HalfSquare:
    """K-means, written by someone who knows that numpy broadcasts."""

    smoothness = 1.0

    def value(self, r2):
        return 0.5 * r2

    def gamma(self, r2):
        return 1.0


def test_a_gamma_that_is_one_number_counts_for_every_row():
    rows, offsets, x = problem(SIZES, 3, 4)
    own, built_in = Users(rows, offsets, loss=HalfSquare()), Users(rows, offsets)
    for users in (own, built_in):
        users.assign(x)
    same(own.pull(x), built_in.pull(x))
    same(own.cost(x), built_in.cost(x))


@pytest.mark.parametrize("member", ["gamma", "value"])
def test_a_loss_that_gives_too_few_numbers_is_an_error(member):
    rows, offsets, x = problem(SIZES, 3, 4)
    loss = HalfSquare()
    setattr(loss, member, lambda r2: r2[:-1])
    users = Users(rows, offsets, loss=loss)
    users.assign(x)
    with pytest.raises(ValueError, match="broadcast"):
        (users.pull if member == "gamma" else users.cost)(x)


class Hidden:
    """A built-in loss behind the three members that a user's own would have."""

    def __init__(self, loss):
        self.value, self.gamma, self.smoothness = loss.value, loss.gamma, loss.smoothness


@losses
@distances
def test_a_loss_of_the_user_s_own_does_what_the_same_built_in_does(loss, distance):
    rows, offsets, x = problem(SIZES, 3, 4)
    w = WEIGHTS[-1](len(rows))
    own = Users(rows, offsets, weights=w, loss=Hidden(loss), distance=distance(3))
    built_in = Users(rows, offsets, weights=w, loss=loss, distance=distance(3))
    for users in (own, built_in):
        users.assign(x)
    same(own.labels, built_in.labels)
    np.testing.assert_allclose(own.pull(x), built_in.pull(x), rtol=1e-12, atol=1e-12)
    same(own.cost(x), built_in.cost(x))


# --- nearest ------------------------------------------------------------------------------------


@shapes
@dtypes
@distances
def test_nearest_is_argmin_of_scipy_s_distances(shape, dtype, distance):
    d = shape[1]
    rows, offsets, x = problem(*shape, dtype=dtype)
    users = Users(rows, offsets, loss=Huber(0.5), distance=distance(d))
    A = spd(d) if isinstance(users.distance, Mahalanobis) else np.eye(d)
    expected = cdist(rows.astype(np.float64), x[0], "mahalanobis", VI=A)
    labels, r2 = users.nearest(x[0])
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels, expected.argmin(axis=1))
    np.testing.assert_allclose(r2, expected.min(axis=1, initial=np.inf) ** 2, rtol=1e-10)


@bregmans
def test_nearest_under_a_bregman_loss_is_argmin_of_the_divergence(bregman):
    rows, offsets, x = problem(SIZES, 3, 5)
    loss = bregman(3)
    expected = scores(rows, x[0], loss, None)
    labels, divergence = Users(rows, offsets, loss=loss).nearest(x[0])
    np.testing.assert_array_equal(labels, expected.argmin(axis=1))
    np.testing.assert_allclose(divergence, expected.min(axis=1), rtol=1e-10, atol=1e-12)
    assert (divergence >= 0).all()


@bregmans
def test_a_row_next_to_its_center_is_not_at_a_negative_divergence(bregman):
    # psi(y) - psi(x) - <grad psi(x), y - x> is a difference of large numbers here
    rows = 1000.0 * problem([500], 3, 1)[0]
    loss = bregman(3)
    plain = [float(loss.divergence(row * (1 + 1e-9), row)) for row in rows]
    clipped = [
        nearest(row[None], row[None] * (1 + 1e-9), loss=loss, distance=Euclidean())[1][0]
        for row in rows
    ]
    assert min(plain) < 0
    np.testing.assert_array_equal(clipped, np.maximum(plain, 0.0))


@shapes
@everything
def test_nearest_finds_the_labels_that_assign_gives(shape, loss, distance):
    d = shape[1]
    rows, offsets, x = problem(*shape)
    x[:] = x[0]
    users = Users(rows, offsets, loss=loss(d), distance=distance(d))
    users.assign(x)
    labels, _ = users.nearest(x[0])
    same(labels, users.labels)
    again, _ = nearest(rows, x[0], loss=users.loss, distance=users.distance)
    same(again, labels)


@distances
@pytest.mark.parametrize(
    "loss", [KMeans(), generalized_kl(smoothness=30.0)], ids=["kmeans", "generalized_kl"]
)
def test_rows_measured_by_chunks_give_the_same_bits(loss, distance, monkeypatch):
    rng = np.random.default_rng(0)
    rows, centers = rng.uniform(1, 2, (700, 3)), rng.uniform(1, 2, (5, 3))
    how = {"loss": loss, "distance": Euclidean() if isinstance(loss, Bregman) else distance(3)}
    whole = *nearest(rows, centers, **how), measure(rows, centers, **how)
    monkeypatch.setattr("peerclust.users.nearest.CHUNK", 150)
    for a, b in zip(
        (*nearest(rows, centers, **how), measure(rows, centers, **how)), whole, strict=True
    ):
        same(a, b)
    labels, r2, each = whole
    np.testing.assert_array_equal(each.argmin(axis=1), labels)
    same(each[np.arange(700), labels], r2)
    for k in range(5):
        same(each[:, k], nearest(rows, centers[k : k + 1], **how)[1])


def test_nearest_keeps_the_labels_of_the_last_assignment():
    rows, offsets, x = problem(SIZES, 2, 3)
    users = Users(rows, offsets)
    users.assign(x)
    before = users.labels.copy()
    users.nearest(x[0, ::-1])
    same(users.labels, before)


# --- what must not matter: precision, blocks, threads, chunks ------------------------------------


def all_of(users, x, moved):
    """Everything a block computes, in one order."""
    users.assign(x)
    out = {"labels": users.labels.copy(), "pull": users.pull(x), "cost": users.cost(x)}
    out["pull, moved"], out["cost, moved"] = users.pull(moved), users.cost(moved)
    users.assign(moved)
    out["labels, moved"], out["pull, again"] = users.labels.copy(), users.pull(moved)
    out["total weights"] = users.total_weights
    return out


@everything
@pytest.mark.parametrize("d", [1, 3, 20])
def test_single_precision_rows_give_what_copies_in_double_give(loss, distance, d):
    rows, offsets, x = problem(SIZES, d, 4, dtype=np.float32)
    w = WEIGHTS[-1](len(rows))
    single, double = (
        Users(each, offsets, weights=w, loss=loss(d), distance=distance(d))
        for each in (rows, rows.astype(np.float64))
    )
    narrow, wide = all_of(single, x, x + 0.1), all_of(double, x, x + 0.1)
    for name in wide:
        same(narrow[name], wide[name])
    for a, b in zip(single.nearest(x[0]), double.nearest(x[0]), strict=True):
        same(a, b)
    for a, b in zip(single.distinct, double.distinct, strict=True):
        same(a, b)


@everything
@all_weights
@pytest.mark.parametrize("segment", [16, kernels.SEGMENT])
@pytest.mark.parametrize(("d", "K"), [(1, 2), (3, 4), (20, 1)])
def test_a_block_of_many_users_computes_what_blocks_of_one_do_to_the_last_bit(
    monkeypatch, loss, distance, weights, segment, d, K
):
    monkeypatch.setattr(kernels, "SEGMENT", segment)
    rows, offsets, x = problem(SIZES, d, K)
    numbers = [3 * i + 2 for i in range(len(SIZES))]
    made = {"weights": weights(len(rows)), "loss": loss(d), "distance": distance(d)}
    users = Users(rows, offsets, numbers=numbers, **made)
    together = all_of(users, x, x + 0.1)
    for i in range(users.m):
        block = users.block(i)
        assert (block.m, block.d, block.numbers) == (1, d, (3 * i + 2,))
        alone = all_of(block, x[i : i + 1], x[i : i + 1] + 0.1)
        for name, value in alone.items():
            here = slice(offsets[i], offsets[i + 1]) if "labels" in name else slice(i, i + 1)
            same(value, together[name][here])


@everything
def test_the_same_holds_for_rows_of_many_features(loss, distance):
    # numpy adds up more than 128 numbers in another order than fewer
    d = 300
    rows, offsets, x = problem([3, 1, 40], d, 3)
    users = Users(rows, offsets, loss=loss(d), distance=distance(d))
    together = all_of(users, x, x + 0.1)
    for i in range(users.m):
        alone = all_of(users.block(i), x[i : i + 1], x[i : i + 1] + 0.1)
        for name, value in alone.items():
            here = slice(offsets[i], offsets[i + 1]) if "labels" in name else slice(i, i + 1)
            same(value, together[name][here])


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    cuts=st.sets(st.integers(1, 7)),
    which=st.integers(0, len(LOSSES) - 1),
    seed=st.integers(0, 1000),
)
def test_however_users_are_dealt_to_blocks_each_computes_the_same(sizes, cuts, which, seed):
    rows, offsets, x = problem(sizes, 2, 3, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "SEGMENT", 16)
        users = Users(rows, offsets, weights=WEIGHTS[-1](len(rows)), loss=LOSSES[which])
        together = all_of(users, x, x + 0.1)
        ends = sorted({0, len(sizes), *(cut for cut in cuts if cut < len(sizes))})
        for a, b in pairwise(ends):
            alone = all_of(part(users, a, b), x[a:b], x[a:b] + 0.1)
            for name, value in alone.items():
                here = slice(offsets[a], offsets[b]) if "labels" in name else slice(a, b)
                same(value, together[name][here])


@everything
@all_weights
def test_threads_do_not_change_a_bit(monkeypatch, loss, distance, weights):
    monkeypatch.setattr(kernels, "SEGMENT", 16)
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    rows, offsets, x = problem(SIZES, 3, 4)
    found = []
    for number in (1, 2, 5):
        monkeypatch.setenv("PEERCLUST_THREADS", str(number))
        users = Users(rows, offsets, weights=weights(len(rows)), loss=loss(3), distance=distance(3))
        found.append(all_of(users, x, x + 0.1))
        found[-1]["nearest"], found[-1]["r2"] = users.nearest(x[0])
    for other in found[1:]:
        for name in found[0]:
            same(other[name], found[0][name])


def test_threads_do_not_change_a_bit_of_many_rows(monkeypatch):
    # as the library is: nothing patched but the number of threads
    rows, offsets, x = problem([50_000, 3, 0, 70_000], 4, 5)
    found = []
    for number in (1, 2, 5):
        monkeypatch.setenv("PEERCLUST_THREADS", str(number))
        found.append(all_of(Users(rows, offsets, loss=Fair(0.5)), x, x + 0.1))
    for other in found[1:]:
        for name in found[0]:
            same(other[name], found[0][name])


@everything
@all_weights
@pytest.mark.parametrize("chunk", [1, 40, 100])
def test_cost_does_not_depend_on_how_many_rows_are_held_at_a_time(
    monkeypatch, loss, distance, weights, chunk
):
    monkeypatch.setattr(kernels, "SEGMENT", 16)
    rows, offsets, x = problem(SIZES, 3, 4)
    users = Users(rows, offsets, weights=weights(len(rows)), loss=loss(3), distance=distance(3))
    users.assign(x)
    at_once, total = users.cost(x), users.total_weights
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    same(users.cost(x), at_once)
    fresh = Users(rows, offsets, weights=weights(len(rows)))
    same(fresh.total_weights, total)


def test_the_order_of_a_user_s_rows_matters_only_in_the_last_bits():
    rows, offsets, x = problem(SIZES, 3, 4)
    rng = np.random.default_rng(0)
    order = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(offsets)])
    for loss in LOSSES:
        one, other = Users(rows, offsets, loss=loss), Users(rows[order], offsets, loss=loss)
        for users in (one, other):
            users.assign(x)
        same(one.labels[order], other.labels)
        np.testing.assert_allclose(other.pull(x), one.pull(x), rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(other.cost(x), one.cost(x), rtol=1e-13)


# --- what is given stays as it is ---------------------------------------------------------------


@everything
def test_nothing_that_is_given_is_written_to(loss, distance):
    rows, offsets, x = problem(SIZES, 3, 4)
    w = WEIGHTS[-1](len(rows))
    before = [each.copy() for each in (rows, offsets, x, w)]
    users = Users(rows, offsets, weights=w, loss=loss(3), distance=distance(3))
    all_of(users, x, x + 0.1)
    users.nearest(x[0])
    _ = users.distinct
    for each, kept in zip((rows, offsets, x, w), before, strict=True):
        same(each, kept)


def test_rows_that_cannot_be_written_to_are_taken():
    rows, offsets, x = problem(SIZES, 3, 4)
    expected = all_of(Users(rows, offsets, loss=Huber(0.5)), x, x + 0.1)
    rows = rows.copy()
    rows.flags.writeable = False
    found = all_of(Users(rows, offsets, loss=Huber(0.5)), x, x + 0.1)
    for name in expected:
        same(found[name], expected[name])


@dtypes
@losses
def test_euclidean_rows_are_not_copied(dtype, loss):
    rows, offsets, _ = problem(SIZES, 3, 4, dtype=dtype)
    users = Users(rows, offsets, loss=loss)
    assert users.rows is rows
    assert np.shares_memory(users._y, rows)
    block = users.block(7)
    assert np.shares_memory(block.rows, rows)
    assert np.shares_memory(block._y, rows)


def test_what_pull_gave_is_not_changed_by_later_calls():
    rows, offsets, x = problem(SIZES, 3, 4)
    for loss in LOSSES:
        users = Users(rows, offsets, loss=loss)
        users.assign(x)
        pull = users.pull(x)
        kept = pull.copy()
        pull += 1.0
        same(users.pull(x), kept)


# --- distinct rows ------------------------------------------------------------------------------


def lattice_users(seed, weights, *, users=3):
    """Rows with many duplicates; weights are multiples of 1/8, so that their sums are exact."""
    rng = np.random.default_rng(seed)
    sizes = [0, *rng.integers(1, 60, users)]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = rng.integers(-2, 3, size=(offsets[-1], 2)) * 0.1
    w = rng.integers(1, 30, len(rows)) / 8.0 if weights else 0.5
    return Users(rows, offsets, weights=w)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", [False, True])
def test_distinct_merges_equal_rows_of_a_user_and_adds_their_weights(seed, weights):
    users = lattice_users(seed, weights)
    chosen, total, offsets = users.distinct
    w = each_weight(users.weights, len(users.rows))
    for i in range(users.m):
        expected = Counter()
        for row in range(users.offsets[i], users.offsets[i + 1]):
            expected[tuple((users.rows[row] + 0.0).tolist())] += w[row]
        here = slice(offsets[i], offsets[i + 1])
        assert ((chosen[here] >= users.offsets[i]) & (chosen[here] < users.offsets[i + 1])).all()
        found = [tuple((row + 0.0).tolist()) for row in users.rows[chosen[here]]]
        assert len(found) == len(set(found))
        assert dict(zip(found, total[here].tolist(), strict=True)) == expected
    assert offsets[-1] == len(chosen) == len(total)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", [False, True])
def test_distinct_rows_come_in_an_order_of_their_own(seed, weights):
    users = lattice_users(seed, weights)
    rng = np.random.default_rng(seed)
    order = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(users.offsets)])
    w = users.weights[order] if weights else users.weights
    shuffled = Users(users.rows[order], users.offsets, weights=w)
    np.testing.assert_array_equal(
        shuffled.rows[shuffled.distinct[0]], users.rows[users.distinct[0]]
    )
    same(shuffled.distinct[1], users.distinct[1])
    same(shuffled.distinct[2], users.distinct[2])


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30))
def test_distinct_cannot_tell_repetition_from_weight(seed, n):
    rng = np.random.default_rng(seed)
    rows, times = rng.integers(-3, 4, size=(n, 2)) * 0.3, rng.integers(1, 5, n)
    weighted = Users(rows, np.array([0, n]), weights=times.astype(np.float64))
    repeated = Users(np.repeat(rows, times, axis=0), np.array([0, times.sum()]))
    np.testing.assert_array_equal(
        weighted.rows[weighted.distinct[0]], repeated.rows[repeated.distinct[0]]
    )
    same(weighted.distinct[1], repeated.distinct[1])
    same(weighted.distinct[2], repeated.distinct[2])


def test_distinct_takes_minus_zero_for_zero():
    users = Users(np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, -0.0], [1.0, 0.0]]), np.array([0, 4]))
    chosen, weights, offsets = users.distinct
    assert sorted(map(tuple, np.abs(users.rows[chosen]).tolist())) == [(0.0, 1.0), (1.0, 0.0)]
    assert weights.tolist() == [2.0, 2.0]
    assert offsets.tolist() == [0, 2]


def test_distinct_of_random_rows_is_all_of_them():
    rows, offsets, _ = problem([2000, 0, 3000], 3, 1)
    chosen, weights, found = Users(rows, offsets).distinct
    np.testing.assert_array_equal(np.sort(chosen), np.arange(5000))
    assert (weights == 1.0).all()
    same(found, offsets)


def test_equal_rows_of_different_users_stay_apart():
    users = Users(np.ones((6, 2)), np.array([0, 2, 2, 6]))
    chosen, weights, offsets = users.distinct
    assert len(chosen) == 2
    assert weights.tolist() == [2.0, 4.0]
    assert offsets.tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize("weights", [False, True])
def test_distinct_of_a_block_of_one_is_that_user_s_part_of_the_whole(weights):
    users = lattice_users(1, weights, users=6)
    chosen, total, offsets = users.distinct
    for i in range(users.m):
        alone, weight, ends = users.block(i).distinct
        here = slice(offsets[i], offsets[i + 1])
        same(alone + users.offsets[i], chosen[here])
        same(weight, total[here])
        np.testing.assert_array_equal(ends, [0, len(alone)])


@pytest.mark.parametrize("weights", [1.0, np.empty(0)], ids=["unit", "each"])
def test_users_without_rows_have_no_distinct_ones(weights):
    chosen, total, offsets = Users(np.empty((0, 2)), np.array([0, 0, 0]), weights=weights).distinct
    assert len(chosen) == len(total) == 0
    assert offsets.tolist() == [0, 0, 0]


# --- the rest -----------------------------------------------------------------------------------


@everything
def test_users_without_rows_neither_pull_nor_cost(loss, distance):
    users = Users(np.empty((0, 2)), np.array([0, 0, 0]), loss=loss(2), distance=distance(2))
    x = np.ones((2, 3, 2))
    users.assign(x)
    assert users.changed == 0
    for at in (x, x + 1.0):
        np.testing.assert_array_equal(users.pull(at), np.zeros((2, 3, 2)))
        np.testing.assert_array_equal(users.cost(at), np.zeros(2))
    np.testing.assert_array_equal(users.total_weights, np.zeros(2))
    labels, r2 = users.nearest(x[0])
    assert len(labels) == len(r2) == 0


@pytest.mark.parametrize("outside", [0.0, -0.5])
def test_a_center_outside_the_domain_is_an_error_that_says_what_to_do(outside):
    rows, offsets, x = problem(SIZES, 2, 3)
    users = Users(rows, offsets, loss=generalized_kl(smoothness=1.0))
    users.assign(x)
    x = x.copy()
    x[3, 1, 0] = outside
    for method in (users.assign, users.pull):
        with pytest.raises(DivergedError, match="left the domain of the generalized_kl loss"):
            method(x)


def test_a_user_draws_the_same_numbers_in_any_block():
    rows, offsets, _ = problem(SIZES, 2, 3)
    users = Users(rows, offsets, numbers=np.arange(4, 4 + 5 * len(SIZES), 5).tolist())
    for i in range(users.m):
        together = users.generator(i, seed=11, step=2).random(5)
        same(users.block(i).generator(0, seed=11, step=2).random(5), together)


def test_users_steps_and_seeds_draw_different_numbers():
    users = Users(*problem(SIZES, 2, 3)[:2])
    drawn = {
        users.generator(i, seed=seed, step=step).random()
        for i in range(users.m)
        for seed in range(4)
        for step in range(4)
    }
    assert len(drawn) == users.m * 16


def test_the_default_is_kmeans_under_the_euclidean_distance_with_unit_weights():
    rows, offsets, x = problem(SIZES, 2, 3)
    users = Users(rows, offsets)
    given_all = Users(rows, offsets, weights=1.0, loss=KMeans(), distance=Euclidean())
    for each in (users, given_all):
        each.assign(x)
    same(users.pull(x), given_all.pull(x))
    same(users.cost(x), given_all.cost(x))


def test_a_frozen_loss_of_the_user_s_own_is_used_as_it_is():
    loss = PseudoHuber(0.7)
    assert Users(*problem(SIZES, 2, 3)[:2], loss=loss).loss is loss
