"""Plots: the plane of most variance, and axes that the caller may give."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.decomposition import PCA

from peerclust import plots
from peerclust.errors import ParameterError


def test_the_principal_plane_is_that_of_scikit_learn():
    points = np.random.default_rng(0).normal(size=(50, 5)) * [1, 5, 2, 9, 3] + 7
    mean, plane = plots.principal_plane(points)
    expected = PCA(2).fit(points)
    np.testing.assert_allclose(mean, expected.mean_)
    np.testing.assert_allclose(np.abs(plane.T), np.abs(expected.components_), atol=1e-12)


@pytest.mark.parametrize("n", [1, 2])
def test_few_points_have_a_plane_too(n):
    _, plane = plots.principal_plane(np.eye(n, 4))
    np.testing.assert_allclose(plane.T @ plane, np.eye(2), atol=1e-12)


def test_axes_are_made_only_if_none_are_given():
    plt.close("all")
    given = Figure().add_subplot()
    assert plots.get_axes(given, "Solution.plot") is given
    assert plt.get_fignums() == []
    made = plots.get_axes(None, "Solution.plot")
    assert plt.get_fignums() == [made.figure.number]
    plt.close("all")
    with pytest.raises(ParameterError, match=r"^`ax` of Solution.plot must be axes .* Got 3\.$"):
        plots.get_axes(3, "Solution.plot")
