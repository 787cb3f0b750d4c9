"""Eigenvalues and diameters, exact or bounded, of small and of large graphs."""

import copy
import math
import re
import tracemalloc

import networkx as nx
import numpy as np
import pytest
from graph_examples import (
    ALL_GRAPHS,
    EVERY_GRAPH,
    connected_pairs,
    dense_eigenvalues,
    exponential_twin,
    farthest_by_breadth_first_search,
    named,
)
from hypothesis import given, settings
from scipy.sparse.csgraph import dijkstra, shortest_path

from peerclust import graphs


def test_lambda_max_and_lambda_2_are_exact_eigenvalues():
    for graph, twin in ALL_GRAPHS:
        dense = nx.laplacian_matrix(twin, weight=None).toarray().astype(float)
        eigenvalues = np.linalg.eigvalsh(dense)
        smallest = eigenvalues[1] if graph.m > 1 else 0
        assert graph.lambda_max.exact, named(graph)
        assert graph.lambda_2.exact, named(graph)
        assert graph.lambda_max.value == pytest.approx(eigenvalues[-1], abs=1e-11), named(graph)
        assert graph.lambda_2.value == pytest.approx(smallest, abs=1e-11), named(graph)


def test_diameter_is_exact():
    for graph, twin in ALL_GRAPHS:
        assert graph.diameter.exact, named(graph)
        assert graph.diameter.value == nx.diameter(twin), named(graph)


def test_the_bound_on_lambda_max_is_a_bound():
    for graph in EVERY_GRAPH:
        if graph.m > 1:
            bound = graphs.graph.lambda_max_bound(graph)
            assert dense_eigenvalues(graph)[-1] - 1e-9 <= bound <= graph.m, named(graph)


def test_large_graphs_report_bounds_and_say_so(monkeypatch):
    monkeypatch.setattr(graphs.graph, "DENSE", 1)
    for graph in EVERY_GRAPH:
        if graph.m == 1 or graph.known:
            continue
        large = copy.copy(graph)
        eigenvalues, diameter = dense_eigenvalues(graph), farthest_by_breadth_first_search(graph)
        measures = large.lambda_max, large.lambda_2, large.diameter
        assert not any(measure.exact for measure in measures), named(graph)
        kinds = [re.split(", an? ", measure.how)[-1] for measure in measures]
        assert kinds == ["upper bound", "lower bound", "upper bound"], named(graph)
        assert eigenvalues[-1] <= large.lambda_max.value + 1e-9, named(graph)
        assert 0 < large.lambda_2.value <= eigenvalues[1] + 1e-9, named(graph)
        assert diameter <= large.diameter.value <= min(2 * diameter, graph.m - 1), named(graph)


@given(connected_pairs())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_connected_pairs_give_the_graph_of_networkx_and_true_bounds(case):
    m, pairs = case
    graph = graphs.from_edges(pairs)
    twin = nx.Graph(pairs)
    twin.remove_edges_from(list(nx.selfloop_edges(twin)))
    eigenvalues = np.linalg.eigvalsh(nx.laplacian_matrix(twin).toarray().astype(float))
    assert graph.m == m
    assert {(i, j) for i in range(m) for j in graph.neighbors(i).tolist() if i < j} == {
        (min(pair), max(pair)) for pair in twin.edges
    }
    assert graph.lambda_max.value == pytest.approx(eigenvalues[-1])
    assert graph.lambda_2.value == pytest.approx(eigenvalues[1], abs=1e-9)
    assert graph.diameter.value == nx.diameter(twin)
    assert graphs.graph.lambda_max_bound(graph) >= eigenvalues[-1] - 1e-9


@pytest.mark.parametrize("m", [*range(1, 71), 127, 128, 129, 300, 511])
def test_an_exponential_graph_knows_its_eigenvalues_and_diameter(m):
    graph, twin = graphs.exponential(m), exponential_twin(m)
    eigenvalues = np.linalg.eigvalsh(nx.laplacian_matrix(twin).toarray().astype(float))
    assert graph.known.lambda_max == pytest.approx(eigenvalues[-1], abs=1e-11)
    assert graph.known.lambda_2 == pytest.approx(eigenvalues[:2][-1], abs=1e-11)
    assert graph.known.diameter == shortest_path(nx.to_scipy_sparse_array(twin)).max()
    assert graph.adjacency.toarray().tolist() == nx.to_numpy_array(twin, range(m)).tolist()
    assert graph.degree.max() <= 2 * math.ceil(math.log2(m))


def test_an_exponential_graph_of_1000_users_has_20_neighbors_each_and_diameter_5():
    graph = graphs.exponential(1000)
    assert set(graph.degree) == {20}
    assert graph.diameter.value == 5


@pytest.mark.parametrize("m", [4096, 65_537, 1_000_000])
def test_eigenvalues_of_a_large_exponential_graph_are_those_of_its_first_row(m):
    # The Fourier transform of the first row of a circulant matrix is its spectrum.
    graph, row = graphs.exponential(m), np.zeros(m)
    row[graph.neighbors(0)] = -1
    row[0] = graph.neighbors(0).size
    eigenvalues = np.sort(np.fft.fft(row).real)
    assert graph.lambda_max.value == pytest.approx(eigenvalues[-1], rel=1e-13)
    assert graph.lambda_2.value == pytest.approx(eigenvalues[1], rel=1e-12)
    if m < 100_000:
        assert graph.diameter.value == dijkstra(graph.adjacency, indices=m // 3).max()


@pytest.mark.parametrize("build", [graphs.ring, graphs.path, graphs.star])
def test_a_million_users_fit_in_a_gigabyte(build):
    tracemalloc.start()
    try:
        graph = build(1_000_000)
        assert graph.adjacency.shape == graph.laplacian.shape == (1_000_000, 1_000_000)
        assert graph.lambda_max.exact
        assert graph.lambda_2.exact
        assert graph.diameter.exact
        assert tracemalloc.get_traced_memory()[1] < 1e9
    finally:
        tracemalloc.stop()


def test_an_exponential_graph_of_a_million_users_takes_little_more_memory_than_its_edges():
    tracemalloc.start()
    try:
        graph = graphs.exponential(1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * graph.indices.nbytes
    finally:
        tracemalloc.stop()


def test_small_eigenvalues_of_a_large_ring_keep_their_digits():
    # The series 4 (x - x^3 / 6 + ...)^2 of 4 sin(x)^2, whose next term is below 1e-22 of it.
    x = math.pi / 1_000_000
    assert graphs.ring(1_000_000).lambda_2.value == pytest.approx(
        4 * (x - x**3 / 6) ** 2, rel=1e-14
    )
    assert graphs.path(500_000).lambda_2.value == graphs.ring(1_000_000).lambda_2.value


def test_bounds_of_a_large_unnamed_ring_and_tree_are_found():
    users = np.arange(100_000)
    ring = graphs.from_edges(np.stack([users, np.roll(users, -1)], axis=1))
    assert ring == graphs.ring(100_000)
    assert ring.lambda_max.value == 4
    assert ring.diameter.value == 99_999
    assert 0 < ring.lambda_2.value <= graphs.ring(100_000).lambda_2.value
    tree = graphs.from_edges([(user, (user - 1) // 2) for user in range(1, 8191)])
    assert tree.diameter.value == 24
    assert type(tree.m) is type(ring.m) is int
