"""Breadth-first trees from the center of a graph."""

import copy

import networkx as nx
import numpy as np
import pytest
from graph_examples import EVERY_GRAPH, connected_pairs, named
from hypothesis import given, settings

from peerclust import graphs
from peerclust.errors import ParameterError


def to_networkx(graph):
    return nx.from_edgelist(graph.pairs) if graph.edges else nx.empty_graph(1)


def check_tree(graph):
    """Check everything but the root, user by user, with the distances of networkx."""
    tree, twin = graph.tree, to_networkx(graph)
    depth = nx.single_source_shortest_path_length(twin, tree.root)
    assert tree.depth.tolist() == [depth[user] for user in range(graph.m)], named(graph)
    assert tree.height == nx.eccentricity(twin, tree.root), named(graph)
    for user in range(graph.m):
        nearer = [other for other in twin[user] if depth[other] == depth[user] - 1]
        assert tree.parent[user] == min(nearer, default=-1), named(graph)
        children = [other for other in range(graph.m) if tree.parent[other] == user]
        assert tree.children(user).tolist() == children, named(graph)


def center_of(graph):
    eccentricity = nx.eccentricity(to_networkx(graph))
    return min(eccentricity, key=lambda user: (eccentricity[user], user))


def test_the_tree_is_one_of_shortest_paths_from_the_first_user_of_the_center():
    for graph in EVERY_GRAPH:
        check_tree(graph)
        assert graph.tree.root == center_of(graph), named(graph)


@given(connected_pairs())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_graph_has_its_tree_from_its_center(case):
    graph = graphs.from_edges(case[1])
    check_tree(graph)
    assert graph.tree.root == center_of(graph)


def test_trees_of_large_graphs_are_of_shortest_paths_too(monkeypatch):
    monkeypatch.setattr(graphs.graph, "DENSE", 0)
    for graph in EVERY_GRAPH:
        check_tree(copy.copy(graph))


@pytest.mark.parametrize(
    ("graph", "root", "height"),
    [
        (graphs.ring(10), 0, 5),
        (graphs.star(7), 0, 1),
        (graphs.star(7).reordered([1, 2, 3, 0, 4, 5, 6]), 3, 1),
        (graphs.path(5), 2, 2),
        (graphs.path(6), 2, 3),
        (graphs.path(1), 0, 0),
        (graphs.complete(4), 0, 1),
        (graphs.exponential(1000), 0, 5),
        (graphs.grid(3, 5), 7, 3),
    ],
    ids=repr,
)
def test_heights_of_some_trees_are_as_counted_by_hand(graph, root, height):
    assert (graph.tree.root, graph.tree.height) == (root, height)


@pytest.mark.parametrize(
    ("graph", "radius"),
    [
        (graphs.path(100_000), 50_000),
        (graphs.star(100_000), 1),
        (graphs.grid(301, 301), 300),
        (graphs.ring(100_000), 50_000),
        (graphs.exponential(100_000), graphs.exponential(100_000).diameter.value),
        (graphs.from_edges([(user, (user - 1) // 2) for user in range(1, 8191)]), 12),
    ],
    ids=repr,
)
def test_trees_of_large_graphs_are_as_low_as_their_radius(graph, radius):
    tree = graph.tree
    assert tree.height == radius
    others = np.flatnonzero(tree.parent >= 0)
    assert others.size == graph.m - 1
    assert (tree.depth[tree.parent[others]] == tree.depth[others] - 1).all()


@pytest.mark.parametrize(
    "graph", [graphs.geometric(1600, 0.06, random_state=0), graphs.exponential(70)], ids=repr
)
def test_copies_of_a_graph_grow_the_same_tree_and_nobody_can_change_it(graph):
    first, second = graph.tree, copy.copy(graph).tree
    assert graph.tree is first is not second
    assert (first.root, first.height) == (second.root, second.height)
    for name in ("parent", "depth"):
        array = getattr(first, name)
        np.testing.assert_array_equal(array, getattr(second, name))
        assert array.dtype == np.int64
        assert not array.flags.writeable
    assert not first.children(first.root).flags.writeable
    with pytest.raises(AttributeError):
        first.root = 1


def test_children_refuses_who_is_no_user():
    for stranger in (-1, 5, 1.0, "0", None, True):
        with pytest.raises(ParameterError, match="`i` of children must be"):
            graphs.ring(5).tree.children(stranger)
