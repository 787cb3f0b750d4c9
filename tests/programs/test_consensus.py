"""Agreement: the average of all users in few rounds, the same bits for all."""

import numpy as np
import pytest

from instances import GRAPHS
from peerclust import graphs
from peerclust.programs.consensus import Average, Maximum
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.users import Users

RNG = np.random.default_rng(0)


def run(program, graph, x, rounds, runtime=Simulator):
    users = Users(np.zeros((graph.m, 1)), np.arange(graph.m + 1))
    return run_program(runtime(graph), program, users, x, rounds=rounds)


def average(graph, x, runtime=Simulator):
    program = Average(graph.averaging_factors)
    return run(program, graph, x, program.rounds, runtime)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 37])
@pytest.mark.parametrize("make", GRAPHS, ids=repr)
def test_all_users_end_with_the_average(make, m):
    graph = make(m)
    x = RNG.normal(loc=[1e3, 0.0, 1.0], size=(m, 2, 3))
    got = average(graph, x).x
    np.testing.assert_allclose(got, np.broadcast_to(x.mean(axis=0), x.shape), rtol=0, atol=1e-10)
    assert (got == got[0]).all()


def test_one_users_numbers_are_everyones_share():
    graph = graphs.grid(8, 8)
    x = np.zeros((64, 1, 1))
    x[17] = 64.0
    np.testing.assert_allclose(average(graph, x).x, 1.0, rtol=1e-12)


@pytest.mark.parametrize("graph", [graphs.path(7), graphs.star(9), graphs.ring(1)], ids=repr)
def test_runtimes_agree_to_the_last_bit(graph):
    x = RNG.normal(size=(graph.m, 2, 3))
    a, b = (average(graph, x, each) for each in (Simulator, Loopback))
    assert np.array_equal(a.x, b.x)
    assert (a.rounds, a.traffic) == (b.rounds, b.traffic)
    assert (a.rounds, a.stopped) == (len(graph.averaging_factors) + 1, False)


def test_renaming_users_does_not_change_the_average():
    graph = graphs.erdos_renyi(12, 0.4, random_state=1)
    order = RNG.permutation(12)
    x = RNG.normal(size=(12, 1, 2))
    a, b = average(graph, x).x, average(graph.reordered(order), x[order]).x
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-14)


def test_rounds_beyond_the_last_change_nothing():
    graph, x = graphs.ring(6), RNG.normal(size=(6, 1, 2))
    program = Average(graph.averaging_factors)
    assert np.array_equal(run(program, graph, x, 9).x, run(program, graph, x, program.rounds).x)


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_all_users_end_with_the_maximum_after_one_round(runtime):
    x = RNG.normal(size=(9, 2, 3))
    got = run(Maximum(), graphs.path(9), x, 1, runtime)
    assert (got.x == x.max(axis=0)).all()
    assert got.rounds == 1


def test_the_start_is_never_written_to():
    graph, x = graphs.ring(6), RNG.normal(size=(6, 1, 2))
    x.flags.writeable = False
    average(graph, x)
    run(Maximum(), graph, x, 1)
