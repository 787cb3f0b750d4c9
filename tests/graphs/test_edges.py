"""Graphs from pairs and from networkx, and what `cluster(graph=...)` takes."""

import itertools
import re

import networkx as nx
import numpy as np
import pytest
from graph_examples import CITIES, connected_pairs
from hypothesis import given, settings

from peerclust import graphs
from peerclust.errors import GraphError, ParameterError


def test_string_nodes_become_sorted_names():
    graph = graphs.from_edges(CITIES)
    assert graph.names == ("bern", "kyiv", "oslo", "rome")
    assert graph.neighbors(0).tolist() == [1, 2, 3]
    assert graph.neighbors(2).tolist() == [0, 3]


def test_names_of_digits_are_sorted_by_size():
    pairs = [(str(user), str(user + 1)) for user in range(1, 12)]
    assert graphs.from_edges(pairs).names == tuple(map(str, range(1, 13)))


def test_names_that_are_exactly_the_numbers_of_users_are_numbers():
    graph = graphs.from_edges([(str(user), str((user + 1) % 12)) for user in range(12)])
    assert graph.names is None
    assert graph == graphs.ring(12)


def test_pairs_may_come_in_any_form():
    pairs = [(0, 1), (1, 2), (2, 0)]
    forms = [iter(pairs), np.array(pairs), np.array(pairs, dtype=np.uint8), map(list, pairs)]
    for form in [*forms, [*pairs, *pairs, (1, 0), (2, 2)], nx.cycle_graph(3).edges]:
        graph = graphs.from_edges(form)
        assert graph == graphs.ring(3)
        assert graph.names is None


def test_arrays_given_are_neither_kept_nor_locked():
    pairs = np.array([[0, 1], [1, 2]])
    graph = graphs.from_edges(pairs)
    pairs[:] = 0
    assert graph == graphs.path(3)


@pytest.mark.parametrize(
    ("pairs", "m", "sentence"),
    [
        ([(0, 1), (3, 4), (1, 2)], None, "users 3, 4 cannot reach user 0."),
        ([(0, 1), (2, 3)], None, "users 2, 3 cannot reach user 0."),
        ([(0, 1), (2, 3), (3, 4)], None, "users 0, 1 cannot reach user 2."),
        ([(0, 1)], 4, "user 2 cannot reach user 0."),
        ([(1, 2)], None, "user 0 cannot reach user 1."),
        ([], 2, "user 0 cannot reach user 1."),
        ([(0, 0), (1, 1)], None, "user 1 cannot reach user 0."),
        ([(0, 10**30)], None, "user 1 cannot reach user 0."),
        ([("a", "b"), ("c", "d")], None, "users c, d cannot reach user a."),
        (
            [*itertools.pairwise(range(20)), *itertools.pairwise(range(20, 37))],
            None,
            "users 20, 21, 22, 23, 24 and 12 more cannot reach user 0.",
        ),
    ],
)
def test_disconnected_pairs_are_refused_naming_the_smallest_component(pairs, m, sentence):
    message = f"`edges` of from_edges must connect all users: {sentence}"
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        graphs.from_edges(pairs, m=m)


@given(connected_pairs(least=1), connected_pairs(least=1))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_two_graphs_side_by_side_are_always_refused(one, other):
    pairs = one[1] + [(u + one[0], v + one[0]) for u, v in other[1]]
    with pytest.raises(GraphError, match="must connect all users"):
        graphs.from_edges(pairs, m=one[0] + other[0])


@pytest.mark.parametrize(
    ("pairs", "m", "message"),
    [
        (5, None, "must be pairs. Got 5."),
        (None, None, "must be pairs. Got None."),
        ([1, 2], None, "must be pairs. Got [1, 2]."),
        ([(0, 1, 2)], None, "must be pairs. Got [(0, 1, 2)]."),
        ([(0,)], None, "must be pairs. Got [(0,)]."),
        ([([0], [1])], None, "must be pairs. Got [([0], [1])]."),
        ([(0, 1.0)], None, "must be of whole numbers or of strings. Got float and int."),
        ([(0, "a")], None, "must be of whole numbers or of strings. Got int and str."),
        ([(False, True)], None, "must be of whole numbers or of strings. Got bool."),
        ([(None, 1)], None, "must be of whole numbers or of strings. Got NoneType and int."),
        ([(0, 1), (1, 7)], 5, "must be of users 0 to 4. Got 7."),
        ([(0, 1), (1, -1)], 5, "must be of users 0 to 4. Got -1."),
        ([(-1, -2)], None, "must be of users 0 to 0. Got -2."),
    ],
)
def test_malformed_pairs_are_refused(pairs, m, message):
    with pytest.raises(ParameterError, match=re.escape(f"`edges` of from_edges {message}")):
        graphs.from_edges(pairs, m=m)


