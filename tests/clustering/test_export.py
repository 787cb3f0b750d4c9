"""A solution as a KMeans of scikit-learn predicts the same labels, there and in ONNX."""

import pickle
from dataclasses import replace

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import skl2onnx
from sklearn.base import clone
from sklearn.cluster import KMeans

import peerclust as pc
from peerclust.errors import ParameterError

RNG = np.random.default_rng(0)
UNITS = np.array([1.0, 300.0, 0.01])
X = (RNG.normal(size=(240, 3)) + 4 * RNG.integers(3, size=(240, 1))) * UNITS
PARTS = [X[:100], X[100:100], X[100:]]
CASES = [
    {},
    {"loss": "huber"},
    {"scale": "standard"},
    {"scale": "robust"},
    {"scale": "standard", "loss": pc.Fair(2.0), "solver": "dgc", "rho": 5},
]


def solve(**options):
    return pc.cluster(PARTS, n_clusters=3, rounds=60, random_state=0, **options)


def kmeans_of(model):
    return model if isinstance(model, KMeans) else model[-1]


@pytest.mark.parametrize("options", CASES)
def test_the_model_predicts_what_the_solution_does(options):
    solution = solve(**options)
    model = solution.to_sklearn()
    assert np.array_equal(model.predict(X), solution.predict(X))
    nearest = model.transform(X).min(axis=1)
    np.testing.assert_allclose(nearest, solution.outlier_scores(X), rtol=1e-6, atol=1e-6)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), solution.predict(X))


@pytest.mark.parametrize("options", CASES)
def test_a_solution_of_float32_rows_becomes_a_model_of_float32_rows(options, tmp_path):
    F = X.astype(np.float32)
    solution = pc.cluster([F[:100], F[100:]], n_clusters=3, rounds=60, random_state=0, **options)
    solution.save(tmp_path / "solution.npz")
    for each in (solution, pc.Solution.load(tmp_path / "solution.npz")):
        model = each.to_sklearn()
        assert kmeans_of(model).cluster_centers_.dtype == np.float32
        assert np.array_equal(model.predict(F), solution.predict(F))
        assert model.transform(F).dtype == np.float32
        assert np.isfinite(model.score(F))


@pytest.mark.parametrize("options", CASES)
def test_onnxruntime_predicts_what_the_solution_does(options):
    solution = solve(**options)
    model = skl2onnx.to_onnx(solution.to_sklearn(), X[:1]).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    labels = session.run(["label"], {"X": X})[0]
    assert len(set(labels)) == 3
    assert np.array_equal(labels, solution.predict(X))


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_fitted_attributes_are_those_that_kmeans_would_have(scale):
    solution = solve(scale=scale)
    fitted = kmeans_of(solution.to_sklearn())
    rows, deviation = X, np.ones(3)
    if scale != "none":
        deviation = X.std(axis=0)
        rows = (X - X.mean(axis=0)) / deviation
    reference = KMeans(3, init=fitted.cluster_centers_, n_init=1, max_iter=1).fit(rows)
    assert vars(fitted).keys() == vars(reference).keys()
    np.testing.assert_allclose(fitted.cluster_centers_, reference.cluster_centers_, rtol=1e-6)
    assert fitted.inertia_ == pytest.approx(reference.inertia_)
    assert np.array_equal(fitted.labels_, reference.labels_)
    assert fitted.labels_.dtype == reference.labels_.dtype
    assert fitted.n_features_in_ == 3
    assert fitted.n_iter_ == solution.certificate.rounds + solution.certificate.search_rounds


def test_the_inertia_of_another_loss_is_not_known():
    assert np.isnan(solve(loss="huber").to_sklearn().inertia_)


def test_the_model_is_independent_of_the_solution_and_can_be_fitted_again():
    solution = solve()
    model = solution.to_sklearn()
    before = solution.consensus
    model.cluster_centers_ += 1.0
    assert np.array_equal(solution.consensus, before)
    assert clone(model).fit(X).cluster_centers_.shape == (3, 3)


def test_equal_centers_are_exported_without_a_warning():
    solution = pc.cluster([np.ones((5, 2))], n_clusters=1, random_state=0)
    assert solution.to_sklearn().predict(np.zeros((1, 2))).tolist() == [0]
    twice = pc.cluster([np.eye(2)], n_clusters=2, init=np.ones((2, 2)), rounds=1, tol=0)
    assert np.array_equal(twice.to_sklearn().cluster_centers_, twice.consensus)


@pytest.mark.parametrize("scaled", [False, True])
def test_feature_names_reach_what_sees_the_rows_first(scaled):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    solution = pc.PeerClustering(3, random_state=0).fit(frame).solution_
    if scaled:
        solution = replace(solution, scale=solve(scale="standard").scale)
    assert solution.feature_names == ("a", "b", "c")
    model = solution.to_sklearn()
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(model.predict(frame), solution.predict(X))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"distance": pc.Mahalanobis(np.diag(1 / UNITS**2))}, "Mahalanobis"),
        ({"loss": pc.bregman.squared_euclidean()}, "squared_euclidean"),
    ],
)
def test_distances_that_kmeans_does_not_have_are_refused(options, name):
    with pytest.raises(ParameterError, match=rf"must have the Euclidean distance.* Got {name}\.$"):
        solve(**options).to_sklearn()
