"""What a graph is: symmetric, connected, without loops, in ascending order, and locked."""

import copy
import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from graph_examples import (
    ALL_GRAPHS,
    CITIES,
    EVERY_GRAPH,
    connected_pairs,
    farthest_by_breadth_first_search,
    named,
)
from hypothesis import given, settings, strategies as st

from peerclust import graphs
from peerclust.errors import ParameterError


def test_neighbors_are_those_of_networkx():
    for graph, twin in ALL_GRAPHS:
        assert graph.m == twin.number_of_nodes(), named(graph)
        for user in range(graph.m):
            assert graph.neighbors(user).tolist() == sorted(twin.neighbors(user)), named(graph)


def test_laplacian_adjacency_and_degree_are_those_of_networkx():
    for graph, twin in ALL_GRAPHS:
        order = range(graph.m)
        laplacian = nx.laplacian_matrix(twin, nodelist=order, weight=None).toarray()
        adjacency = nx.to_numpy_array(twin, order, weight=None)
        for found, expected in (
            (graph.laplacian.toarray(), laplacian),
            (graph.adjacency.toarray(), adjacency),
            (graph.degree, [twin.degree(user) for user in order]),
        ):
            np.testing.assert_array_equal(found, expected, err_msg=named(graph))
        assert graph.edges == twin.number_of_edges(), named(graph)


def test_graph_is_symmetric_connected_and_without_loops():
    for graph in EVERY_GRAPH:
        dense = graph.adjacency.toarray()
        np.testing.assert_array_equal(dense, dense.T, err_msg=named(graph))
        assert not dense.diagonal().any(), named(graph)
        assert set(np.unique(dense)) <= {0.0, 1.0}, named(graph)
        assert farthest_by_breadth_first_search(graph) == graph.diameter.value, named(graph)


def test_rows_ascend_and_types_are_small():
    for graph in EVERY_GRAPH:
        assert graph.indptr.dtype == graph.indices.dtype == np.int32, named(graph)
        assert graph.indptr.shape == (graph.m + 1,), named(graph)
        assert graph.indptr[-1] == graph.indices.size == 2 * graph.edges, named(graph)
        for user in range(graph.m):
            assert (np.diff(graph.neighbors(user)) > 0).all(), named(graph)
        for array in (graph.degree, graph.adjacency, graph.laplacian):
            assert array.dtype == np.float64, named(graph)
        assert graph.adjacency.has_canonical_format, named(graph)
        assert graph.laplacian.has_canonical_format, named(graph)


@given(connected_pairs(), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_reordering_renumbers_users_and_keeps_the_measures(case, random):
    m, pairs = case
    graph = graphs.from_edges([(f"n{u:02}", f"n{v:02}") for u, v in pairs])
    order = random.sample(range(m), m)
    moved = graph.reordered(order)
    assert moved.names == tuple(graph.names[node] for node in order)
    np.testing.assert_array_equal(
        moved.adjacency.toarray(), graph.adjacency.toarray()[np.ix_(order, order)]
    )
    assert moved.lambda_max.value == pytest.approx(graph.lambda_max.value)
    assert moved.diameter == graph.diameter
    assert moved.reordered(np.argsort(order)) == graph


def test_reordered_named_graph_keeps_its_closed_forms():
    moved = graphs.star(4).reordered([1, 0, 2, 3])
    assert moved.neighbors(1).tolist() == [0, 2, 3]
    assert moved.lambda_max == graphs.star(4).lambda_max


@pytest.mark.parametrize(
    "order",
    [[0, 1], [0, 1, 1], [1, 2, 3], [0, 1, 2, 3], "abc", 3, None, np.zeros((3, 3)), [0, 1, ""]],
)
def test_reordering_refuses_what_is_no_permutation(order):
    with pytest.raises(ParameterError, match="`order` of reordered must hold each of 0 to 2 once"):
        graphs.ring(3).reordered(order)


def test_two_graphs_are_equal_if_their_edges_are():
    assert graphs.ring(3) == graphs.complete(3)
    assert hash(graphs.ring(3)) == hash(graphs.complete(3))
    assert graphs.ring(2) == graphs.path(2) == graphs.star(2) == graphs.grid(2, 1)
    assert graphs.ring(1) == graphs.complete(1) == graphs.from_edges([], m=1)
    assert graphs.ring(4) != graphs.path(4)
    assert graphs.path(4) != graphs.star(4)
    assert graphs.ring(4) != graphs.ring(5)
    assert graphs.ring(4) != "ring(4)"
    assert len({graphs.ring(4), graphs.grid(2, 2).reordered([0, 1, 3, 2])}) == 1


@pytest.mark.parametrize(
    "again", [copy.deepcopy, copy.copy, lambda g: pickle.loads(pickle.dumps(g))]
)
def test_copies_are_equal_and_locked(again):
    graph = graphs.from_edges(CITIES)
    twin = again(graph)
    assert twin == graph
    assert (twin.name, twin.names) == (graph.name, graph.names)
    assert not twin.indices.flags.writeable


def test_nothing_in_a_graph_can_be_written_to():
    for graph in EVERY_GRAPH:
        for array in (graph.indptr, graph.indices, graph.degree, graph.adjacency.data):
            assert not array.flags.writeable, named(graph)
        assert not graph.neighbors(0).flags.writeable, named(graph)
        with pytest.raises(AttributeError):
            graph.m = 3


def test_products_with_locked_matrices_work():
    x = np.arange(12.0).reshape(6, 2)
    graph = graphs.grid(2, 3)
    np.testing.assert_array_equal(graph.adjacency @ x, graph.adjacency.toarray() @ x)
    np.testing.assert_array_equal(graph.laplacian @ x, graph.laplacian.toarray() @ x)
    np.testing.assert_array_equal(graph.laplacian @ np.ones(6), np.zeros(6))


def test_repr_names_the_graph_and_its_size():
    assert repr(graphs.grid(2, 3)) == "<Graph grid(2, 3): m=6, edges=7>"
    assert repr(graphs.from_edges(CITIES)) == "<Graph from_edges(...): m=4, edges=4>"
    assert repr(graphs.erdos_renyi(3, 1)) == "<Graph erdos_renyi(3, 1): m=3, edges=3>"


def test_neighbors_refuses_who_is_no_user():
    for stranger in (-1, 5, 1.0, "0", None, True):
        with pytest.raises(ParameterError, match="`i` of neighbors must be"):
            graphs.ring(5).neighbors(stranger)


def test_importing_graphs_waits_for_neither_networkx_nor_numba():
    code = "import sys, peerclust.graphs; print({'networkx', 'numba'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "graph", [graphs.ring(5), graphs.grid(2, 3), graphs.erdos_renyi(8, 0.4, random_state=0)]
)
def test_pairs_are_the_edges_of_the_adjacency_matrix_each_once(graph):
    above = np.argwhere(np.triu(graph.adjacency.toarray()))
    assert graph.pairs == [tuple(pair) for pair in above.tolist()]
