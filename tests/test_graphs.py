import copy
import itertools
import math
import pickle
import re
import subprocess
import sys
import tracemalloc
from collections import deque

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from peerclust import graphs
from peerclust.errors import GraphError, ParameterError
from peerclust.graphs.averaging import find_factors, order_factors

CITIES = [("rome", "oslo"), ("oslo", "bern"), ("bern", "rome"), ("bern", "kyiv")]
SIZES = [*range(1, 13), 30, 31, 64]

# Each graph beside one that networkx made, or that was made from pairs found in another way.
ALL_GRAPHS = [
    *((graphs.ring(m), nx.cycle_graph(m)) for m in SIZES if m > 2),
    *((graphs.ring(m), nx.path_graph(m)) for m in (1, 2)),
    *((graphs.path(m), nx.path_graph(m)) for m in SIZES),
    *((graphs.star(m), nx.star_graph(m - 1)) for m in SIZES),
    *((graphs.complete(m), nx.complete_graph(m)) for m in SIZES),
    *(
        (
            graphs.grid(rows, columns),
            nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, columns)),
        )
        for rows, columns in [
            (1, 1),
            (1, 2),
            (1, 7),
            (7, 1),
            (2, 2),
            (2, 3),
            (3, 2),
            (5, 5),
            (4, 9),
        ]
    ),
    *(
        (graphs.from_edges(g.edges, m=g.number_of_nodes()), g)
        for g in (nx.petersen_graph(), nx.karate_club_graph(), nx.balanced_tree(2, 4))
    ),
    *((graphs.from_networkx(g), g) for g in (nx.barbell_graph(6, 3), nx.wheel_graph(9))),
    (graphs.from_edges(CITIES), nx.Graph([(0, 2), (0, 1), (0, 3), (2, 3)])),
    (graphs.from_edges([], m=1), nx.empty_graph(1)),
]
RANDOM_GRAPHS = [
    *(
        graphs.erdos_renyi(m, p, random_state=seed)
        for seed in range(3)
        for m, p in [(2, 0.5), (9, 0.4), (60, 0.1)]
    ),
    *(
        graphs.geometric(m, r, random_state=seed)
        for seed in range(3)
        for m, r in [(2, 0.9), (9, 0.5), (60, 0.25)]
    ),
]
EVERY_GRAPH = [graph for graph, _ in ALL_GRAPHS] + RANDOM_GRAPHS


def named(graph):
    return f"{graph.name}-{graph.m}"


all_graphs = pytest.mark.parametrize(
    ("graph", "twin"), ALL_GRAPHS, ids=[named(graph) for graph, _ in ALL_GRAPHS]
)
every_graph = pytest.mark.parametrize("graph", EVERY_GRAPH, ids=named)


def farthest_by_breadth_first_search(graph):
    """The longest of all shortest paths, one queue a user; -1 if some user is not reached."""
    longest = 0
    for start in range(graph.m):
        steps, queue = {start: 0}, deque([start])
        while queue:
            user = queue.popleft()
            for other in graph.neighbors(user).tolist():
                if other not in steps:
                    steps[other] = steps[user] + 1
                    queue.append(other)
        if len(steps) < graph.m:
            return -1
        longest = max(longest, *steps.values())
    return longest


def dense_eigenvalues(graph):
    dense = np.zeros((graph.m, graph.m))
    for user in range(graph.m):
        dense[user, graph.neighbors(user)] = -1
    return np.linalg.eigvalsh(dense - np.diag(dense.sum(axis=1)))


@st.composite
def connected_pairs(draw, least=2, most=24):
    """A random tree and some more pairs."""
    m = draw(st.integers(least, most))
    tree = [(user, draw(st.integers(0, user - 1))) for user in range(1, m)]
    user = st.integers(0, m - 1)
    return m, tree + draw(st.lists(st.tuples(user, user), max_size=30))


# What a graph is


@all_graphs
def test_neighbors_are_those_of_networkx(graph, twin):
    assert graph.m == twin.number_of_nodes()
    for user in range(graph.m):
        assert graph.neighbors(user).tolist() == sorted(twin.neighbors(user))


