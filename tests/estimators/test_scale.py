"""`scale` of the estimators: a fit in scaled units, with centers in the units of the rows."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import RobustScaler, StandardScaler

import peerclust as pc
from peerclust.errors import ParameterError

# One row fewer: of 4 n + 1 rows, scikit-learn's quartiles are rows, as ours are.
X = load_iris().data[:149] * [1.0, 100.0, 1.0, 0.01]
SITE = np.arange(149) % 4
START = X[[0, 60, 120]]
SCALERS = {"standard": StandardScaler(), "robust": RobustScaler(unit_variance=True)}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", SCALERS)
def test_a_scaled_clustering_is_that_of_scaled_rows(scale, dtype):
    scaler = SCALERS[scale].fit(X)
    Z, new = scaler.transform(X), X[::3] + 0.01
    options = {"loss": "huber", "tol": 1e-8}
    ours = pc.PeerClustering(3, scale=scale, init=START, **options)
    theirs = pc.PeerClustering(3, init=scaler.transform(START), **options)
    ours.fit(X.astype(dtype), users=SITE)
    theirs.fit(Z, users=SITE)
    close = 1e-6 if dtype == np.float64 else 1e-4
    centers = scaler.inverse_transform(theirs.cluster_centers_)
    np.testing.assert_allclose(ours.cluster_centers_, centers, rtol=close)
    assert np.array_equal(ours.labels_, theirs.labels_)
    there = scaler.transform(new)
    assert np.array_equal(ours.predict(new), theirs.predict(there))
    np.testing.assert_allclose(ours.transform(new), theirs.transform(there), rtol=10 * close)
    assert ours.score(new) == pytest.approx(theirs.score(there), rel=close)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=close)


@pytest.mark.parametrize("scale", SCALERS)
def test_a_detector_scores_in_scaled_units(scale):
    scaler = SCALERS[scale].fit(X)
    options = {"delta": 0.5, "n_init": 1, "tol": 1e-8}
    ours = pc.PeerOutlierDetector(3, scale=scale, init=START, **options)
    theirs = pc.PeerOutlierDetector(3, scale="none", init=scaler.transform(START), **options)
    ours.fit(X, users=SITE)
    theirs.fit(scaler.transform(X), users=SITE)
    scores = theirs.score_samples(scaler.transform(X))
    np.testing.assert_allclose(ours.score_samples(X), scores, rtol=1e-5)
    assert ours.offset_ == pytest.approx(theirs.offset_, rel=1e-5)
    assert np.array_equal(ours.predict(X), theirs.predict(scaler.transform(X)))


@pytest.mark.parametrize("kind", [pc.PeerClustering, pc.PeerOutlierDetector])
def test_an_unknown_scale_is_named_as_the_estimators_own(kind):
    for scale in ("standrad", np.ones(4), None):
        with pytest.raises(ParameterError, match=f"`scale` of {kind.__name__} must be one of"):
            kind(scale=scale).fit(X)
