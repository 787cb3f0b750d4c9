"""The distribution of users over ranks, and reductions over all of them."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from peerclust import graphs
from peerclust.metrics import disagreement
from peerclust.ranks.distribution import Distribution, add_up, distribute_users, find_halo

GRAPHS = [
    graphs.ring(13),
    graphs.path(13),
    graphs.star(13),
    graphs.complete(13),
    graphs.grid(4, 5),
    graphs.erdos_renyi(30, 0.2, random_state=0),
    graphs.geometric(40, 0.35, random_state=0),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_user_is_on_one_rank_and_every_rank_has_a_user(graph, data):
    n = data.draw(st.integers(1, graph.m))
    sizes = data.draw(st.lists(st.integers(0, 1000), min_size=graph.m, max_size=graph.m))
    parts = distribute_users(graph, sizes, n)
    assert len(parts) == n
    assert all(len(part) for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(graph.m))
    assert all((np.diff(part) > 0).all() for part in parts)


def test_load_is_even_where_users_are_alike():
    parts = distribute_users(graphs.ring(10_000), [7] * 10_000, 16)
    assert {len(part) for part in parts} == {625}


def test_a_large_user_is_alone():
    parts = distribute_users(graphs.ring(10), [1000] + [1] * 9, 2)
    assert [0] in [part.tolist() for part in parts]


def count_separated(graph, parts):
    rank_of = np.empty(graph.m, int)
    for rank, part in enumerate(parts):
        rank_of[part] = rank
    return sum(rank_of[i] != rank_of[j] for i, j in graph.pairs)


def test_neighbors_are_kept_together_whatever_their_numbers():
    grid = graphs.grid(20, 20)
    shuffled = grid.reordered(np.random.default_rng(0).permutation(400).tolist())
    by_number = np.array_split(np.arange(400), 4)
    ordered = distribute_users(shuffled, [1] * 400, 4)
    assert count_separated(shuffled, by_number) > 500
    assert count_separated(shuffled, ordered) < 100


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_halo_leads_to_the_neighbors_in_ascending_number(graph, n):
    parts = distribute_users(graph, [1] * graph.m, n)
    halos = [find_halo(graph, parts, rank) for rank in range(n)]
    for rank, (own, halo) in enumerate(zip(parts, halos, strict=True)):
        heard = np.concatenate([own, *halo.recv])
        for i, user in enumerate(own):
            near = heard[halo.indices[halo.indptr[i] : halo.indptr[i + 1]]]
            assert near.tolist() == graph.neighbors(user).tolist()
        for other in range(n):
            sent = parts[rank][halo.send[other]]
            assert sent.tolist() == halos[other].recv[rank].tolist()
        outer = [any(j not in own for j in graph.neighbors(user)) for user in own]
        assert np.flatnonzero(outer).tolist() == halo.boundary.tolist()
        assert np.flatnonzero(~np.array(outer)).tolist() == halo.interior.tolist()


def test_sums_go_from_user_to_user():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1000, 3)) * 10.0 ** rng.integers(-9, 9, (1000, 3))
    expected = np.zeros(3)
    for row in values:
        expected = expected + row
    assert add_up(values).tobytes() == expected.tobytes()
    assert add_up(values[:, :1]).tobytes() == expected[:1].tobytes()


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_one_process_sees_what_the_graph_says(graph):
    x = np.random.default_rng(1).normal(size=(graph.m, 3, 2))
    distribution = Distribution.of_all(graph)
    differences = np.einsum("ij,jkd->ikd", graph.laplacian.toarray(), x)
    np.testing.assert_allclose(distribution.differences(x), differences, atol=1e-13)
    np.testing.assert_allclose(distribution.energy(x), (x * differences).sum(), rtol=1e-12)
    assert distribution.disagreement(x) == disagreement(x)
    assert distribution.gather_users(x) is x
