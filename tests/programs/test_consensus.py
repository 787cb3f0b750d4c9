"""Sums and maxima over all users: the same bits for all, however the network adds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from all_pairs import by_pairs
from instances import GRAPHS
from peerclust import graphs
from peerclust.errors import DivergedError
from peerclust.programs.consensus import Maximum, Total
from peerclust.programs.protocol import NetworkSum
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.runtimes.protocol import Said, Traffic
from peerclust.runtimes.stopping import NEVER, first_vote
from peerclust.users import Users

RNG = np.random.default_rng(0)


def run(program, graph, x, rounds, runtime=Simulator):
    users = Users(np.zeros((graph.m, 1)), np.arange(graph.m + 1))
    return run_program(runtime(graph), program, users, x, rounds=rounds)


def total(graph, x, runtime=Simulator, **options):
    program = Total(graph.m, **options)
    return run(program, graph, x, program.rounds, runtime)


def exact(x):
    """The sums as fractions would have them, rounded once."""
    flat = x.reshape(len(x), -1)
    return np.array([math.fsum(column) for column in flat.T]).reshape(x.shape[1:])


@pytest.mark.parametrize("m", [1, 2, 3, 10, 37])
@pytest.mark.parametrize("make", GRAPHS, ids=repr)
def test_all_users_end_with_the_total(make, m):
    graph = make(m)
    x = RNG.normal(loc=[1e3, 0.0, 1.0], size=(m, 2, 3))
    ends = [total(graph, x, runtime) for runtime in (Simulator, Loopback)]
    for end in ends:
        assert (end.x == end.x[0]).all()
        # Numbers near the bound have all their digits, so errors are relative to the largest.
        largest = np.abs(x).max(axis=0) * m
        assert (np.abs(end.x[0] - exact(x)) <= 1e-15 * largest).all()
    a, b = ends
    assert a.x.tobytes() == b.x.tobytes()
    assert (a.rounds, a.traffic, a.stopped) == (b.rounds, b.traffic, b.stopped) == (
        1 + (m > 1), a.traffic, False
    )  # fmt: skip


@by_pairs(make=GRAPHS, m=[1, 2, 9, 40, 200])
def test_totals_of_positive_numbers_have_all_digits(make, m):
    x = np.random.default_rng(m).uniform(0.5, 2.0, (m, 1, 4)) * np.array([1e-200, 1.0, 3e7, 1e200])
    got = total(make(m), x).x[0]
    np.testing.assert_allclose(got, exact(x), rtol=1e-15)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(values=st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=30), seed=st.integers(0, 99))
def test_no_graph_and_no_numbering_of_users_changes_a_bit_of_a_total(values, seed):
    x = np.array(values)[:, None, None]
    m, rng = len(x), np.random.default_rng(seed)
    tree = graphs.from_edges([(int(rng.integers(i)), i) for i in range(1, m)], m=m)
    order = rng.permutation(m)
    expected = total(graphs.star(m), x).x[0]
    for graph, given_ in ((tree, x), (graphs.exponential(m), x), (graphs.path(m), x[order])):
        for runtime in (Simulator, Loopback):
            assert total(graph, given_, runtime).x[0].tobytes() == expected.tobytes()
    assert abs(expected[0, 0] - math.fsum(values)) <= 1e-15 * m * np.abs(x).max()


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_a_known_bound_spares_the_first_exchange(runtime):
    graph, x = graphs.grid(3, 4), RNG.uniform(-60.0, 60.0, size=(12, 2, 3))
    got = total(graph, x, runtime, bound=64.0)
    assert got.rounds == 1
    assert np.abs(got.x - exact(x)).max() < 1e-12
    # Along the 11 edges of the tree, up and down, 6 integers of 8 bytes.
    assert got.traffic == Traffic(22, 22 * 6 * 8)
    with pytest.raises(DivergedError, match="larger than its bound"):
        total(graph, 3.0 * x, runtime, bound=64.0)


@by_pairs(make=GRAPHS, m=[1, 2, 3, 12], runtime=[Simulator, Loopback], width=[1, 7])
def test_a_sum_takes_two_messages_for_each_user_but_one(make, m, runtime, width):
    graph = make(m)
    delivers = runtime(graph)
    blocks = delivers.blocks(Users(np.zeros((m, 1)), np.arange(m + 1)))
    v = np.random.default_rng(m).integers(0, 1 << 63, (m, width), dtype=np.uint64) * np.uint64(2)
    ends = np.cumsum([len(block.ids) for block in blocks])[:-1]
    votes = [first_vote(len(block.ids)) for block in blocks]
    said = Said([NetworkSum(each) for each in np.split(v, ends)], votes, [])
    delivered = delivers.deliver(said)
    # Modulo 2^64, as unlimited integers have it.
    expected = [sum(map(int, column)) % (1 << 64) for column in v.T]
    for heard in delivered.messages:
        assert heard.v.dtype == np.uint64
        assert heard.v.tolist() == expected
    assert delivered.traffic == Traffic(2 * (m - 1), 2 * (m - 1) * width * 8)
    # All know the same, so they may stop at once.
    ballot = delivered.ballot()
    assert ballot.D == 0
    for near in ballot.heard:
        assert (near.s == NEVER).all()
        assert (near.R == NEVER).all()


def test_one_users_numbers_reach_everyone():
    graph = graphs.grid(8, 8)
    x = np.zeros((64, 1, 1))
    x[17] = 64.0
    assert (total(graph, x).x == 64.0).all()


def test_more_than_four_million_users_take_two_words():
    # A bound on their number is all that is needed.
    x = np.array([[[1.0 + 2.0**-50]], [[1.0 / 3.0]], [[-1.0]]])
    program = Total(1 << 23, bound=1.0)
    for runtime in (Simulator, Loopback):
        got = run(program, graphs.ring(3), x, 1, runtime)
        assert got.x[0, 0, 0] == pytest.approx(2.0**-50 + 1.0 / 3.0, rel=1e-16)
        assert got.traffic == Traffic(4, 4 * 2 * 8)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_a_total_of_numbers_that_are_not_finite_is_an_error(runtime, value):
    x = np.ones((4, 1, 2))
    x[2, 0, 1] = value
    with pytest.raises(DivergedError, match="sum over all users overflows"):
        total(graphs.path(4), x, runtime)


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_all_users_end_with_the_maximum_after_one_round(runtime):
    x = RNG.normal(size=(9, 2, 3))
    got = run(Maximum(), graphs.path(9), x, 1, runtime)
    assert (got.x == x.max(axis=0)).all()
    assert got.rounds == 1


def test_the_start_is_never_written_to():
    graph, x = graphs.ring(6), RNG.normal(size=(6, 1, 2))
    x.flags.writeable = False
    for runtime in (Simulator, Loopback):
        total(graph, x, runtime)
        run(Maximum(), graph, x, 1, runtime)
