"""Sparse rows: what users compute from them has the bits of the same rows made dense."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

from peerclust import Fair, Huber, KMeans, Logistic
from peerclust.sparse import SparseRows
from peerclust.users import Users
from peerclust.users.nearest import measure, nearest
from peerclust.users.rows import column_ranges, hash_rows
from peerclust.users.sparse import BATCH, find_nearest, lower_distance2, own_distance2

# One user with a handful of rows, one without any, and one with several chunks of dense rows.
OFFSETS = np.array([0, 7, 7, 40, 300])


class Cauchy:
    """A custom loss, log(1 + r^2) / 2."""

    smoothness = 1.0

    def value(self, r2):
        return 0.5 * np.log1p(r2)

    def gamma(self, r2):
        return 1.0 / (1.0 + r2)


LOSSES = [KMeans(), Huber(0.7), Logistic(), Fair(0.5), Cauchy()]


def draw_rows(rng, n=300, d=23, dtype=np.float64):
    """Return dense rows: mostly zeros, some rows only of zeros, some equal, some columns full."""
    rows = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.15)
    rows[::9] = 0.0
    rows[1::11] = rows[2]
    rows[:, 3] = rng.uniform(1.0, 2.0, n)
    return rows.astype(dtype)


def make_sparse(rows):
    return SparseRows(csr_array(rows))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=[np.float64, np.float32])
def rows(request, rng):
    return draw_rows(rng, dtype=request.param)


@pytest.fixture
def centers(rng):
    return rng.normal(size=(4, 5, 23)) * 0.5


@pytest.fixture
def small_batches(monkeypatch):
    """Make a few rows dense at a time, and score a few."""
    monkeypatch.setattr("peerclust.users.sparse.BATCH", 100)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.usefixtures("small_batches")
def test_what_users_compute_has_the_bits_of_dense_rows(rows, centers, loss, weighted, rng):
    weights = rng.uniform(0.1, 3.0, len(rows)) if weighted else 0.25
    dense, sparse = (
        Users(each, OFFSETS, weights=weights, loss=loss) for each in (rows, make_sparse(rows))
    )
    elsewhere = centers + 0.1
    for x in (centers, elsewhere):
        a, b = dense.assign(x), sparse.assign(x)
        assert_array_equal(a.labels, b.labels)
        assert a.changed == b.changed
        for at in (x, elsewhere):
            assert_array_equal(dense.gradient(a, at), sparse.gradient(b, at))
            assert_array_equal(dense.curvature(a, at), sparse.curvature(b, at))
            assert_array_equal(dense.local_curvature(a, at), sparse.local_curvature(b, at))
            assert_array_equal(dense.cost(a, at), sparse.cost(b, at))
        for left, right in zip(dense.swap_costs(a, x), sparse.swap_costs(b, x), strict=True):
            assert_array_equal(left, right)
    assert_array_equal(dense.total_weights, sparse.total_weights)
    for left, right in zip(dense.ranges, sparse.ranges, strict=True):
        assert_array_equal(left, right)
    for left, right in zip(dense.distinct, sparse.distinct, strict=True):
        assert_array_equal(left, right)
    alone = dense.single_user(3), sparse.single_user(3)
    costs = [each.cost(each.assign(centers[3:]), centers[3:]) for each in alone]
    assert costs[0] == costs[1]


def test_a_gradient_step_of_small_users_has_the_bits_of_dense_rows(rng):
    rows, offsets = draw_rows(rng, n=60), np.arange(0, 61, 6)
    x, stiffness = rng.normal(size=(10, 3, 23)), np.ones((10, 3))
    neighbors = rng.normal(size=x.shape), np.full((10, 1, 1), 2.0)
    steps = []
    for each in (rows, make_sparse(rows)):
        users = Users(each, offsets, loss=Huber(0.5))
        assignment = users.assign(x)
        step = users.gradient_step(assignment, x, neighbors, (9.0, 0.0, 1.0), stiffness, only=True)
        steps.append(step)
    for left, right in zip(*steps, strict=True):
        assert_array_equal(left, right)


@pytest.mark.usefixtures("small_batches")
def test_nearest_and_measured_distances_have_the_bits_of_dense_rows(rows, centers):
    users = Users(rows, OFFSETS)
    x, sparse = centers[0], make_sparse(rows)
    for left, right in zip(
        nearest(rows, x, users.geometry), nearest(sparse, x, users.geometry), strict=True
    ):
        assert_array_equal(left, right)
    assert_array_equal(measure(rows, x, users.geometry), measure(sparse, x, users.geometry))
    twin = Users(sparse, OFFSETS)
    for k in (1, 3, 5):
        assert_array_equal(users.nearest_distance2(x[:k]), twin.nearest_distance2(x[:k]))


def test_of_equally_near_centers_the_first_is_taken():
    # Row 0 is as far from centers 0 and 2; centers 1 and 3 are equal.
    rows = make_sparse(np.array([[0.0, 0.0], [5.0, 5.0], [0.1, 0.0]]))
    z = np.array([[[0.0, 1.0], [5.0, 5.0], [1.0, 0.0], [5.0, 5.0]]])
    one = np.array([0, 3])
    labels = find_nearest(rows, one, z)
    assert labels.tolist() == [0, 1, 2]
    assert find_nearest(rows, one, z, labels).tolist() == [2, 3, 0]


def test_labels_are_those_of_measured_distances_where_the_rough_ones_cancel(rng):
    # Far from the origin, differences of 1e-9 are lost in ||x||^2 - 2 <x, y>.
    rows = 1e4 + 1e-9 * rng.integers(0, 9, size=(50, 3))
    z = rows[None, :6] + 1e-9
    dense, sparse = Users(rows, np.array([0, 50])), Users(make_sparse(rows), np.array([0, 50]))
    assert_array_equal(dense.assign(z).labels, sparse.assign(z).labels)


def test_labels_far_beyond_the_range_of_squares_are_those_of_dense_rows(rng):
    rows = draw_rows(rng, n=20) * 1e149
    z = rng.normal(size=(1, 3, 23)) * 1e149
    dense, sparse = Users(rows, np.array([0, 20])), Users(make_sparse(rows), np.array([0, 20]))
    assert_array_equal(dense.assign(z).labels, sparse.assign(z).labels)


def test_a_row_is_measured_only_where_a_center_may_be_nearer(monkeypatch, rng):
    rows, center = draw_rows(rng), rng.normal(size=23)
    sparse, one = make_sparse(rows), np.array([0, 300])
    r2 = own_distance2(sparse, one, center[None, None], np.zeros(300, np.int32))
    far = np.where(np.arange(300) < 20, np.inf, r2 / 2)
    measured = []

    def count(rows, *arguments):
        measured.append(len(rows))
        return own_distance2(rows, *arguments)

    monkeypatch.setattr("peerclust.users.sparse.own_distance2", count)
    assert_array_equal(lower_distance2(sparse, center, far), np.minimum(r2, far))
    assert measured == [20]


def test_few_rows_are_dense_at_a_time(monkeypatch, rng):
    rows = make_sparse(draw_rows(rng, n=200, d=BATCH // 64))
    sizes = []
    dense = SparseRows.__array__
    monkeypatch.setattr(
        SparseRows, "__array__", lambda self, *a, **k: (sizes.append(self.size), dense(self))[1]
    )
    users, x = Users(rows, np.array([0, 3, 200])), rng.normal(size=(2, 3, BATCH // 64))
    users.cost(users.assign(x), x)
    measure(rows, x[0], users.geometry)
    assert len(sizes) > 4
    assert max(sizes) <= BATCH


def test_ranges_count_zeros_that_are_not_stored():
    rows = make_sparse(np.array([[1.0, 0.0], [2.0, 3.0], [-1.0, -2.0]]))
    low, high = column_ranges(rows, np.array([0, 2, 2, 3]))
    assert low.tolist() == [[1.0, 0.0], [np.inf, np.inf], [-1.0, -2.0]]
    assert high.tolist() == [[2.0, 3.0], [-np.inf, -np.inf], [-1.0, -2.0]]


def test_a_stored_zero_has_the_hash_of_one_that_is_not():
    stored = csr_array((np.array([0.0, -0.0, 5.0]), [0, 1, 2], [0, 3]), shape=(1, 3))
    assert stored.nnz == 3
    assert hash_rows(SparseRows(stored)) == hash_rows(np.array([[0.0, 0.0, 5.0]]))
