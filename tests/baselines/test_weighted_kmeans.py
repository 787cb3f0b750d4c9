"""Weighted K-means and K-median: weights and Weiszfeld's step."""

import numpy as np
import pytest

from peerclust.baselines.weighted_kmeans import descend


@pytest.mark.parametrize("median", [False, True])
def test_a_weight_counts_as_that_many_points(median):
    rng = np.random.default_rng(7)
    points, counts = rng.normal(size=(20, 2)), rng.integers(0, 4, 20)
    x = rng.normal(size=(3, 2))
    one = descend(points, counts.astype(float), x, median=median, steps=7)
    each = np.repeat(points, counts, axis=0)
    np.testing.assert_allclose(
        one, descend(each, np.ones(len(each)), x, median=median, steps=7), atol=1e-12
    )


def test_weiszfelds_step_leaves_a_point_that_is_no_median_and_stays_at_one_that_is():
    points = np.array([[0.0, 0.0], [4.0, 0.0], [-4.0, 0.5]])  # an obtuse angle at the first
    for start in points:
        x = descend(points, np.ones(3), start[None], median=True, steps=5000)
        np.testing.assert_allclose(x[0], points[0], atol=1e-4)
    stays = descend(points, np.ones(3), points[:1], median=True, steps=9)
    np.testing.assert_array_equal(stays, points[:1])
