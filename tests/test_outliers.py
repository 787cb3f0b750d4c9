"""The delta that users agree on, and what `outliers` refuses."""

import numpy as np
import pytest

import peerclust as pc
from peerclust.errors import DataError
from peerclust.initialize import KMeansPlusPlus
from peerclust.outliers import CAP, estimate_delta, outlier_scores


@pytest.mark.parametrize("weighted", [False, True])
def test_delta_is_the_median_distance_to_the_centers_of_a_start(weighted):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)) + 4 * rng.integers(0, 3, (n, 1)) for n in (40, 0, 7, 90)]
    times = [rng.integers(1, 4, len(part)) if weighted else np.ones(len(part)) for part in parts]
    options = {"n_clusters": 3, "weights": [np.asarray(t, float) for t in times]}
    for seed in range(3):
        delta, sent = estimate_delta(parts, random_state=seed, **options)
        start = pc.cluster(
            parts, init=KMeansPlusPlus(cap=CAP), solver="dgc", rho=1e9, alpha=1e-12, rounds=1,
            tol=0, random_state=seed, **options,
        )  # fmt: skip
        far = outlier_scores(np.concatenate(parts), start.consensus)
        repeated = np.repeat(far, np.concatenate(times).astype(int))
        expected = np.quantile(repeated, 0.5, method="inverted_cdf")
        assert delta == pytest.approx(expected, rel=1e-6)
        again = estimate_delta(parts, random_state=seed, runtime="loopback", **options)
        assert (delta, sent) == again


def test_rows_that_mostly_lie_on_centers_have_a_small_delta():
    parts = [np.repeat([[0.0], [8.0]], 20, axis=0), np.array([[1.0]])]
    delta, _ = estimate_delta(parts, n_clusters=2, random_state=0)
    assert delta == pytest.approx(1e-3 * np.concatenate(parts).std())


@pytest.mark.parametrize("features", [(2, 1), (1, 2)])
def test_centers_have_as_many_features_as_the_rows(features):
    rows, centers = (np.ones((5, d)) for d in features)
    with pytest.raises(DataError, match=f"must have the rows' {features[0]} features. Got"):
        outlier_scores(rows, centers)
