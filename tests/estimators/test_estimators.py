"""`PeerClustering` and `PeerOutlierDetector`: scikit-learn's checks, and their own features."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import peerclust as pc
from peerclust.errors import InputError

X, CLASSES = load_iris(return_X_y=True)


SITE = np.array(["north", "south", "west", "east"])[np.arange(150) % 4]


ESTIMATORS = [
    pc.PeerClustering(),
    pc.PeerClustering(loss="huber", init="random"),
    pc.PeerClustering(n_clusters=2, loss="fair", n_init=2),
    pc.PeerOutlierDetector(),
]


@pytest.mark.parametrize(
    ("estimator", "check"),
    [pair for estimator in ESTIMATORS for pair in estimator_checks_generator(estimator)],
    ids=lambda value: getattr(getattr(value, "func", None), "__name__", None) or repr(value),
)
def test_scikit_learns_own_checks_pass(estimator, check, monkeypatch):
    # Without it scikit-learn skips its array API check.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    check(clone(estimator))


def test_the_checks_include_weights_equal_repetition():
    for estimator in ESTIMATORS:
        names = [check.func.__name__ for _, check in estimator_checks_generator(estimator)]
        assert "check_sample_weight_equivalence_on_dense_data" in names


def test_users_take_part_and_rows_keep_their_order():
    model = pc.PeerClustering(n_clusters=3, random_state=0).fit(X, users=SITE)
    assert model.user_names_.tolist() == ["east", "north", "south", "west"]
    assert model.user_centers_.shape == (4, 3, 4)
    for i, name in enumerate(model.user_names_):
        mine = name == SITE
        squared = ((X[mine][:, None] - model.user_centers_[i]) ** 2).sum(axis=2)
        assert np.array_equal(model.labels_[mine], squared.argmin(axis=1))
    parts = [X[name == SITE] for name in model.user_names_]
    start = model.cluster_centers_
    direct = pc.cluster(parts, n_clusters=3, rho=50, rounds=7, tol=0, init=start)
    again = pc.PeerClustering(n_clusters=3, rho=50, max_iter=7, tol=0, init=start).fit(
        X, users=SITE
    )
    assert np.array_equal(again.user_centers_, direct.centers)


def test_one_user_finds_what_kmeans_finds():
    rows, _ = make_blobs(500, centers=4, cluster_std=0.5, random_state=0)
    ours = pc.PeerClustering(n_clusters=4, n_init=3, tol=1e-8, max_iter=3000, random_state=0).fit(
        rows
    )
    theirs = KMeans(n_clusters=4, n_init=3, random_state=0).fit(rows)
    assert pc.metrics.ari(ours.labels_, theirs.labels_) == 1.0
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-6)
    assert ours.score(rows) == pytest.approx(theirs.score(rows) / 2, rel=1e-6)


def test_transform_and_predict_agree():
    model = pc.PeerClustering(n_clusters=3, random_state=0).fit(X)
    far = model.transform(X)
    expected = np.sqrt(((X[:, None] - model.cluster_centers_[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(far, expected, atol=1e-12)
    assert np.array_equal(model.predict(X), expected.argmin(axis=1))
    assert np.array_equal(model.fit_transform(X), far)


def test_sample_weights_count_in_inertia_and_score():
    w = np.random.default_rng(0).integers(0, 4, 150).astype(float)
    model = pc.PeerClustering(n_clusters=3, random_state=0).fit(X, sample_weight=w, users=SITE)
    squared = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2).min(axis=1)
    assert model.inertia_ == pytest.approx(w @ squared)
    assert model.score(X, sample_weight=w) == pytest.approx(-0.5 * w @ squared)


def test_weights_equal_repetition_with_users_and_a_start_of_their_own():
    w = np.random.default_rng(0).integers(0, 4, 150)
    a = pc.PeerClustering(n_clusters=3, random_state=0).fit(X, sample_weight=w, users=SITE)
    b = pc.PeerClustering(n_clusters=3, random_state=0)
    b.fit(np.repeat(X, w, axis=0), users=np.repeat(SITE, w))
    np.testing.assert_allclose(a.user_centers_, b.user_centers_, rtol=1e-9)


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = (
        pc.PeerClustering(n_clusters=3, random_state=0).set_output(transform="pandas").fit(frame)
    )
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.transform(frame).columns.tolist() == [f"peerclustering{k}" for k in range(3)]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))


def test_it_works_in_a_pipeline_with_every_loss_and_distance():
    distance = pc.Mahalanobis(np.linalg.inv(np.cov((X - X.mean(0)).T)))
    for loss in ("kmeans", "huber", "logistic", "fair", pc.bregman.squared_euclidean()):
        labels = make_pipeline(
            StandardScaler(), pc.PeerClustering(n_clusters=3, loss=loss)
        ).fit_predict(X)
        assert set(labels) <= {0, 1, 2}
    model = pc.PeerClustering(n_clusters=3, distance=distance, random_state=0).fit(X)
    assert np.array_equal(model.predict(X), model.transform(X).argmin(axis=1))


@pytest.mark.parametrize(
    ("options", "fit", "sentence"),
    [
        ({}, {"X": np.where(np.arange(150)[:, None] == 7, np.nan, X)}, "Row 7 of X must be finite"),
        ({}, {"X": np.where(np.arange(150)[:, None] == 9, np.inf, X)}, "Row 9 of X must be finite"),
        ({"n_clusters": 200}, {}, "`n_clusters` of {} must be at most the number of distinct rows"),
        ({"n_clusters": 0}, {}, "`n_clusters` of {} must be a whole number >= 1"),
        ({"rho": 0}, {"users": SITE}, "`rho` of {} must be a number > 0"),
        ({"max_iter": 0}, {}, "`max_iter` of {} must be a whole number >= 1. Got 0."),
        ({"tol": -1}, {}, "`tol` of {} must be a number >= 0"),
        ({"solver": "admm", "B": 2}, {}, "`B` of {} must be 1 with the solver 'admm'"),
        ({"random_state": "seed"}, {}, "`random_state` of {} must be None"),
        ({"graph": "rnig"}, {"users": SITE}, "`graph` of {} must be one of .* Did you mean 'ring'"),
        ({"graph": nx.empty_graph(4)}, {"users": SITE}, "`graph` of {} must connect all users"),
        ({"distance": "euclid"}, {}, "`distance` of {} .* Did you mean 'euclidean'"),
        ({"graph": pc.graphs.ring(5)}, {"users": SITE}, "`graph` of {} must have as many users"),
        ({}, {"users": SITE[:10]}, "`users` of .*fit must name the user of each of the 150 rows"),
        ({}, {"X": X[:, 0]}, "Expected 2D array"),
        ({}, {"sample_weight": -np.ones(150)}, "Negative values"),
        ({"init": np.zeros((2, 4))}, {}, "`init` of {} must have the shape"),
    ],
)
@pytest.mark.parametrize("kind", [pc.PeerClustering, pc.PeerOutlierDetector])
def test_bad_input_gets_one_clear_sentence(kind, options, fit, sentence):
    with pytest.raises(ValueError, match=sentence.replace("{}", kind.__name__)):
        kind(**options).fit(**({"X": X} | fit))


@pytest.mark.parametrize("kind", [pc.PeerClustering, pc.PeerOutlierDetector])
def test_advice_names_the_parameters_of_the_estimator(kind):
    model = kind(max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="^ran out of rounds: .*more `max_iter`, or a larg"):
        status = model.fit(X, users=SITE).solution_.status
    assert status.name == "ran out of rounds"
    assert "Allow more `max_iter`, or a larger `tol`" in status.advice


@pytest.mark.parametrize("kind", [pc.PeerClustering, pc.PeerOutlierDetector])
def test_a_run_that_converged_or_was_not_to_stop_warns_of_nothing(kind):
    # Warnings are errors here.
    done = kind(n_clusters=3, random_state=0).fit(X, users=SITE)
    assert done.solution_.status.converged
    short = kind(n_clusters=3, max_iter=2, tol=0, random_state=0).fit(X, users=SITE)
    assert short.solution_.status.name == "ran out of rounds"


def test_clusters_without_rows_are_reported():
    rows = np.repeat(np.arange(11.0), 5)[:, None] * [1.0, 2.0]
    start = np.concatenate([rows[:45:5], [[500.0, 0.0], [0.0, 500.0]]])
    model = pc.PeerClustering(n_clusters=11, init=start).fit(rows, users=np.arange(55) % 4)
    assert model.solution_.status.converged
    assert "Only 9 of 11 clusters have rows" in model.solution_.status.advice
    # Where the start is drawn, each group has its own center.
    model = pc.PeerClustering(n_clusters=11, random_state=0).fit(rows, users=np.arange(55) % 4)
    assert "clusters have rows" not in model.solution_.status.advice
    assert model.inertia_ == pytest.approx(0, abs=1e-9)


def test_unknown_losses_are_rejected_with_the_nearest_name():
    with pytest.raises(InputError, match="Did you mean 'huber'"):
        pc.PeerClustering(loss="hubr").fit(X)
    for delta in ("automatic", -1):
        with pytest.raises(InputError, match="`delta` of PeerOutlierDetector"):
            pc.PeerOutlierDetector(delta=delta).fit(X)


def test_a_second_fit_replaces_the_users_of_the_first():
    model = pc.PeerClustering(n_clusters=2, random_state=0).fit(X, users=SITE).fit(X)
    assert model.user_names_.tolist() == [0]
    assert len(model.user_centers_) == 1


def test_parameters_set_after_a_fit_do_not_change_the_fitted_model():
    model = pc.PeerClustering(n_clusters=2, random_state=0).fit(X)
    before = model.transform(X)
    model.set_params(distance=pc.Mahalanobis(5 * np.eye(4)))
    assert np.array_equal(model.transform(X), before)


@pytest.mark.parametrize(
    "graph",
    [
        nx.Graph([("west", "north"), ("west", "south"), ("west", "east")]),
        pc.graphs.from_edges([("west", "north"), ("west", "south"), ("west", "east")]),
    ],
)
def test_a_graph_that_names_its_users_is_matched_by_name(graph):
    options = {"n_clusters": 3, "rho": 10, "max_iter": 9, "tol": 0, "init": X[:3] * [1, 2, 3, 4]}
    model = pc.PeerClustering(graph=graph, **options).fit(X, users=SITE)
    # Users come in the order east, north, south, west, so that west is user 3.
    hub = pc.graphs.from_edges([(3, 0), (3, 1), (3, 2)])
    same = pc.PeerClustering(graph=hub, **options).fit(X, users=SITE)
    np.testing.assert_allclose(model.user_centers_, same.user_centers_, rtol=1e-12)


def test_a_graph_with_other_names_is_rejected():
    graph = pc.graphs.from_edges([("west", "north"), ("west", "south"), ("west", "paris")])
    with pytest.raises(InputError, match="exactly the users; it adds 'paris' and lacks 'east'"):
        pc.PeerClustering(n_clusters=3, graph=graph).fit(X, users=SITE)


def test_the_same_seed_gives_what_cluster_gives():
    model = pc.PeerClustering(n_clusters=3, rho=20, max_iter=50, random_state=7).fit(X)
    direct = pc.cluster([X], n_clusters=3, rho=20, rounds=50, tol=1e-4, random_state=7)
    assert np.array_equal(model.user_centers_, direct.centers)


def test_search_is_that_of_cluster_and_not_of_the_detector():
    options = {"n_clusters": 6, "random_state": 3}
    for search in ("none", "swaps", "auto"):
        model = pc.PeerClustering(search=search, **options).fit(X)
        direct = pc.cluster([X], search=search, tol=1e-4, **options)
        assert np.array_equal(model.user_centers_, direct.centers)
        assert (model.solution_.certificate.moves > 0) == (search != "none")
    assert pc.PeerOutlierDetector(**options).fit(X).solution_.certificate.moves == 0
    with pytest.raises(InputError, match=r"`search` of PeerClustering must be .*mean 'swaps'"):
        pc.PeerClustering(search="swap").fit(X)


def test_transform_of_a_bregman_loss_agrees_with_predict():
    loss = pc.bregman.squared_mahalanobis(np.diag([1.0, 5.0, 0.2, 1.0]))
    model = pc.PeerClustering(n_clusters=4, loss=loss, random_state=0).fit(X)
    assert np.array_equal(model.transform(X).argmin(axis=1), model.predict(X))