@all_graphs
def test_laplacian_adjacency_and_degree_are_those_of_networkx(graph, twin):
    order = range(graph.m)
    laplacian = nx.laplacian_matrix(twin, nodelist=order, weight=None).toarray()
    np.testing.assert_array_equal(graph.laplacian.toarray(), laplacian)
    np.testing.assert_array_equal(graph.degree, [twin.degree(user) for user in order])
    np.testing.assert_array_equal(
        graph.adjacency.toarray(), nx.to_numpy_array(twin, order, weight=None)
    )
    assert graph.edges == twin.number_of_edges()


@all_graphs
def test_lambda_max_and_lambda_2_are_exact_eigenvalues(graph, twin):
    eigenvalues = np.linalg.eigvalsh(nx.laplacian_matrix(twin, weight=None).toarray().astype(float))
    assert graph.lambda_max.exact
    assert graph.lambda_2.exact
    assert graph.lambda_max.value == pytest.approx(eigenvalues[-1], abs=1e-11)
    assert graph.lambda_2.value == pytest.approx(eigenvalues[1] if graph.m > 1 else 0, abs=1e-11)


@all_graphs
def test_diameter_is_exact(graph, twin):
    assert graph.diameter.exact
    assert graph.diameter.value == nx.diameter(twin)


@every_graph
def test_graph_is_symmetric_connected_and_without_loops(graph):
    dense = graph.adjacency.toarray()
    np.testing.assert_array_equal(dense, dense.T)
    assert not dense.diagonal().any()
    assert set(np.unique(dense)) <= {0.0, 1.0}
    assert farthest_by_breadth_first_search(graph) == graph.diameter.value


@every_graph
def test_rows_ascend_and_types_are_small(graph):
    assert graph.indptr.dtype == graph.indices.dtype == np.int32
    assert graph.indptr.shape == (graph.m + 1,)
    assert graph.indptr[-1] == graph.indices.size == 2 * graph.edges
    for user in range(graph.m):
        assert (np.diff(graph.neighbors(user)) > 0).all()
    assert graph.degree.dtype == graph.adjacency.dtype == graph.laplacian.dtype == np.float64
    assert graph.adjacency.has_canonical_format
    assert graph.laplacian.has_canonical_format


@pytest.mark.parametrize("graph", [graph for graph in EVERY_GRAPH if graph.m > 1], ids=named)
def test_bounds_are_bounds(graph):
    eigenvalues, diameter = dense_eigenvalues(graph), farthest_by_breadth_first_search(graph)
    assert eigenvalues[-1] - 1e-9 <= graphs.graph.lambda_max_bound(graph) <= graph.m
    assert diameter <= graphs.graph.diameter_bound(graph) <= min(2 * diameter, graph.m - 1)


@pytest.mark.parametrize(
    "graph", [graph for graph in EVERY_GRAPH if graph.m > 1 and not graph.known], ids=named
)
def test_large_graphs_report_bounds_and_say_so(graph, monkeypatch):
    monkeypatch.setattr(graphs.graph, "DENSE", 1)
    large = copy.copy(graph)
    eigenvalues, diameter = dense_eigenvalues(graph), farthest_by_breadth_first_search(graph)
    measures = large.lambda_max, large.lambda_2, large.diameter
    assert not any(measure.exact for measure in measures)
    assert [re.split(", an? ", measure.how)[-1] for measure in measures] == [
        "upper bound",
        "lower bound",
        "upper bound",
    ]
    assert eigenvalues[-1] <= large.lambda_max.value + 1e-9
    assert 0 < large.lambda_2.value <= eigenvalues[1] + 1e-9
    assert diameter <= large.diameter.value < graph.m


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
    assert graphs.graph.diameter_bound(graph) >= nx.diameter(twin)


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


@every_graph
def test_nothing_in_a_graph_can_be_written_to(graph):
    for array in (graph.indptr, graph.indices, graph.degree, graph.adjacency.data):
        assert not array.flags.writeable
    assert not graph.neighbors(0).flags.writeable
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


# Size


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


def test_importing_graphs_waits_for_neither_networkx_nor_numba():
    code = "import sys, peerclust.graphs; print({'networkx', 'numba'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


