"""Joint moments and scales: of the pooled rows, the same bits for every user, block and runtime."""

import numpy as np
import pytest
from sklearn.preprocessing import RobustScaler, StandardScaler

from instances import GRAPHS, WEIGHTS
from peerclust import graphs
from peerclust.clustering import scaling
from peerclust.clustering.scaling import Scale, _sums, agree_on_scale, distributed_moments
from peerclust.errors import DataError
from peerclust.runtimes import Loopback, Simulator
from peerclust.users import Users

RNG = np.random.default_rng(0)
SIZES = [30, 0, 1, 200, 7, 50, 1, 12, 3]
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
ROWS = RNG.normal(size=(OFFSETS[-1], 4)) * [1.0, 1e3, 1e-4, 2.0] + [0.0, -7.0, 5.0, 1e6]


def agree(graph, rows=ROWS, offsets=OFFSETS, weights=1.0, runtime=Simulator):
    return distributed_moments(runtime(graph), Users(rows, offsets, weights=weights))[0]


def scaled(kind, graph, rows=ROWS, offsets=OFFSETS, weights=1.0, runtime=Simulator):
    """Return the scale, the moments and the traffic of the scale."""
    users, runtime = Users(rows, offsets, weights=weights), runtime(graph)
    moments = distributed_moments(runtime, users)[0]
    scale, sent = agree_on_scale(runtime, users, kind, moments)
    return scale, moments, sent


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
    assert got.spread_in(Scale(got.mean, got.deviation)) == pytest.approx(2.0, rel=1e-12)


def test_scaling_is_that_of_scikit_learn():
    w = WEIGHTS[-1](len(ROWS))
    theirs = StandardScaler().fit(ROWS, sample_weight=w)
    scale = scaled("standard", graphs.ring(len(SIZES)), weights=w)[0]
    forward = scale.forward(ROWS)
    np.testing.assert_allclose(forward, theirs.transform(ROWS), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(scale.back(forward), ROWS, rtol=1e-12, atol=1e-9)


def test_a_robust_scale_is_that_of_scikit_learn_for_rows_whose_quartiles_are_rows():
    # Of 4 n + 1 rows, scikit-learn need not interpolate.
    offsets = np.minimum(OFFSETS, 301)
    theirs = RobustScaler(unit_variance=True).fit(ROWS[:301])
    scale, moments, _ = scaled("robust", graphs.ring(len(SIZES)), ROWS[:301], offsets)
    np.testing.assert_array_equal(scale.mean, theirs.center_)
    np.testing.assert_allclose(scale.deviation, theirs.scale_, rtol=1e-14)
    spread = np.sqrt(((ROWS[:301] / scale.deviation).std(axis=0) ** 2).sum())
    assert moments.spread_in(scale) == pytest.approx(spread, rel=1e-9)


@pytest.mark.parametrize("size", [1, 3, 64])
def test_a_robust_scale_counts_weights_as_repetitions_however_features_are_grouped(
    size, monkeypatch
):
    monkeypatch.setattr(scaling, "_MAX_FEATURES", size)
    times = RNG.integers(0, 4, len(ROWS))
    scale, _, sent = scaled("robust", graphs.star(len(SIZES)), weights=times * 0.25)
    repeated = np.repeat(ROWS, times, axis=0)
    low, median, high = np.quantile(repeated, (0.25, 0.5, 0.75), axis=0, method="inverted_cdf")
    assert np.array_equal(scale.mean, median)
    np.testing.assert_allclose(scale.deviation, (high - low) / 1.3489795003921634, rtol=1e-14)
    # A maximum over a star of 9 is two exchanges with 16 messages, a sum has 16.
    assert sent.messages == -(-4 // size) * (32 + 11 * 16)


def test_a_quarter_of_the_rows_hardly_changes_a_robust_scale():
    rows = RNG.normal(size=(OFFSETS[-1], 1))
    far = rows.copy()
    far[::5] = 1e6
    a, b = (scaled("robust", graphs.ring(len(SIZES)), each)[0] for each in (rows, far))
    assert abs(b.mean - a.mean) < 0.5
    assert b.deviation < 1.7 * a.deviation
    standard = scaled("standard", graphs.ring(len(SIZES)), far)[0]
    assert standard.deviation > 1e5


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_feature_with_equal_quartiles_has_the_unit_of_its_standard_deviation(value):
    rows = np.full((OFFSETS[-1], 2), value)
    rows[:10, 0] += 5.0
    scale, moments, _ = scaled("robust", graphs.ring(len(SIZES)), rows)
    assert scale.mean.tolist() == [value, value]
    assert scale.deviation[0] == pytest.approx(rows[:, 0].std(), rel=1e-12)
    assert scale.deviation[1] == 1.0
    assert moments.spread_in(scale) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("make", GRAPHS, ids=repr)
def test_runtimes_agree_on_a_robust_scale_to_the_last_bit(make):
    graph, weights = make(len(SIZES)), WEIGHTS[-1](len(ROWS))
    (a, _, sent), (b, _, also) = (
        scaled("robust", graph, weights=weights, runtime=each) for each in (Simulator, Loopback)
    )
    assert np.array_equal(a.mean, b.mean)
    assert np.array_equal(a.deviation, b.deviation)
    assert sent == also


def test_no_scale_sends_nothing():
    scale, moments, sent = scaled("none", graphs.ring(len(SIZES)))
    assert scale is None
    assert sent.messages == 0
    assert moments.spread_in(None) == moments.spread


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
    scale = Scale(a.mean, a.deviation)
    forward = scale.forward(single)
    assert forward.dtype == np.float32
    twin = scale.forward(single.astype(np.float64))
    assert np.array_equal(forward, twin.astype(np.float32))


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
    assert got.spread_in(Scale(got.mean, got.deviation)) == pytest.approx(1.0, rel=1e-12)


def test_thousands_of_users_have_the_same_moments():
    offsets = np.concatenate([[0], np.minimum(np.arange(1, 3001), len(ROWS))])
    got = agree(graphs.exponential(3000), offsets=offsets)
    assert np.all(np.abs(got.mean - ROWS.mean(axis=0)) <= 1e-12 * (1e6 + got.deviation))
    np.testing.assert_allclose(got.deviation, ROWS.std(axis=0), rtol=1e-9)


@pytest.mark.parametrize(("value", "spread"), [(0.0, 1.0), (3.7, 3.7), (-1e6, 1e6)])
def test_rows_that_are_all_equal_have_a_spread(value, spread):
    got = agree(graphs.ring(3), rows=np.full((9, 2), value), offsets=np.array([0, 4, 4, 9]))
    assert got.spread == pytest.approx(spread)
    scale = Scale(got.mean, got.deviation)
    assert got.spread_in(scale) == 1.0
    np.testing.assert_allclose(scale.forward(np.full((1, 2), value)), 0.0, atol=1e-8)


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
