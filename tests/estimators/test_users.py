"""`users` of both estimators: an array, a column of a DataFrame, or a dict of rows by name."""

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import peerclust as pc

X, CLASSES = load_iris(return_X_y=True)
SITE = np.array(["north", "south", "west", "east"])[np.arange(150) % 4]
NAMES = ["east", "north", "south", "west"]
KINDS = [pc.PeerClustering, pc.PeerOutlierDetector]
FRAMES = [pd.DataFrame, pl.DataFrame]


def frame(kind):
    return kind({"a": X[:, 0], "site": SITE, "b": X[:, 1], "c": X[:, 2], "d": X[:, 3]})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", FRAMES)
def test_a_column_names_the_users_and_is_not_a_feature(kind, make):
    table = frame(make)
    by_array = kind(random_state=0).fit(X, users=SITE)
    by_column = kind(random_state=0).fit(table, users="site")
    assert by_column.feature_names_in_.tolist() == list("abcd")
    assert by_column.user_names_.tolist() == NAMES
    assert np.array_equal(by_column.user_centers_, by_array.user_centers_)
    assert np.array_equal(by_column.labels_, by_array.labels_)
    # With the column or without it, rows are the same rows.
    without = table[["a", "b", "c", "d"]]
    assert np.array_equal(by_column.predict(table), by_array.predict(X))
    assert np.array_equal(by_column.predict(without), by_array.predict(X))
    assert np.array_equal(
        kind(random_state=0).fit_predict(table, users="site"),
        kind(random_state=0).fit_predict(X, users=SITE),
    )


@pytest.mark.parametrize("make", FRAMES)
def test_fit_transform_takes_a_column_and_returns_the_container_asked_for(make):
    model = pc.PeerClustering(random_state=0).set_output(transform="polars")
    found = model.fit_transform(frame(make), users="site")
    assert isinstance(found, pl.DataFrame)
    assert np.array_equal(found.to_numpy(), model.transform(frame(make)).to_numpy())


def test_a_fit_without_the_column_forgets_it():
    table = pd.DataFrame(X, columns=list("abcd"))
    model = pc.PeerClustering(random_state=0).fit(table.rename(columns={"a": "s"}), users="s")
    assert model.n_features_in_ == 3
    model.fit(table.rename(columns={"a": "s"}))
    assert model.n_features_in_ == 4
    assert model.predict(table.rename(columns={"a": "s"})).shape == (150,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, pl.DataFrame])
def test_a_dict_has_the_rows_of_each_user_by_name(kind, make):
    # Not in the order of the alphabet: users and rows are in the order of the dict.
    order = ["west", "east", "south", "north"]
    parts = {name: make(X[name == SITE]) for name in order}
    weights = np.random.default_rng(0).integers(1, 4, 150)
    rows = np.concatenate([X[name == SITE] for name in order])
    found = kind(rho=10, scale="none", random_state=0).fit(parts, sample_weight=weights)
    direct = pc.cluster([X[name == SITE] for name in order], n_clusters=3, random_state=0)
    assert found.user_names_.tolist() == order
    assert [len(part) for part in found.solution_.labels] == [len(part) for part in direct.labels]
    assert np.array_equal(np.concatenate(found.solution_.labels), found.labels_)
    for i, name in enumerate(order):
        squared = ((X[name == SITE][:, None] - found.user_centers_[i]) ** 2).sum(axis=2)
        assert np.array_equal(found.solution_.labels[i], squared.argmin(axis=1))
    assert np.array_equal(found.predict(parts), found.predict(make(rows)))
    again = kind(rho=10, scale="none", random_state=0).fit_predict(parts, sample_weight=weights)
    if kind is pc.PeerClustering:
        assert np.array_equal(again, found.labels_)
        assert np.array_equal(found.fit_transform(parts), found.transform(make(rows)))
        assert found.score(parts) == found.score(make(rows))
    else:
        assert np.array_equal(again, found.predict(parts))
        assert np.array_equal(found.score_samples(parts), found.score_samples(make(rows)))


def test_a_user_of_a_dict_may_have_no_rows_and_a_graph_is_matched_with_its_names():
    parts = {"b": X[:100], "a": X[:0], "c": X[100:]}
    star = nx.Graph([("a", "b"), ("a", "c")])
    options = {"n_clusters": 3, "rho": 10, "max_iter": 9, "tol": 0, "init": X[::60]}
    found = pc.PeerClustering(graph=star, **options).fit(parts)
    hub = pc.graphs.from_edges([(1, 0), (1, 2)])
    same = pc.cluster(
        list(parts.values()), graph=hub, n_clusters=3, rho=10, rounds=9, tol=0, init=X[::60]
    )
    assert np.array_equal(found.user_centers_, same.centers)
    assert [len(part) for part in found.solution_.labels] == [100, 0, 50]


def test_classes_of_a_warm_start_belong_to_the_rows_as_given():
    start = pc.initialize.Warm(CLASSES)
    options = {"rho": 10, "tol": 0, "random_state": 0}
    _, split = pc.partition.by_user(SITE)
    direct = pc.cluster(
        [X[part] for part in split],
        n_clusters=3,
        rounds=1,
        init=pc.initialize.Warm([CLASSES[part] for part in split]),
        **options,
    )
    found = pc.PeerClustering(max_iter=1, init=start, **options).fit(X, users=SITE)
    assert np.array_equal(found.user_centers_, direct.centers)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_routes_users_and_weights(kind, routing):
    weights = np.random.default_rng(0).integers(1, 4, 150)
    step = kind(n_clusters=3, random_state=0).set_fit_request(users=True, sample_weight=True)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipe = make_pipeline(scaler, step).fit(X, users=SITE, sample_weight=weights)
    scaled = StandardScaler().fit_transform(X)
    direct = kind(n_clusters=3, random_state=0).fit(scaled, users=SITE, sample_weight=weights)
    assert np.array_equal(pipe[-1].user_centers_, direct.user_centers_)
    labels = make_pipeline(StandardScaler(), step).fit_predict(X, users=SITE)
    expected = kind(n_clusters=3, random_state=0).fit_predict(scaled, users=SITE)
    assert np.array_equal(labels, expected)


def test_cross_validation_splits_users_with_the_rows(routing):
    model = pc.PeerClustering(random_state=0).set_fit_request(users=True)
    found = cross_validate(
        model, X, params={"users": SITE}, cv=3, return_estimator=True, return_indices=True
    )
    for fitted, train in zip(found["estimator"], found["indices"]["train"], strict=True):
        direct = pc.PeerClustering(random_state=0).fit(X[train], users=SITE[train])
        assert np.array_equal(fitted.user_centers_, direct.user_centers_)


def test_a_grid_search_takes_a_column_of_users(routing):
    model = pc.PeerClustering(random_state=0).set_fit_request(users=True)
    search = GridSearchCV(model, {"n_clusters": [2, 4]}, cv=2)
    search.fit(frame(pd.DataFrame), users="site")
    assert search.best_params_ == {"n_clusters": 4}
    assert search.best_estimator_.user_names_.tolist() == NAMES


@pytest.mark.parametrize("nothing", [None, np.nan])
def test_a_user_that_is_missing_is_named(nothing):
    with pytest.raises(ValueError, match=r"`users` of PeerClustering must have no missing labels"):
        pc.PeerClustering().fit(X, users=pd.Series(["a", nothing] * 75, dtype=object))


def test_a_column_of_text_may_be_that_of_the_users():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(site=SITE)
    with pytest.raises(ValueError, match=r"`X` of PeerClustering must hold numbers. Column 'site'"):
        pc.PeerClustering().fit(frame)
