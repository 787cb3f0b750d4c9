"""Coresets: their weights, what they cost on average, what they send, and what they find."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import minimize

from peerclust import graphs
from peerclust.baselines import Coreset, Task, coreset
from peerclust.baselines.weighted_kmeans import solve
from peerclust.errors import ParameterError
from peerclust.users import Users

K = 3
MEANS = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])


def spread(seed=0, sizes=(40, 0, 25, 2, 60)):
    """Rows of K clusters over users, one of them without rows and one with fewer than K."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    classes = rng.integers(0, K, offsets[-1])
    return MEANS[classes] + rng.normal(size=(offsets[-1], 2)), offsets, classes


def make_task(rows, offsets, graph=None, seed=0, k=K):
    m = len(offsets) - 1
    start = np.zeros((m, k, rows.shape[1]))
    graph = graphs.ring(m) if graph is None else graph
    return Task(rows, offsets, graph, start, start[0], rho=1.0, rounds=1, seed=seed)


def distances(points, x):
    return np.array([min(np.linalg.norm(p - c) for c in x) for p in points])


def true_cost(points, weights, x, z):
    return float(np.sum(weights * distances(points, x) ** z))


@pytest.mark.parametrize("median", [False, True])
@pytest.mark.parametrize("t", [1, 17, 200])
def test_the_weights_of_samples_and_centers_add_up_to_the_rows(median, t):
    rows, offsets, _ = spread()
    for seed in range(5):
        portions = coreset.build(Users(rows, offsets), K, t, median=median, seed=seed)
        for portion, n in zip(portions, np.diff(offsets), strict=True):
            assert portion.weights.sum() == pytest.approx(n)
        # K centers for the large users, the two rows of the small one, none for the empty one.
        assert sum(len(portion.points) for portion in portions) == t + 3 * K + 2


@pytest.mark.parametrize("median", [False, True])
def test_the_weights_are_those_of_the_formula(median):
    rows, offsets, _ = spread(1)
    t, z = 30, 1 if median else 2
    portions = coreset.build(Users(rows, offsets), K, t, median=median, seed=4)
    parts = [rows[a:b] for a, b in pairwise(offsets)]
    k = [min(K, len(part)) for part in parts]
    own = [portion.points[len(portion.points) - k[i] :] for i, portion in enumerate(portions)]
    costs = [np.sum(distances(part, own[i]) ** z) for i, part in enumerate(parts) if len(part)]
    for i, portion in enumerate(portions):
        if not len(parts[i]):
            continue
        drawn = portion.points[: len(portion.points) - k[i]]
        share = t * np.sum(distances(parts[i], own[i]) ** z) / sum(costs)
        assert abs(len(drawn) - share) < 1
        w_q = sum(costs) / (t * distances(drawn, own[i]) ** z)
        np.testing.assert_allclose(portion.weights[: len(drawn)], w_q, rtol=1e-9)
        for b in range(k[i]):

            def mine(y, i=i, b=b):
                return np.argmin([np.linalg.norm(y - c) for c in own[i]]) == b

            inside = sum(w for w, y in zip(w_q, drawn, strict=True) if mine(y))
            w_b = sum(map(mine, parts[i])) - inside
            assert portion.weights[len(drawn) + b] == pytest.approx(w_b, abs=1e-7)


@pytest.mark.parametrize("median", [False, True])
def test_the_cost_at_any_centers_is_right_on_average(median):
    rows, offsets, _ = spread(2, sizes=(30, 0, 12, 2, 20))
    rows = rows / 5  # clusters that overlap
    near = MEANS / 5
    far = np.random.default_rng(3).normal(size=(K, 2)) + 1.0
    z = 1 if median else 2
    got = []
    for seed in range(200):
        portions = coreset.build(Users(rows, offsets), K, 11, median=median, seed=seed)
        got.append(
            [sum(true_cost(p.points, p.weights, x, z) for p in portions) for x in (near, far)]
        )
    true = [true_cost(rows, 1.0, x, z) for x in (near, far)]
    error = np.std(got, axis=0) / np.sqrt(len(got))
    assert (error > 1e-4 * np.array(true)).all()  # else nothing is tried
    assert (np.abs(np.mean(got, axis=0) - true) < 4 * error).all()
    assert error[0] < 0.02 * true[0]  # so that weights that are off by a tenth show


def test_shares_add_up_and_are_exact_on_average():
    costs, t = np.array([3.0, 0.0, 1.7, 0.01, 8.0, 0.0]), 7
    shares = np.array([coreset.apportion(costs, t, (j + 0.5) / 5000) for j in range(5000)])
    assert (shares.sum(axis=1) == t).all()
    exact = t * costs / costs.sum()
    assert (np.abs(shares - exact) < 1).all()
    np.testing.assert_allclose(shares.mean(axis=0), exact, atol=1e-3)
    # The largest number below 1 must not make one sample more.
    assert coreset.apportion(costs, 10**6, np.nextafter(1.0, 0.0)).sum() == 10**6


def flooded(neighbors, sizes):
    """Count what flooding one message per user sends, by sending them."""
    messages = size = 0
    for origin in range(len(neighbors)):
        heard, waiting = {origin}, [origin]
        while waiting:
            sender = waiting.pop(0)
            for receiver in neighbors[sender]:
                messages, size = messages + 1, size + sizes[origin]
                if receiver not in heard:
                    heard.add(receiver)
                    waiting.append(receiver)
        assert len(heard) == len(neighbors)
    return messages, size