# Random graphs


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
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_array_equal(graph.adjacency.toarray(), (apart <= 0.35) & (apart > 0))


def test_geometric_wider_than_the_square_is_complete():
    for m in (1, 2, 10):
        assert graphs.geometric(m, 1.5, random_state=0) == graphs.complete(m)


@pytest.mark.parametrize("build", [graphs.erdos_renyi, graphs.geometric])
@pytest.mark.parametrize("m", [2, 10, 100])
def test_too_sparse_random_graphs_are_refused_with_advice_that_works(build, m):
    with pytest.raises(ParameterError, match=f"connect {m} users, which none of 1000") as error:
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


# Named graphs


@pytest.mark.parametrize("build", [graphs.ring, graphs.path, graphs.star, graphs.complete])
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


# Graphs from pairs


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


# Graphs from networkx


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


# Graphs from files


@pytest.fixture
def write(tmp_path):
    def write(text, name="net.txt"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write


@pytest.mark.parametrize(
    "text",
    [
        "rome oslo\noslo bern\nbern rome\nbern kyiv\n",
        "# sites\r\nrome,oslo\r\noslo , bern\r\n\r\nbern\trome # twice\r\nbern,kyiv",
        "\ufeffrome oslo\noslo bern\nrome bern\n  bern   kyiv\nkyiv bern\nkyiv kyiv",
    ],
)
def test_text_files_hold_two_names_a_line(write, text):
    graph = graphs.from_file(write(text))
    assert graph == graphs.from_edges(CITIES)
    assert graph.names == ("bern", "kyiv", "oslo", "rome")
    assert graph.name == "from_file('net.txt')"
    assert graphs.from_file(str(write(text))) == graph


def test_names_between_commas_may_have_blanks_and_accents(write):
    assert graphs.from_file(write("site A, site B\nsite B, Zürich\n")).names == (
        "Zürich",
        "site A",
        "site B",
    )


def test_files_of_the_numbers_0_to_m_minus_1_have_no_names(write):
    text = "".join(f"{user} {(user + 1) % 12}\n" for user in range(12))
    graph = graphs.from_file(write(text))
    assert graph.names is None
    assert graph == graphs.ring(12)


@pytest.mark.parametrize("kind", ["graphml", "gml", "GML"])
@pytest.mark.parametrize(
    "twin", [nx.karate_club_graph(), nx.Graph(CITIES)], ids=["numbers", "names"]
)
def test_files_that_networkx_wrote_are_read_back(tmp_path, kind, twin):
    file = tmp_path / f"net.{kind}"
    {"graphml": nx.write_graphml, "gml": nx.write_gml}[kind.lower()](twin, file)
    graph = graphs.from_file(file)
    assert graph == graphs.from_networkx(twin)
    assert graph.names == graphs.from_networkx(twin).names


def test_gml_without_labels_is_named_by_its_ids(write):
    node, edge = "node [ id {} ]", "edge [ source {} target {} ]"
    body = [*map(node.format, (1, 2, 3)), edge.format(1, 2), edge.format(2, 3)]
    graph = graphs.from_file(write(f"graph [ {' '.join(body)} ]", "net.gml"))
    assert graph.names == ("1", "2", "3")
    assert graph == graphs.path(3)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("a b\nb c d\n", "'b c d' in line 2."),
        ("# one\n\na\n", "'a' in line 3."),
        ("a,b\nb,\n", "'b,' in line 2."),
        ("a,b,c\n", "'a,b,c' in line 1."),
        (",\n", "',' in line 1."),
        (b"a b\nb \xff\xfe\n", "'b \ufffd\ufffd' in line 2."),
    ],
)
def test_malformed_lines_are_refused_by_number(write, text, got):
    must = "must have two names a line in UTF-8, separated by blanks or a comma"
    file = write(text)
    message = f"The graph file {file} {must}. Got {got}"
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        graphs.from_file(file)


