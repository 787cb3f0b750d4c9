"""Random graphs, and graphs by name: what is drawn, and what is refused."""

import math
import re

import numpy as np
import pytest

from peerclust import graphs
from peerclust.errors import ParameterError


@pytest.mark.parametrize(("build", "value"), [(graphs.erdos_renyi, 0.2), (graphs.geometric, 0.3)])
def test_random_graphs_repeat_with_their_seed(build, value):
    first = build(40, value, random_state=3)
    assert first == build(40, value, random_state=3)
    assert first == build(40, value, random_state=np.random.default_rng(3))
    assert first != build(40, value, random_state=4)
    rng = np.random.default_rng(3)
    assert build(40, value, random_state=rng) != build(40, value, random_state=rng)
    assert build(40, value).m == 40


def test_erdos_renyi_draws_each_pair_with_probability_p():
    # With p = 0.7 nearly every draw of 12 users is connected, so that redrawing shifts nothing.
    draws = 600
    rng = np.random.default_rng(0)
    mean = (
        sum(graphs.erdos_renyi(12, 0.7, random_state=rng).adjacency.toarray() for _ in range(draws))
        / draws
    )
    pairs = mean[np.triu_indices(12, 1)]
    deviation = math.sqrt(0.7 * 0.3 / draws)
    assert abs(pairs - 0.7).max() < 4.5 * deviation
    assert abs(pairs.mean() - 0.7) < 4.5 * deviation / math.sqrt(66)


def test_erdos_renyi_with_p_one_is_complete():
    for m in (1, 2, 3, 10):
        assert graphs.erdos_renyi(m, 1.0, random_state=0) == graphs.complete(m)


def test_geometric_joins_exactly_the_points_within_the_radius():
    graph = graphs.geometric(50, 0.35, random_state=1)
    points = np.random.default_rng(1).random((50, 2))  # connected at the first draw
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_array_equal(graph.adjacency.toarray(), (distances <= 0.35) & (distances > 0))


def test_geometric_wider_than_the_square_is_complete():
    for m in (1, 2, 10):
        assert graphs.geometric(m, 1.5, random_state=0) == graphs.complete(m)


@pytest.mark.parametrize("build", [graphs.erdos_renyi, graphs.geometric])
@pytest.mark.parametrize("m", [2, 10, 100])
def test_too_sparse_random_graphs_are_refused_with_advice_that_works(build, m):
    with pytest.raises(ParameterError, match=f"connect {m} users; none of 1000") as error:
        build(m, 1e-6, random_state=0)
    advice = float(re.search(r"try (.*)\.$", str(error.value))[1])
    assert build(m, advice, random_state=0).m == m


@pytest.mark.parametrize(
    ("build", "value"), [(graphs.erdos_renyi, "p"), (graphs.geometric, "radius")]
)
def test_bad_parameters_of_random_graphs_are_refused(build, value):
    of = build.__name__
    for bad in (0, -0.5, math.nan, math.inf, "0.5", None, True):
        with pytest.raises(ParameterError, match=f"`{value}` of {of} must be a number > 0"):
            build(5, bad)
    for bad in (0, -1, 2.0, "5", None):
        with pytest.raises(ParameterError, match=f"`m` of {of} must be a whole number >= 1"):
            build(bad, 0.5)
    for bad in (-1, "seed", 1.5):
        with pytest.raises(ParameterError, match=f"`random_state` of {of} must be None, a whole"):
            build(5, 0.9, random_state=bad)


def test_a_probability_above_one_is_refused():
    with pytest.raises(ParameterError, match=re.escape("must be a number > 0 and <= 1. Got 1.5.")):
        graphs.erdos_renyi(5, 1.5)


@pytest.mark.parametrize(
    "build",
    [graphs.ring, graphs.path, graphs.star, graphs.complete, graphs.exponential, graphs.auto],
)
@pytest.mark.parametrize("bad", [0, -3, 2.5, "5", None, True])
def test_named_graphs_refuse_a_bad_number_of_users(build, bad):
    message = f"`m` of {build.__name__} must be a whole number >= 1. Got {bad!r}."
    with pytest.raises(ParameterError, match=re.escape(message)):
        build(bad)


@pytest.mark.parametrize(
    ("rows", "columns", "which"), [(0, 3, "rows"), (3, 0, "columns"), ("2", 2, "rows")]
)
def test_grid_refuses_bad_sides(rows, columns, which):
    with pytest.raises(ParameterError, match=f"`{which}` of grid must be a whole number >= 1"):
        graphs.grid(rows, columns)
