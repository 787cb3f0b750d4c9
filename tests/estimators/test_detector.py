"""`PeerOutlierDetector`: what it finds, and what contamination and delta mean."""

import numpy as np
import pytest
from scipy.stats import median_abs_deviation
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score

import peerclust as pc
from peerclust import datasets
from peerclust.outliers import find_robust_threshold

X, CLASSES = load_iris(return_X_y=True)


SITE = np.array(["north", "south", "west", "east"])[np.arange(150) % 4]


@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.3])
def test_contamination_is_the_fraction_of_outliers_found(fraction):
    detector = pc.PeerOutlierDetector(contamination=fraction, random_state=0)
    found = detector.fit_predict(X, users=SITE) == -1
    assert found.sum() == pytest.approx(fraction * 150, abs=2)
    assert np.array_equal(found, detector.score_samples(X) < detector.offset_)


def test_the_scale_of_the_weights_does_not_change_which_rows_are_outliers():
    w = np.random.default_rng(0).integers(1, 4, 150).astype(float)
    found = [
        pc.PeerOutlierDetector(contamination=0.2, rho=20, random_state=0).fit(
            X, sample_weight=s * w
        )
        for s in (1.0, 0.1, 1 / w.sum())
    ]
    share = [w[fit.score_samples(X) < fit.offset_].sum() / w.sum() for fit in found]
    assert share == pytest.approx([0.2] * 3, abs=0.03)


def test_the_traffic_of_estimating_delta_is_counted():
    auto, given = (
        pc.PeerOutlierDetector(delta=delta, rho=20, random_state=0).fit(X, users=SITE)
        for delta in ("auto", 1.0)
    )
    more = auto.solution_.certificate.setup_bytes - given.solution_.certificate.setup_bytes
    assert more > 1000 * 8


def test_scattered_outliers_are_found_with_defaults():
    rows, outlier = datasets.scattered_outliers(random_state=0)
    detector = pc.PeerOutlierDetector(random_state=0).fit(rows, users=np.arange(1000) % 10)
    assert roc_auc_score(outlier, -detector.score_samples(rows)) > 0.95


def test_a_tight_group_of_outliers_is_a_cluster_unless_the_start_prevents_it():
    noisy = datasets.noisy_iris(random_state=0)
    start = datasets.noisy_means(noisy.means, 5, random_state=0)

    group = noisy.rows[noisy.outlier].mean(axis=0)

    def fit(**options):
        detector = pc.PeerOutlierDetector(n_clusters=3, random_state=0, **options)
        detector.fit(noisy.rows, users=noisy.users)
        auc = roc_auc_score(noisy.outlier, -detector.score_samples(noisy.rows))
        return auc, np.linalg.norm(detector.cluster_centers_ - group, axis=1).min()

    auc, far = fit()
    assert auc < 0.99
    assert far < 1.0
    auc, far = fit(init=start, delta=0.05, rho=10, solver="dgc", graph="ring", tol=0, scale="none")
    assert auc > 0.999
    assert far > 15.0


def test_units_of_a_feature_do_not_change_which_rows_are_outliers():
    found = [
        pc.PeerOutlierDetector(random_state=0).fit_predict(X * unit, users=SITE)
        for unit in (np.ones(4), 2.0 ** np.array([10, 0, -7, 3]))
    ]
    assert np.array_equal(*found)


def test_delta_auto_is_about_the_median_distance_and_scales_with_the_data():
    def median_delta(rows):
        fits = [
            pc.PeerOutlierDetector(n_init=1, scale="none", random_state=seed) for seed in range(15)
        ]
        return np.median([fit.fit(rows, users=SITE).delta_ for fit in fits])

    distances = KMeans(n_clusters=3, n_init=5, random_state=0).fit(X).transform(X).min(axis=1)
    assert median_delta(X) == pytest.approx(np.median(distances), rel=0.5)
    assert median_delta(100 * X) == pytest.approx(100 * median_delta(X), rel=0.15)


def test_contamination_auto_is_three_scaled_deviations_beyond_the_median_distance():
    rows, outlier = datasets.scattered_outliers(random_state=0)
    detector = pc.PeerOutlierDetector(5, contamination="auto", scale="none", random_state=0)
    found = detector.fit_predict(rows, users=np.arange(1000) % 10) == -1
    squared = ((rows[:, None] - detector.cluster_centers_) ** 2).sum(axis=2)
    distances = np.sqrt(squared.min(axis=1))
    threshold = np.median(distances) + 3 * median_abs_deviation(distances, scale="normal")
    assert detector.offset_ == pytest.approx(-threshold, rel=0.01)
    assert np.array_equal(found, detector.score_samples(rows) < detector.offset_)
    assert found[outlier].mean() > 0.9
    assert found[~outlier].mean() < 0.02


def test_contamination_auto_has_the_lower_median_of_distances_and_the_upper_of_deviations():
    distances = np.array([1.0, 2.0, 5.0, 9.0])  # from 2: 0, 1, 3 and 7
    assert find_robust_threshold(-distances, np.ones(4)) == pytest.approx(-(2 + 3 * 1.4826 * 3))


def test_contamination_auto_counts_a_row_as_often_as_it_weighs():
    weights = np.random.default_rng(0).integers(0, 4, 150)
    scores = np.random.default_rng(1).normal(size=150)
    repeated = np.repeat(scores, weights)
    found = find_robust_threshold(scores, weights.astype(float))
    assert found == find_robust_threshold(repeated, np.ones(len(repeated)))


def test_n_init_auto_is_five_drawn_starts_or_one_given():
    def messages(**options):
        found = pc.PeerOutlierDetector(delta=1.0, random_state=0, **options).fit(X, users=SITE)
        return found.solution_.certificate.setup_messages

    assert messages() == messages(n_init=5) > messages(n_init=4)
    assert messages(init=X[::50]) == messages(init=X[::50], n_init=1)
