"""Joint moments: those of the pooled rows, the same bits for every user, block and runtime."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from instances import GRAPHS, WEIGHTS
from peerclust import graphs
from peerclust.clustering.scaling import Scale, _sums, distributed_moments
from peerclust.errors import DataError
from peerclust.runtimes import Loopback, Simulator
from peerclust.users import Users

RNG = np.random.default_rng(0)
SIZES = [30, 0, 1, 200, 7, 50, 1, 12, 3]
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
ROWS = RNG.normal(size=(OFFSETS[-1], 4)) * [1.0, 1e3, 1e-4, 2.0] + [0.0, -7.0, 5.0, 1e6]


def agree(graph, rows=ROWS, offsets=OFFSETS, weights=1.0, runtime=Simulator):
    return distributed_moments(runtime(graph), Users(rows, offsets, weights=weights))[0]


@pytest.mark.parametrize("weights", WEIGHTS, ids=repr)
@pytest.mark.parametrize("make", GRAPHS, ids=repr)
def test_moments_are_those_of_the_pooled_rows(make, weights):
    w = weights(len(ROWS))
    got = agree(make(len(SIZES)), weights=w)
    each = np.broadcast_to(w, len(ROWS))
    mean = np.average(ROWS, axis=0, weights=each)
    variance = np.average((ROWS - mean) ** 2, axis=0, weights=each)
    assert np.all(np.abs(got.mean - mean) <= 1e-12 * (np.abs(mean) + got.deviation))
    np.testing.assert_allclose(got.deviation, np.sqrt(variance), rtol=1e-9)
    assert got.weight == pytest.approx(each.sum(), rel=1e-12)
    assert got.spread == pytest.approx(np.sqrt(variance.sum()), rel=1e-9)
    assert got.scaled_spread == pytest.approx(2.0, rel=1e-12)


def test_scaling_is_that_of_scikit_learn():
    w = WEIGHTS[-1](len(ROWS))
    theirs = StandardScaler().fit(ROWS, sample_weight=w)
    scale = agree(graphs.ring(len(SIZES)), weights=w).scale
    scaled = scale.forward(ROWS)
    np.testing.assert_allclose(scaled, theirs.transform(ROWS), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(scale.back(scaled), ROWS, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("make", GRAPHS, ids=repr)
def test_runtimes_agree_to_the_last_bit(make, dtype):
    graph, weights = make(len(SIZES)), WEIGHTS[-1](len(ROWS))
    users = Users(ROWS.astype(dtype), OFFSETS, weights=weights)
    (a, sent), (b, also) = (
        distributed_moments(each(graph), users) for each in (Simulator, Loopback)
    )
    for name, value in vars(a).items():
        assert np.array_equal(value, getattr(b, name)), name
    assert sent == also
    # A maximum floods the graph, a sum goes up and down a tree.
    maximum, total = int(graph.diameter.value) * 2 * graph.edges, 2 * (graph.m - 1)
    assert sent.messages == 2 * (maximum + total)


@pytest.mark.parametrize("d", [1, 3])
def test_a_users_sums_are_the_same_bits_in_any_block(d):
    sizes = [5, 0, 20_000, 8192, 8193, 1]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = RNG.normal(size=(offsets[-1], d)).astype(np.float32)
    users = Users(rows, offsets, weights=RNG.uniform(size=len(rows)))
    for power in (1, 2):
        together = _sums(users, np.full(d, 0.1), power)
        for i in range(users.m):
            alone = _sums(users.single_user(i), np.full(d, 0.1), power)
            assert np.array_equal(alone, together[i : i + 1])


def test_float32_rows_have_the_moments_of_their_float64_twins():
    single = ROWS.astype(np.float32)
    a = agree(graphs.ring(len(SIZES)), rows=single)
    b = agree(graphs.ring(len(SIZES)), rows=single.astype(np.float64))
    assert np.array_equal(a.mean, b.mean)
    assert np.array_equal(a.deviation, b.deviation)
    scaled = a.scale.forward(single)
    assert scaled.dtype == np.float32
    twin = b.scale.forward(single.astype(np.float64))
    assert np.array_equal(scaled, twin.astype(np.float32))


def test_the_order_of_users_does_not_matter():
    order = RNG.permutation(len(SIZES))
    parts = np.split(ROWS, OFFSETS[1:-1])
    rows = np.concatenate([parts[i] for i in order])
    offsets = np.concatenate([[0], np.cumsum([SIZES[i] for i in order])])
    graph = graphs.star(len(SIZES))
    a, b = agree(graph), agree(graph, rows=rows, offsets=offsets)
    assert np.all(np.abs(a.mean - b.mean) <= 1e-13 * (np.abs(a.mean) + a.deviation))
    np.testing.assert_allclose(a.deviation, b.deviation, rtol=1e-9)


def test_a_single_user_has_its_own_moments():
    got = agree(graphs.ring(1), offsets=np.array([0, len(ROWS)]))
    np.testing.assert_allclose(got.mean, ROWS.mean(axis=0), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(got.deviation, ROWS.std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7e8, 1e-30])
def test_a_constant_feature_has_the_deviation_1(value):
    # One of 100 users holds all the rows, so that averages lose most digits.
    offsets = np.concatenate([[0], np.full(100, len(ROWS))])
    rows = np.column_stack([ROWS[:, 0], np.full(len(ROWS), value)])
    got = agree(graphs.ring(100), rows=rows, offsets=offsets)
    assert got.deviation[1] == 1.0
    assert got.mean[1] == pytest.approx(value, rel=1e-12)
    assert got.deviation[0] == pytest.approx(ROWS[:, 0].std(), rel=1e-12)
    assert got.scaled_spread == pytest.approx(1.0, rel=1e-12)


def test_thousands_of_users_have_the_same_moments():
    offsets = np.concatenate([[0], np.minimum(np.arange(1, 3001), len(ROWS))])
    got = agree(graphs.exponential(3000), offsets=offsets)
    assert np.all(np.abs(got.mean - ROWS.mean(axis=0)) <= 1e-12 * (1e6 + got.deviation))
    np.testing.assert_allclose(got.deviation, ROWS.std(axis=0), rtol=1e-9)


@pytest.mark.parametrize(("value", "spread"), [(0.0, 1.0), (3.7, 3.7), (-1e6, 1e6)])
def test_rows_that_are_all_equal_have_a_spread(value, spread):
    got = agree(graphs.ring(3), rows=np.full((9, 2), value), offsets=np.array([0, 4, 4, 9]))
    assert got.spread == pytest.approx(spread)
    assert got.scaled_spread == 1.0
    np.testing.assert_allclose(got.scale.forward(np.full((1, 2), value)), 0.0, atol=1e-8)


def test_rows_that_cannot_be_scaled_get_one_sentence():
    with pytest.raises(DataError, match=r"total weight above 0\. Got 0"):
        agree(graphs.ring(len(SIZES)), weights=np.zeros(len(ROWS)))
    with pytest.raises(DataError, match="so large that the sum of squares overflows"):
        agree(graphs.ring(2), rows=np.array([[1e200], [0.0]]), offsets=np.array([0, 1, 2]))
    with pytest.raises(DataError, match="so large that the sum of squares overflows"):
        agree(graphs.ring(2), rows=np.array([[1.3e154], [-1.3e154]]), offsets=np.array([0, 1, 2]))


@pytest.mark.parametrize("shape", [(40_000, 2), (5, 3, 2), (0, 2)])
def test_scaled_arrays_are_new_and_in_c_order(shape):
    scale = Scale(np.array([1.0, -2.0]), np.array([0.5, 3.0]))
    values = np.asfortranarray(RNG.normal(size=shape))
    values.flags.writeable = False
    forward = scale.forward(values)
    assert forward.flags.c_contiguous
    assert np.array_equal(forward, (values - scale.mean) / scale.deviation)
    back = scale.back(forward)
    assert back.flags.c_contiguous
    np.testing.assert_allclose(back, values, rtol=1e-12, atol=1e-12)