@pytest.mark.parametrize("t", [1, 40])
@pytest.mark.parametrize("make", [graphs.ring, graphs.star], ids=lambda f: f.__name__)
def test_traffic_is_that_of_flooding_each_cost_and_each_portion(make, t):
    rows, offsets, _ = spread()
    graph = make(5)
    neighbors = [graph.neighbors(i).tolist() for i in range(5)]
    portions = coreset.build(Users(rows, offsets), K, t, median=False, seed=0)
    points = [len(portion.points) for portion in portions]
    costs = flooded(neighbors, [8] * 5)
    parts = flooded(neighbors, [8 * (2 + 1) * n for n in points])
    sent = Coreset(size=t).fit(make_task(rows, offsets, graph)).traffic
    assert sent.messages == costs[0] + parts[0]
    assert sent.bytes == costs[1] + parts[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("median", [False, True])
def test_separated_clusters_are_found(median, dtype):
    rows, offsets, classes = spread(5)
    rows = rows.astype(dtype)
    for seed in range(5):
        end = Coreset(median=median).fit(make_task(rows, offsets, seed=seed))
        assert len(set(zip(end.labels.tolist(), classes.tolist(), strict=True))) == K
        centers = end.centers[0][end.labels]
        assert np.abs(centers - MEANS[classes]).max() < 1.5


def geometric_median(points):
    """The least sum of distances to one center, by a method of its own."""
    start = points.mean(axis=0) + 1e-3
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    found = minimize(
        lambda c: np.linalg.norm(points - c, axis=1).sum(), start, method="Nelder-Mead",
        options=options,
    )  # fmt: skip
    at_points = min(np.linalg.norm(points - p, axis=1).sum() for p in points)
    return min(found.fun, at_points)


def test_k_median_is_as_good_as_the_best_of_all_partitions():
    points = np.random.default_rng(6).normal(size=(7, 2))
    best = np.inf
    for tail in product([False, True], repeat=6):
        side = np.array([False, *tail])
        if side.any():
            best = min(best, geometric_median(points[side]) + geometric_median(points[~side]))
    x = solve(points, np.ones(7), 2, median=True, rng=np.random.default_rng(0), starts=30)
    assert true_cost(points, 1.0, x, 1) == pytest.approx(best, rel=1e-4)
    # Of the rows spread over two users, a large coreset gives nearly that.
    end = Coreset(median=True, size=400).fit(make_task(points, np.array([0, 4, 7]), k=2))
    assert best * (1 - 1e-4) <= true_cost(points, 1.0, end.centers[0], 1) < 1.1 * best


@pytest.mark.parametrize("median", [False, True])
def test_rows_that_are_all_centers_cost_nothing_and_are_sent_as_they_are(median):
    rows = np.array([[0.1], [0.1], [0.1], [9.0], [0.3], [9.5], [9.5]])
    offsets = np.array([0, 4, 4, 7])
    portions = coreset.build(Users(rows, offsets), 2, 50, median=median, seed=0)
    sent = {
        (float(p), float(w))
        for each in portions
        for (p,), w in zip(each.points, each.weights, strict=True)
    }
    assert sent == {(0.1, 3.0), (9.0, 1.0), (0.3, 1.0), (9.5, 2.0)}
    end = Coreset(median=median).fit(make_task(rows, offsets, k=2))
    assert len({*end.labels[[0, 1, 2, 4]]}) == len({*end.labels[[3, 5, 6]]}) == 1


def test_fewer_distinct_rows_than_centers_still_give_all_centers():
    end = Coreset().fit(make_task(np.ones((6, 2)), np.array([0, 3, 6])))
    np.testing.assert_array_equal(end.centers, np.ones((2, K, 2)))


def test_negative_weights_count_as_zero(monkeypatch):
    given = []

    def look(points, weights, *args, **options):
        given.append(weights)
        return solve(points, weights, *args, **options)

    monkeypatch.setattr(coreset, "solve", look)
    rows, offsets, _ = spread()
    portions = coreset.build(Users(rows, offsets), K, 20, median=False, seed=0)
    weights = np.concatenate([portion.weights for portion in portions])
    Coreset(size=20).fit(make_task(rows, offsets))
    assert (weights < 0).any()
    np.testing.assert_array_equal(given[0], np.where(weights < 0, 0.0, weights))


def test_all_users_have_the_same_centers_and_the_seed_decides_them():
    rows, offsets, _ = spread()
    ends = [Coreset(size=20).fit(make_task(rows, offsets, seed=s)).centers for s in (0, 0, 1)]
    assert (ends[0] == ends[0][0]).all()
    np.testing.assert_array_equal(ends[0], ends[1])
    assert (ends[0] != ends[2]).any()


def test_ten_samples_per_local_center_and_no_more_than_half_of_the_rows_by_default():
    for n, t in ((40, 20), (1000, 10 * 2 * K)):
        rows, offsets, _ = spread(sizes=(n // 2, n // 2))
        sent = Coreset().fit(make_task(rows, offsets)).traffic
        assert sent.bytes == 2 * (2 * 8 + 8 * 3 * (t + 2 * K))


@pytest.mark.parametrize("size", [0, -1, 2.5, "many"])
def test_a_size_that_is_no_count_is_refused(size):
    with pytest.raises(ParameterError, match="`size` of Coreset must be a whole number >= 1"):
        Coreset(size=size)
