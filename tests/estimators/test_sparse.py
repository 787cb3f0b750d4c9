"""Sparse X: results have the bits of dense rows, and no dense copy is ever made."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix, random_array

import peerclust as pc
from peerclust.bregman import generalized_kl
from peerclust.errors import DataError, ParameterError
from peerclust.initialize import KMeansPlusPlus
from peerclust.row_validation import check_any_rows
from peerclust.users import Users

LOSSES = ["kmeans", "huber", "logistic", "fair"]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def X(rng):
    dense = rng.normal(size=(240, 12)) * (rng.random((240, 12)) < 0.3)
    dense[::3, 0] += 4.0
    dense[1::3, 1] -= 4.0
    dense[::17] = 0.0
    return dense


def messy(dense):
    """Return the rows as CSR with unsorted columns, a stored zero, and entries in two halves."""
    n, d = dense.shape
    columns = np.tile(np.r_[d - 1 : -1 : -1, 0:d], n)
    values = np.concatenate([np.r_[row[::-1], row] / 2 for row in dense])
    return csr_array((values, columns, np.arange(n + 1) * 2 * d), shape=(n, d))


def assert_same_models(dense, sparse, X, Y):
    for name in ("labels_", "user_centers_", "cluster_centers_", "inertia_", "n_iter_"):
        assert_array_equal(getattr(dense, name), getattr(sparse, name))
    assert dense.solution_.certificate == sparse.solution_.certificate
    for method in ("predict", "transform", "score"):
        assert_array_equal(getattr(dense, method)(X), getattr(sparse, method)(Y))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("m", [1, 5, 60])
def test_sparse_rows_give_the_bits_of_dense_ones(X, loss, m, rng):
    weights, users = rng.uniform(0.5, 2.0, len(X)), np.arange(len(X)) % m
    for dtype in (np.float64, np.float32):
        D, model = X.astype(dtype), pc.PeerClustering(3, loss=loss, tol=1e-2, random_state=0)
        dense = model.fit(D, sample_weight=weights, users=users)
        other = pc.PeerClustering(3, loss=loss, tol=1e-2, random_state=0)
        sparse = other.fit(csr_array(D), sample_weight=weights, users=users)
        assert sparse.cluster_centers_.dtype == dtype
        assert_same_models(dense, sparse, D, csr_matrix(D))


@pytest.mark.parametrize("make", [messy, coo_array, csc_matrix, lambda X: csr_array(X).todok()])
def test_other_formats_are_converted_and_nothing_is_written_to_them(X, make):
    given = make(X)
    before = given.copy()
    dense = pc.PeerClustering(3, random_state=0).fit(X)
    assert_same_models(dense, pc.PeerClustering(3, random_state=0).fit(given), X, given)
    if isinstance(given, csr_array):
        for name in ("data", "indices", "indptr"):
            assert_array_equal(getattr(given, name), getattr(before, name))


@pytest.mark.parametrize("init", ["random", "k-means++-local", KMeansPlusPlus(mean_of=3)])
def test_every_start_gives_the_bits_of_dense_rows(X, init):
    found = [
        pc.cluster([each[:100], each[100:]], n_clusters=3, init=init, rho=50, random_state=1)
        for each in (X, csr_array(X))
    ]
    assert_array_equal(found[0].centers, found[1].centers)


def test_cluster_takes_lists_and_flat_pairs_and_users_without_rows(X):
    S, offsets = csr_array(X), np.array([0, 90, 90, 240])
    given = {"n_clusters": 3, "graph": "ring", "random_state": 0}
    dense = pc.cluster((X, offsets), **given)
    for parts in (
        (S, offsets),
        [S[:90], csr_matrix((0, 12)), S[90:]],
        [S[:90], [], coo_array(X[90:])],
        [X[:90], S[:0], S[90:]],
    ):
        sparse = pc.cluster(parts, **given)
        assert_array_equal(dense.centers, sparse.centers)
        for left, right in zip(dense.labels, sparse.labels, strict=True):
            assert_array_equal(left, right)
    assert_array_equal(dense.predict(X), dense.predict(S))
    assert_array_equal(dense.outlier_scores(X), dense.outlier_scores(S))
    assert pc.metrics.cost(X, dense.consensus) == pc.metrics.cost(S, dense.consensus)


@pytest.mark.parametrize(
    "given",
    [
        {"solver": "dgc", "rho": 20, "rounds": 30},
        {"solver": "admm", "loss": "huber"},
        {"solver": "group-lasso", "rho": 20},
        {"runtime": "loopback", "rho": 20},
        {"exchange": "float32", "rho": 20},
        {"trace": True, "rho": 20},
    ],
    ids=str,
)
def test_solvers_runtimes_and_message_formats_give_the_bits_of_dense_rows(X, given):
    found = [
        pc.cluster([each[:100], each[100:]], n_clusters=3, random_state=0, **given)
        for each in (X, csr_array(X))
    ]
    assert found[0].certificate == found[1].certificate
    assert_array_equal(found[0].centers, found[1].centers)


def test_a_run_on_sparse_rows_is_resumed_from_its_checkpoint(X, tmp_path):
    S = csr_array(X)
    given = {
        "n_clusters": 3,
        "rho": 10,
        "random_state": 0,
        "checkpoint": pc.Checkpoint(tmp_path, every=5, resume=True),
    }

    def stop(round_, _):
        if round_ == 9:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        pc.cluster([S[:99], S[99:]], progress=stop, **given)
    with pytest.raises(DataError, match="it was started with other rows"):
        pc.cluster([S[:99], 2.0 * S[99:]], **given)
    resumed = pc.cluster([S[:99], S[99:]], **given)
    whole = pc.cluster([X[:99], X[99:]], n_clusters=3, rho=10, random_state=0)
    assert_array_equal(resumed.centers, whole.centers)


def test_a_dict_of_sparse_parts_is_fitted_as_dense_ones(X):
    dense, sparse = (
        pc.PeerClustering(3, random_state=0).fit({"a": each[:90], "b": each[90:]})
        for each in (X, csr_array(X))
    )
    assert_same_models(dense, sparse, X, csr_array(X))


def test_the_detector_takes_sparse_rows_without_a_scale(X):
    dense, sparse = (
        pc.PeerOutlierDetector(3, scale="none", random_state=0).fit(each)
        for each in (X, csr_array(X))
    )
    assert_array_equal(dense.score_samples(X), sparse.score_samples(csr_array(X)))
    assert dense.offset_ == sparse.offset_


@pytest.mark.parametrize("loss", ["kmeans", "huber"])
def test_memory_stays_far_below_that_of_dense_rows(loss):
    n, d = 50_000, 2_000
    X = random_array((n, d), density=0.002, format="csr", random_state=0)
    start = X[:4].toarray()
    model = pc.PeerClustering(4, loss=loss, init=start, max_iter=2, tol=0.0)
    tracemalloc.start()
    model.fit(X).predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * d * 8 / 5


def test_a_value_that_is_not_finite_is_named_by_its_row_and_column(X):
    S = csr_array(X)
    at = np.flatnonzero(S.indices == 5)[7]
    row = np.searchsorted(S.indptr, at, side="right") - 1
    S.data[at] = np.nan
    with pytest.raises(DataError, match=f"Row {row} of X must be finite.*nan in column 5"):
        pc.PeerClustering().fit(S)
    with pytest.raises(DataError, match=f"Row {row} of user 1 must be finite"):
        pc.cluster([S[:0], S], n_clusters=2)


def test_complex_and_empty_sparse_rows_are_refused(X):
    with pytest.raises(DataError, match="The rows of user 0 must be real numbers"):
        pc.cluster([csr_array(X.astype(complex))], n_clusters=2)
    with pytest.raises(DataError, match="at least one feature"):
        pc.cluster([csr_matrix((3, 0))], n_clusters=2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scale": "standard"}, "`scale` of cluster must be 'none' with sparse rows.*'standard'"),
        ({"distance": pc.Mahalanobis(np.eye(12))}, "must be dense with the distance Mahalanobis"),
        (
            {"loss": generalized_kl(smoothness=1.0)},
            "must be dense with the .* loss",
        ),
    ],
    ids=["scale", "distance", "loss"],
)
def test_what_would_fill_the_zeros_is_refused(X, given, message):
    with pytest.raises((DataError, ParameterError), match=message):
        pc.cluster([csr_array(np.abs(X))], n_clusters=2, **given)


def test_a_dict_of_numbered_users_must_be_dense(X):
    with pytest.raises(DataError, match="must be dense with a dict of users, or several ranks"):
        pc.cluster({0: csr_array(X)}, n_clusters=2)


def test_predict_refuses_sparse_rows_where_the_fit_was_scaled(X):
    model = pc.cluster([X], n_clusters=2, scale="standard", random_state=0)
    with pytest.raises(DataError, match="The rows of predict must be dense with a scale"):
        model.predict(csr_array(X))


def test_the_tag_says_whether_sparse_rows_are_accepted():
    tag = [
        model.__sklearn_tags__().input_tags.sparse
        for model in (pc.PeerClustering(), pc.PeerOutlierDetector())
    ]
    assert tag == [True, False]


def test_users_of_sparse_rows_never_cache(X):
    users = Users(check_any_rows(csr_array(X), "X"), np.array([0, 240]))
    x = X[None, :3]
    for _ in range(4):
        assignment = users.assign(x)
    assert assignment.rows_scanned == 240