def test_a_number_of_users_that_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match="`m` of from_edges must be a whole number >= 1"):
        graphs.from_edges([(0, 1)], m=0)
    with pytest.raises(GraphError, match=r"`m` of from_edges must be 4, the users named\. Got 5\."):
        graphs.from_edges(CITIES, m=5)
    assert graphs.from_edges(CITIES, m=4).m == 4
    with pytest.raises(
        GraphError, match=r"must name at least one user, and no two alike\. Got none"
    ):
        graphs.from_edges([])


def test_networkx_nodes_keep_their_order_and_become_names():
    graph = graphs.from_networkx(nx.Graph([("z", "a"), ("a", 7)]))
    assert graph.names == ("z", "a", "7")
    assert graph == graphs.path(3)


def test_networkx_nodes_that_are_numbers_are_users_whatever_their_order():
    graph = graphs.from_networkx(nx.Graph([(0, 2), (2, 1)]))
    assert graph.names is None
    assert graph.neighbors(2).tolist() == [0, 1]


def test_directions_weights_loops_and_parallel_edges_of_networkx_are_dropped():
    several = nx.MultiDiGraph()
    several.add_weighted_edges_from(
        [(0, 1, 5.0), (1, 0, 2.0), (0, 1, 1.0), (1, 1, 3.0), (2, 1, -1.0)]
    )
    assert graphs.from_networkx(several) == graphs.path(3)
    assert graphs.from_networkx(nx.DiGraph([(0, 1), (2, 1)])) == graphs.path(3)


def test_networkx_graphs_that_cannot_be_used_are_refused():
    with pytest.raises(ParameterError, match=re.escape("must be a networkx graph. Got [1, 2].")):
        graphs.from_networkx([1, 2])
    with pytest.raises(GraphError, match="`g` of from_networkx must name at least one user"):
        graphs.from_networkx(nx.Graph())
    with pytest.raises(GraphError, match=r"no two alike\. Got two alike"):
        graphs.from_networkx(nx.Graph([(1, "1")]))
    with pytest.raises(
        GraphError, match="`g` of from_networkx must connect all users: user c cannot"
    ):
        graphs.from_networkx(nx.from_dict_of_lists({"a": ["b"], "b": ["a"], "c": []}))


def test_resolve_takes_names_graphs_and_networkx_graphs():
    assert graphs.resolve("ring", 10) == graphs.ring(10)
    assert graphs.resolve("path", 10) == graphs.path(10)
    assert graphs.resolve("star", 10) == graphs.star(10)
    assert graphs.resolve("complete", 10) == graphs.complete(10)
    assert graphs.resolve("exponential", 10) == graphs.exponential(10)
    assert graphs.resolve(nx.cycle_graph(10), 10) == graphs.ring(10)
    graph = graphs.ring(10)
    assert graphs.resolve(graph, 10) is graph


@pytest.mark.parametrize(
    ("m", "name"), [(1, "1, 1"), (7, "1, 7"), (12, "3, 4"), (36, "6, 6"), (50, "5, 10")]
)
def test_resolve_makes_the_most_square_grid(m, name):
    assert graphs.resolve("grid", m).name == f"grid({name})"


@pytest.mark.parametrize("m", [1, 2, 15, 16, 17, 18, 100])
def test_the_automatic_graph_is_complete_up_to_16_users_and_exponential_above(m):
    expected = "complete" if m <= 16 else "exponential"
    assert graphs.resolve("auto", m).name == f"{expected}({m})"


@pytest.mark.parametrize(
    ("graph", "name"), [(graphs.ring(5), "ring(5)"), (nx.cycle_graph(5), "from_networkx(...)")]
)
def test_resolve_refuses_another_number_of_users(graph, name):
    message = (
        "`graph` of cluster must have as many nodes as there are users."
        f" Got 5 nodes in {name} and 10 users."
    )
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        graphs.resolve(graph, 10)


def test_resolve_refuses_what_is_no_graph():
    with pytest.raises(ParameterError, match=r"Got 'rings'\. Did you mean 'ring'\?"):
        graphs.resolve("rings", 5)
    for name in graphs.NAMED:
        with pytest.raises(ParameterError, match=f"must be one of .*'{name}'"):
            graphs.resolve("hypercube", 8)
    for bad in (None, 5, [(0, 1)], np.eye(5)):
        with pytest.raises(
            ParameterError, match="must be a Graph, a networkx graph or one of 'ring'"
        ):
            graphs.resolve(bad, 5)
    with pytest.raises(
        GraphError, match="`graph` of cluster must connect all users: user 4 cannot"
    ):
        graphs.resolve(nx.disjoint_union(nx.path_graph(4), nx.empty_graph(1)), 5)
