"""delta="auto" of the Huber loss: one rule in `cluster` and both estimators, on every runtime."""

import numpy as np
import pytest
from five_users import OPTIONS, PARTS

import peerclust as pc
from peerclust.clustering.auto_delta import CAP
from peerclust.errors import ParameterError
from peerclust.initialize import KMeansPlusPlus
from peerclust.outliers import outlier_scores

AUTO = pc.Huber(delta="auto")
RNG = np.random.default_rng(0)


def draw_start(parts, seed, mean_of=1, **options):
    """Return the centers of a capped k-means++ start: a run that does not move."""
    return pc.cluster(
        parts, init=KMeansPlusPlus(cap=CAP, mean_of=mean_of), solver="dgc", rho=1e9, alpha=1e-12,
        rounds=1, tol=0, random_state=seed, **options,
    ).consensus  # fmt: skip


@pytest.mark.parametrize("mean_of", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_delta_is_the_median_distance_to_the_centers_of_a_start(weighted, mean_of):
    parts = [RNG.normal(size=(n, 3)) + 4 * RNG.integers(0, 3, (n, 1)) for n in (40, 0, 7, 90)]
    times = [RNG.integers(1, 4, len(part)) if weighted else np.ones(len(part)) for part in parts]
    options = {"n_clusters": 3, "weights": [np.asarray(t, float) for t in times]}
    for seed in range(3):
        solution = pc.cluster(
            parts, loss=AUTO, init=KMeansPlusPlus(mean_of=mean_of), random_state=seed, **options
        )
        far = outlier_scores(np.concatenate(parts), draw_start(parts, seed, mean_of, **options))
        repeated = np.repeat(far, np.concatenate(times).astype(int))
        expected = np.quantile(repeated, 0.5, method="inverted_cdf")
        assert solution.loss.delta == pytest.approx(expected, rel=1e-6)


def test_delta_is_measured_by_the_distance_and_in_scaled_units():
    distance, rows = pc.Mahalanobis([[4.0, 1.0], [1.0, 1.0]]), np.concatenate(PARTS)
    options = {"n_clusters": 3, "distance": distance}
    solution = pc.cluster(PARTS, loss=AUTO, scale="robust", random_state=1, **options)
    scaled = [solution.scale.forward(part) for part in PARTS]
    far = outlier_scores(
        solution.scale.forward(rows), draw_start(scaled, 1, **options), distance=distance
    )
    expected = np.quantile(far, 0.5, method="inverted_cdf")
    assert solution.loss.delta == pytest.approx(expected, rel=1e-6)


def test_rows_that_mostly_lie_on_centers_have_a_small_delta():
    parts = [np.repeat([[0.0], [8.0]], 20, axis=0), np.array([[1.0]])]
    solution = pc.cluster(parts, n_clusters=2, loss=AUTO, random_state=0)
    assert solution.loss.delta == pytest.approx(1e-3 * np.concatenate(parts).std())


@pytest.mark.parametrize("scale", ["none", "robust"])
def test_a_run_with_the_chosen_delta_is_the_same_on_every_runtime(scale):
    options = OPTIONS | {"scale": scale, "random_state": 0}
    auto, loopback = (
        pc.cluster(PARTS, loss=AUTO, runtime=each, **options) for each in ("simulator", "loopback")
    )
    assert np.array_equal(auto.centers, loopback.centers)
    assert auto.certificate == loopback.certificate
    assert auto.loss == loopback.loss
    given = pc.cluster(PARTS, loss=pc.Huber(auto.loss.delta), **options)
    assert np.array_equal(auto.centers, given.centers)
    # The choice of delta is part of the set-up.
    assert auto.certificate.setup_messages > given.certificate.setup_messages
    assert auto.certificate.messages == given.certificate.messages


def test_estimators_choose_the_delta_of_cluster():
    X, users = np.concatenate(PARTS), np.repeat([0, 2, 3, 4], [30, 2, 25, 40])
    parts = [X[users == user] for user in (0, 2, 3, 4)]
    clusterer = pc.PeerClustering(3, loss=AUTO, scale="robust", random_state=0)
    detector = pc.PeerOutlierDetector(3, random_state=0)
    expected = pc.cluster(parts, n_clusters=3, loss=AUTO, scale="robust", random_state=0).loss
    assert clusterer.fit(X, users=users).solution_.loss == expected
    assert detector.fit(X, users=users).delta_ == expected.delta


def test_a_saved_solution_has_the_chosen_delta(tmp_path):
    solution = pc.cluster(PARTS, n_clusters=3, loss=AUTO, random_state=0)
    solution.save(tmp_path / "solution.npz")
    assert pc.Solution.load(tmp_path / "solution.npz").loss == solution.loss


def test_a_loss_without_a_number_computes_nothing():
    for call in (lambda: AUTO.value(1.0), lambda: AUTO.gamma(1.0)):
        with pytest.raises(ParameterError, match="`delta` of Huber must be a number here"):
            call()
    with pytest.raises(ParameterError, match=r"must be a number > 0 or 'auto'\. Got 'atuo'"):
        pc.Huber("atuo")
