"""Clustering of scaled rows, with centers in the rows' own units."""

import numpy as np
import pytest
from five_users import OPTIONS, PARTS, START

import peerclust as pc


def robust(rows):
    low, median, high = np.quantile(rows, (0.25, 0.5, 0.75), axis=0, method="inverted_cdf")
    return median, (high - low) / 1.3489795003921634


UNITS = {"standard": lambda rows: (rows.mean(axis=0), rows.std(axis=0)), "robust": robust}


@pytest.mark.parametrize("scale", UNITS)
@pytest.mark.parametrize("runtime", ["simulator", "loopback"])
@pytest.mark.parametrize("distance", ["euclidean", pc.Mahalanobis([[2.0, 0.3], [0.3, 1.0]])])
def test_scaling_is_clustering_of_scaled_rows_with_centers_in_their_own_units(
    distance, runtime, scale
):
    parts = [part * [1.0, 300.0] + [5.0, -1e4] for part in PARTS]
    rows = np.concatenate(parts)
    mean, deviation = UNITS[scale](rows)
    options = OPTIONS | {"init": rows[[0, 40, 80]], "distance": distance, "trace": True}
    scaled = pc.cluster(parts, scale=scale, runtime=runtime, **options)
    options["init"] = (rows[[0, 40, 80]] - mean) / deviation
    by_hand = pc.cluster([(part - mean) / deviation for part in parts], **options)
    np.testing.assert_allclose(scaled.centers, by_hand.centers * deviation + mean, rtol=1e-8)
    assert np.array_equal(np.concatenate(scaled.labels), np.concatenate(by_hand.labels))
    assert scaled.alpha == by_hand.alpha
    assert scaled.certificate.rounds == by_hand.certificate.rounds
    spread = np.sqrt(((rows / deviation).std(axis=0) ** 2).sum())
    assert scaled.certificate.spread == pytest.approx(spread, rel=1e-12)
    for name in ("cost", "pooled_cost", "disagreement", "spread"):
        ours, theirs = (getattr(each.certificate, name) for each in (scaled, by_hand))
        assert ours == pytest.approx(theirs, rel=1e-7), name
    np.testing.assert_allclose(scaled.trace.cost, by_hand.trace.cost, rtol=1e-7)
    # Two sums over a ring of five, each with a maximum before it: 20 messages and 8. Quantiles take
    # another maximum and 11 sums.
    extra = scaled.certificate.setup_messages - by_hand.certificate.setup_messages
    assert extra == 2 * (20 + 8) + (20 + 11 * 8) * (scale == "robust")
    for each in (scaled, by_hand):
        y = rows if each is scaled else (rows - mean) / deviation
        assert np.array_equal(each.predict(y), np.concatenate(by_hand.labels))
    np.testing.assert_allclose(
        scaled.outlier_scores(rows), by_hand.outlier_scores((rows - mean) / deviation), rtol=1e-7
    )


@pytest.mark.parametrize(
    "options",
    [{"init": "k-means++"}, {"init": "random", "rho": "auto"}, {"scale": "robust"}],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scaled_runs_are_the_same_on_every_runtime(options, dtype):
    parts = [part.astype(dtype) for part in PARTS]
    options = OPTIONS | {"rounds": 30, "random_state": 0, "scale": "standard"} | options
    a, b = (pc.cluster(parts, runtime=each, **options) for each in ("simulator", "loopback"))
    assert np.array_equal(a.centers, b.centers)
    assert np.array_equal(a.scale.mean, b.scale.mean)
    assert np.array_equal(a.scale.deviation, b.scale.deviation)
    assert a.certificate == b.certificate
    assert a.centers.dtype == np.float64


def test_units_of_a_feature_do_not_matter_to_scaled_clustering():
    a = pc.cluster(PARTS, scale="standard", **OPTIONS)
    unit = np.array([1000.0, 1.0])
    b = pc.cluster(
        [part * unit for part in PARTS], scale="standard", **OPTIONS | {"init": START * unit}
    )
    assert np.array_equal(np.concatenate(a.labels), np.concatenate(b.labels))
    np.testing.assert_allclose(b.centers, a.centers * unit, rtol=1e-8)
    assert b.certificate.pooled_cost == pytest.approx(a.certificate.pooled_cost, rel=1e-8)


def test_units_that_are_powers_of_two_do_not_change_a_bit():
    # Other units round differently, and k-means++ draws depend on the bits of the rows.
    options = OPTIONS | {"init": "k-means++", "random_state": 0, "scale": "standard"}
    unit = np.array([1024.0, 0.25])
    a, b = pc.cluster(PARTS, **options), pc.cluster([part * unit for part in PARTS], **options)
    assert np.array_equal(b.centers, a.centers * unit)
    assert b.certificate == a.certificate


def test_scaled_rows_that_are_all_equal_converge():
    solution = pc.cluster([np.full((5, 2), 3.7)] * 3, n_clusters=1, scale="standard")
    assert solution.status.converged
    np.testing.assert_allclose(solution.consensus, 3.7, rtol=1e-12)


def test_without_a_scale_nothing_is_scaled_or_sent():
    solution = pc.cluster(PARTS, **OPTIONS)
    assert solution.scale is None
    # 114 messages agree on the curvature at the start and on the certificate.
    assert solution.certificate.setup_messages == 114
