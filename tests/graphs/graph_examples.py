"""Graphs of every kind, some beside a twin that networkx made, and what is true of them."""

from collections import deque

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from peerclust import graphs

CITIES = [("rome", "oslo"), ("oslo", "bern"), ("bern", "rome"), ("bern", "kyiv")]


SIZES = [*range(1, 13), 30, 31, 64]


def exponential_twin(m):
    return nx.circulant_graph(m, [2**j for j in range(m) if 2**j < m])


# Each graph beside one that networkx made, or that was made from pairs found in another way.
ALL_GRAPHS = [
    *((graphs.ring(m), nx.cycle_graph(m)) for m in SIZES if m > 2),
    *((graphs.ring(m), nx.path_graph(m)) for m in (1, 2)),
    *((graphs.path(m), nx.path_graph(m)) for m in SIZES),
    *((graphs.star(m), nx.star_graph(m - 1)) for m in SIZES),
    *((graphs.complete(m), nx.complete_graph(m)) for m in SIZES),
    *((graphs.exponential(m), exponential_twin(m)) for m in SIZES),
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
