"""Quantiles over the network: exact, the same on every runtime, revealing no more than stated."""

import numpy as np
import pytest

from instances import GRAPHS
from peerclust.graphs import exponential, ring, star
from peerclust.programs.fixed_point import FixedPoint
from peerclust.programs.protocol import NetworkMax, NetworkSum
from peerclust.programs.quantile import PARTS, Quantile
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.users import Users

RNG = np.random.default_rng(0)
SIZES = [30, 0, 1, 200, 7, 50]
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
ROWS = RNG.normal(size=(OFFSETS[-1], 2)) * [1.0, 30.0]
CENTERS = np.array([[0.0, 0.0], [1.0, 20.0]])


def squares(rows, centers=CENTERS):
    return ((rows[:, None] - centers) ** 2).sum(axis=2).min(axis=1)


def run(q, rows=ROWS, offsets=OFFSETS, weights=1.0, centers=CENTERS, graph=None, runtime=Simulator):
    users = Users(rows, offsets, weights=weights)
    graph = ring(users.m) if graph is None else graph
    program = Quantile(m=users.m, q=(q,))
    x = users.broadcast_centers(centers)
    return run_program(runtime(graph), program, users, x, rounds=program.rounds)


def found(q, **options):
    values = {float(state.found[0]) for state in run(q, **options).states}
    assert len(values) == 1
    return values.pop()


@pytest.mark.parametrize("q", [1e-9, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0])
def test_it_is_the_quantile_of_all_rows(q):
    expected = np.quantile(squares(ROWS), q, method="inverted_cdf")
    assert found(q) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_it_is_a_value_that_a_row_has(q):
    rows = np.arange(256.0)[:, None]
    users = np.array([0, 100, 120, 256])
    got = found(q, rows=rows, offsets=users, centers=np.zeros((1, 1)))
    # Squares of whole numbers are exact.
    assert got == np.quantile(rows[:, 0] ** 2, q, method="inverted_cdf")


@pytest.mark.parametrize("q", [0.1, 0.5, 0.77, 1.0])
def test_weights_equal_repetition(q):
    times = RNG.integers(0, 4, len(ROWS))
    weighted = found(q, weights=times.astype(np.float64))
    repeated = np.quantile(np.repeat(squares(ROWS), times), q, method="inverted_cdf")
    assert weighted == pytest.approx(repeated, rel=1e-12)
    assert found(q, weights=times * 1e-9) == weighted


@pytest.mark.parametrize("scale", [1e-140, 1e-3, 1e3, 1e140])
def test_the_scale_of_the_rows_does_not_matter(scale):
    # A power of two, so that no digit changes.
    scale = 2.0 ** round(np.log2(scale))
    assert found(0.5, rows=scale * ROWS, centers=scale * CENTERS) == scale**2 * found(0.5)


FEATURES = np.column_stack(
    [
        RNG.normal(size=len(ROWS)),
        -RNG.lognormal(sigma=9, size=len(ROWS)),
        RNG.choice([-0.0, 0.0, 1.0], len(ROWS)),
    ]
)
SEVERAL = (0.01, 0.25, 0.5, 0.75, 1.0)


def found_of_features(rows, weights=1.0):
    users = Users(rows, OFFSETS, weights=weights)
    program = Quantile(users.m, SEVERAL, lambda users, _: users.rows)
    x = np.empty((users.m, 0, rows.shape[1]))
    end = run_program(Loopback(ring(users.m)), program, users, x, rounds=program.rounds)
    assert len({state.bits for state in end.states}) == 1
    return end.states[0].found.reshape(-1, len(SEVERAL)).T


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_several_quantiles_of_features_of_either_sign_are_exact(dtype):
    rows = FEATURES.astype(dtype)
    expected = np.quantile(rows, SEVERAL, axis=0, method="inverted_cdf")
    assert np.array_equal(found_of_features(rows), expected)
    times = RNG.integers(0, 4, len(rows))
    expected = np.quantile(np.repeat(rows, times, axis=0), SEVERAL, axis=0, method="inverted_cdf")
    assert np.array_equal(found_of_features(rows, times * 0.1), expected)


def test_the_range_of_all_doubles_is_covered():
    tiny, huge = 5e-324, np.finfo(float).max
    rows = np.resize([-huge, -1.0, -tiny, 0.0, tiny, 1.0, huge], len(ROWS))[:, None]
    expected = np.quantile(rows, SEVERAL, axis=0, method="inverted_cdf")
    assert np.array_equal(found_of_features(rows), expected)


def test_rows_on_a_center_are_at_distance_0():
    rows = np.array([[0.0], [0.0], [0.0], [5.0]])
    options = {"rows": rows, "offsets": np.array([0, 2, 4]), "centers": np.zeros((1, 1))}
    assert found(0.75, **options) == 0.0
    assert found(0.76, **options) == 25.0


@pytest.mark.parametrize("make", GRAPHS, ids=repr)
def test_runtimes_agree_to_the_last_bit(make):
    graph = make(len(SIZES))
    weights = RNG.uniform(size=len(ROWS))
    a, b = (run(0.3, weights=weights, graph=graph, runtime=each) for each in (Simulator, Loopback))
    assert {state.bits for state in a.states} == {state.bits for state in b.states}
    assert a.traffic == b.traffic
    other = run(0.3, weights=weights, graph=star(len(SIZES)))
    assert other.states[0].bits == a.states[0].bits


def test_thousands_of_users_find_it():
    rows = RNG.normal(size=(3000, 1))
    got = found(
        0.5, rows=rows, offsets=np.arange(3001), centers=np.zeros((1, 1)), graph=exponential(3000)
    )
    assert got == pytest.approx(np.quantile(rows[:, 0] ** 2, 0.5, method="inverted_cdf"))


def test_only_counts_and_the_total_weight_leave_a_user():
    users = Users(ROWS, OFFSETS)
    program = Quantile(m=users.m, q=(0.5,))
    said = []

    class Observed(Simulator):
        def deliver(self, at):
            said.extend(at.messages)
            return super().deliver(at)

    x = users.broadcast_centers(CENTERS)
    run_program(Observed(ring(users.m)), program, users, x, rounds=program.rounds)
    first, *sums = said
    assert isinstance(first, NetworkMax)
    assert first.v.tolist() == [[size] for size in SIZES]
    assert len(sums) == program.rounds - 1
    # No user has more than 200 rows; twice that is the bound of the integers.
    numbers = FixedPoint.for_bound(np.full(PARTS, 400.0), users.m)
    for message in sums:
        assert isinstance(message, NetworkSum)
        assert message.v.shape == (users.m, PARTS)
        for own, size in zip(message.v, SIZES, strict=True):
            counts = numbers.decode(own)
            assert np.array_equal(counts, np.round(counts))
            assert (np.diff(counts) >= 0).all()
            assert counts[-1] <= size