@pytest.mark.parametrize(
    ("text", "name", "where"),
    [
        ("<graphml>\n<node", "net.graphml", "line 2"),
        ("", "net.graphml", "line 1"),
        ("graph [\n  node [ id 0 ]\n  edge = ]", "net.gml", r"\(3, 8\)"),
        ("", "net.gml", "input contains no graph"),
        ("graph [ node [ id 0 label 1 label 2 ] ]", "net.gml", "unhashable"),
    ],
)
def test_malformed_graphml_and_gml_are_refused(write, text, name, where):
    with pytest.raises(GraphError, match=rf"must be well-formed (graphml|gml)\. Got: .*{where}"):
        graphs.from_file(write(text, name))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    for bad in (tmp_path / "none.txt", str(tmp_path / "none.gml"), tmp_path, 3, None, "a\0b"):
        with pytest.raises(ParameterError, match="`path` of from_file must be a readable file"):
            graphs.from_file(bad)


def test_files_without_a_connected_graph_are_refused(write):
    with pytest.raises(GraphError, match="must name at least one user"):
        graphs.from_file(write("# nothing\n"))
    with pytest.raises(GraphError, match=r"net\.txt must connect all users: user d cannot reach"):
        graphs.from_file(write("a b\nb c\nd d\n"))


# What cluster(graph=...) accepts


def test_resolve_takes_names_graphs_and_networkx_graphs():
    assert graphs.resolve("ring", 10) == graphs.ring(10)
    assert graphs.resolve("path", 10) == graphs.path(10)
    assert graphs.resolve("star", 10) == graphs.star(10)
    assert graphs.resolve("complete", 10) == graphs.complete(10)
    assert graphs.resolve(nx.cycle_graph(10), 10) == graphs.ring(10)
    graph = graphs.ring(10)
    assert graphs.resolve(graph, 10) is graph


@pytest.mark.parametrize(
    ("m", "name"), [(1, "1, 1"), (7, "1, 7"), (12, "3, 4"), (36, "6, 6"), (50, "5, 10")]
)
def test_resolve_makes_the_most_square_grid(m, name):
    assert graphs.resolve("grid", m).name == f"grid({name})"


@pytest.mark.parametrize(
    ("graph", "name"), [(graphs.ring(5), "ring(5)"), (nx.cycle_graph(5), "from_networkx(...)")]
)
def test_resolve_refuses_another_number_of_users(graph, name):
    message = (
        "`graph` of cluster must have as many users as there are parts."
        f" Got 5 users in {name} and 10 parts."
    )
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        graphs.resolve(graph, 10)


def test_resolve_refuses_what_is_no_graph():
    with pytest.raises(ParameterError, match=r"Got 'rings'\. Did you mean 'ring'\?"):
        graphs.resolve("rings", 5)
    for bad in (None, 5, [(0, 1)], np.eye(5)):
        with pytest.raises(
            ParameterError, match="must be a Graph, a networkx graph or one of 'ring'"
        ):
            graphs.resolve(bad, 5)
    with pytest.raises(
        GraphError, match="`graph` of cluster must connect all users: user 4 cannot"
    ):
        graphs.resolve(nx.disjoint_union(nx.path_graph(4), nx.empty_graph(1)), 5)


# --- averaging ----------------------------------------------------------------------------------

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


@pytest.mark.parametrize("graph", AVERAGING, ids=repr)
def test_a_step_a_factor_turns_numbers_into_their_average(graph):
    rng = np.random.default_rng(0)
    L = graph.laplacian.toarray()
    for start in (rng.normal(size=(graph.m, 4)), 100 * rng.random((graph.m, 4)), np.eye(graph.m)):
        x = start
        for factor in graph.averaging_factors:
            x = x - factor * (L @ x)
        assert np.abs(x - start.mean(axis=0)).max() < 1e-12 * np.abs(start).max()


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
    with pytest.raises(GraphError, match=r"at most 1500, as all eigenvalues.*Got 1501"):
        graphs.ring(1501).averaging_factors  # noqa: B018


@pytest.mark.parametrize(
    "graph", [graphs.ring(5), graphs.grid(2, 3), graphs.erdos_renyi(8, 0.4, random_state=0)]
)
def test_pairs_are_the_edges_of_the_adjacency_matrix_each_once(graph):
    above = np.argwhere(np.triu(graph.adjacency.toarray()))
    assert graph.pairs == [tuple(pair) for pair in above.tolist()]


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
