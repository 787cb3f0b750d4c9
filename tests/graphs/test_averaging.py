"""Factors whose steps turn numbers into their average."""

import math

import numpy as np
import pytest
from graph_examples import ALL_GRAPHS, RANDOM_GRAPHS, named

from peerclust import graphs
from peerclust.errors import GraphError
from peerclust.graphs.averaging import find_factors, order_factors

AVERAGING = [
    *(graph for graph, _ in ALL_GRAPHS),
    *RANDOM_GRAPHS,
    graphs.ring(100),
    graphs.erdos_renyi(10, 0.4, random_state=0),
    graphs.erdos_renyi(400, 0.05, random_state=0),
    graphs.geometric(300, 0.12, random_state=0),
    graphs.grid(8, 8),
    graphs.grid(20, 20),
    graphs.path(100),
    graphs.complete(100),
    graphs.star(100),
]


def test_one_step_per_factor_turns_numbers_into_their_average():
    for graph in AVERAGING:
        rng, m = np.random.default_rng(0), graph.m
        for start in (rng.normal(size=(m, 4)), 100 * rng.random((m, 4)), np.eye(m)):
            x = apply_factors(graph, start, graph.averaging_factors)
            off = np.abs(x - start.mean(axis=0)).max()
            assert off < 1e-12 * np.abs(start).max(), named(graph)


@pytest.mark.parametrize(
    ("graph", "steps"),
    [
        (graphs.ring(1), 0),
        (graphs.ring(2), 1),
        (graphs.ring(10), 5),
        (graphs.ring(11), 5),
        (graphs.ring(100), 50),
        (graphs.path(9), 8),
        (graphs.complete(50), 1),
        (graphs.star(50), 2),
    ],
    ids=repr,
)
def test_there_is_a_factor_for_each_distinct_eigenvalue(graph, steps):
    assert len(graph.averaging_factors) == steps
    eigenvalues = np.linalg.eigvalsh(graph.laplacian.toarray())
    for factor in graph.averaging_factors:
        assert np.abs(1 / factor - eigenvalues).min() < 1e-10 * eigenvalues[-1]
    if steps:
        assert graph.averaging_factors[0] == pytest.approx(1 / eigenvalues[-1])


def test_factors_of_few_users_are_in_the_order_of_leja():
    graph = graphs.erdos_renyi(10, 0.4, random_state=0)
    left = np.linalg.eigvalsh(graph.laplacian.toarray())[1:].tolist()
    order = [left.pop()]
    while left:
        order.append(max(left, key=lambda v: math.prod(abs(v - chosen) for chosen in order)))
        left.remove(order[-1])
    assert graph.averaging_factors == pytest.approx([1 / value for value in order])


def test_of_equally_good_factors_the_smallest_comes_first_so_that_all_users_choose_copy_with():
    values = [2 - 2 * math.cos(math.pi * k / 7) for k in (6, 1, 4, 2, 5, 3)]
    assert graphs.path(7).averaging_factors == pytest.approx([1 / value for value in values])


def test_well_connected_graphs_need_few_factors_however_many_their_users():
    assert len(graphs.erdos_renyi(400, 0.1, random_state=0).averaging_factors) < 60


def test_factors_of_more_users_than_have_their_eigenvalues_computed_are_refused():
    with pytest.raises(GraphError, match=r"at most 1500 users.*needs all eigenvalues. Got 1501"):
        graphs.ring(1501).averaging_factors  # noqa: B018


@pytest.mark.parametrize("accuracy", [1e-12, 1e-8, 1e-4])
@pytest.mark.parametrize(
    "graph",
    [
        graphs.ring(20),
        graphs.grid(6, 7),
        graphs.star(9),
        graphs.complete(8),
        graphs.path(1),
        graphs.erdos_renyi(60, 0.2, random_state=0),
        graphs.erdos_renyi(200, 0.1, random_state=0),
        graphs.geometric(50, 0.3, random_state=0),
    ],
    ids=repr,
)
def test_an_average_is_as_accurate_as_asked_in_no_more_steps(graph, accuracy):
    x = np.random.default_rng(0).normal(size=graph.m)
    factors = graph.find_averaging_factors(accuracy)
    assert len(factors) <= len(graph.averaging_factors)
    off = np.abs(apply_factors(graph, x, factors) - x.mean()).max()
    assert off <= 3 * accuracy * np.abs(x).sum()


def apply_factors(graph, x, factors):
    laplacian = graph.laplacian.toarray()
    for factor in factors:
        x = x - factor * (laplacian @ x)
    return x


def test_chebyshev_is_taken_where_it_needs_fewer_steps_and_alike_on_all_machines():
    graph = graphs.erdos_renyi(200, 0.1, random_state=0)
    eigenvalues = np.linalg.eigvalsh(graph.laplacian.toarray())
    degree = float(graph.degree.max())
    for accuracy in (1e-13, 1e-8, 1e-6):
        by_eigenvalues = order_factors(eigenvalues, degree, accuracy)
        found = find_factors(eigenvalues, degree, accuracy)
        assert len(found) < len(by_eigenvalues)
        # What the best polynomial of this degree leaves, from its definition.
        low, high = eigenvalues[1], eigenvalues[-1]
        best = np.cosh(len(found) * np.arccosh((high + low) / (high - low)))
        assert 1 / best <= accuracy
        left = np.prod([1 - eigenvalues[1:] * factor for factor in found], axis=0)
        assert np.abs(left).max() <= 1.01 * accuracy
        # Another machine's eigenvalues differ in their last bits; the order must not.
        for seed in range(5):
            noise = 1 + 1e-15 * np.random.default_rng(seed).normal(size=len(eigenvalues))
            again = find_factors(np.sort(eigenvalues * noise), degree, accuracy)
            assert np.allclose(again, found, rtol=1e-12)
