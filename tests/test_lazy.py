"""Skipping rows changes nothing: a block that assigns again and again beside ever fresh ones.

From its second assignment on, a block remembers; a fresh one reads all rows.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from instances import BREGMANS, DISTANCES, LOSSES, WEIGHTS, spd
from peerclust import kernels
from peerclust.distances import Mahalanobis
from peerclust.kernels import threads
from peerclust.losses import Huber, KMeans
from peerclust.users import Users
from plain import same
from ways import WAYS, set_way

MOVES = ["stay", "creep", "drift", "one", "jump", "far", "swap", "meet", "back", "onto"]


def move(x, how, rows, scale, rng):
    """The centers' next place; `scale` is the size of the rows."""
    m, K = x.shape[:2]
    step = rng.normal(size=x.shape) * scale
    if how == "creep":  # down to steps whose squares underflow, or that rounding swallows
        return x + step * 10.0 ** rng.integers(-20, -5)
    if how == "drift":
        return x + step * 0.02
    if how == "one":
        moved = x.copy()
        moved[:, rng.integers(K)] += step[:, 0]
        return moved
    if how == "jump":
        return step
    if how == "far":  # where squares overflow
        return x + step / scale * 1e155
    if how == "swap":
        return np.ascontiguousarray(x[:, rng.permutation(K)])
    if how == "meet":  # equally near centers
        moved = x.copy()
        moved[:, rng.integers(K)] = moved[:, rng.integers(K)]
        return moved
    if how == "back":
        return np.round(np.clip(x, -1e6 * scale, 1e6 * scale) / scale) * scale
    if how == "onto" and len(rows):
        return rows[rng.integers(len(rows), size=(m, K))].astype(np.float64)
    return x.copy()


def some_rows(shape, kind, scale, rng):
    if kind == "lattice":  # ties and duplicates
        return rng.integers(-2, 3, size=shape) * scale
    if kind == "line":
        return np.linspace(-1.0, 1.0, shape[0])[:, None] * np.ones(shape[1]) * scale
    if kind == "clusters":
        return (rng.normal(size=shape) * 0.1 + rng.integers(-3, 4, size=(shape[0], 1))) * scale
    return rng.normal(size=shape) * scale


ways = pytest.mark.parametrize("way", WAYS)


def fresh_block(users, x):
    fresh = Users(
        users.rows, users.offsets, weights=users.weights, loss=users.loss, distance=users.distance
    )
    fresh.assign(x)
    return fresh


def check_against_fresh(users, x):
    """Assign x and compare all that comes of it with a block that knows nothing yet."""
    before = users.labels.copy()
    with np.errstate(all="ignore"):  # some centers are where squares overflow
        fresh = fresh_block(users, x)
        users.assign(x)
        same(users.labels, fresh.labels)
        assert users.changed == np.count_nonzero(fresh.labels != before)
        assert users.looked <= fresh.looked == len(users.rows)
        check_sums(users, fresh, x)


def check_sums(users, fresh, x):
    same(users.curvature(x), fresh.curvature(x))
    for found, sums in zip(users._find_sums(x, x), fresh._find_sums(x, x), strict=True):
        if np.isfinite(sums).all():
            same(found, sums)
        np.testing.assert_array_equal(found, sums)  # a NaN may have any sign


@ways
@pytest.mark.parametrize("number", [1, 2])
@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=5),
    d=st.integers(1, 9),
    K=st.integers(1, 9),
    scale=st.sampled_from([1e-160, 1e-150, 1e-30, 1.0, 1e6, 1e150]),
    kind=st.sampled_from(["normal", "lattice", "line", "clusters"]),
    loss=st.sampled_from(LOSSES),
    distance=st.sampled_from(DISTANCES),
    weights=st.sampled_from(WEIGHTS),
    single=st.booleans(),
    segment=st.sampled_from([16, 40, kernels.SEGMENT]),
    moves=st.lists(st.sampled_from(MOVES), min_size=1, max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
def test_skipping_rows_changes_no_bit(
    way, number, sizes, d, K, scale, kind, loss, distance, weights, single, segment, moves, seed
):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if single:
        scale = min(max(scale, 1e-30), 1e30)
    rows = some_rows((offsets[-1], d), kind, scale, rng)
    rows = np.ascontiguousarray(rows, np.float32 if single else np.float64)
    x = some_rows((len(sizes) * K, d), "normal", scale, rng).reshape(len(sizes), K, d)
    with pytest.MonkeyPatch.context() as patch:
        set_way(patch, way)
        patch.setattr(kernels, "SEGMENT", segment)
        patch.setattr(threads, "WORTH_A_THREAD", 1)
        patch.setenv("PEERCLUST_THREADS", str(number))
        users = Users(rows, offsets, weights=weights(len(rows)), loss=loss, distance=distance(d))
        check_against_fresh(users, x)
        for how in moves:
            x = move(x, how, rows, scale, rng)
            check_against_fresh(users, x)


@ways
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_a_long_way_in_small_steps_changes_no_bit(way, loss, distance, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(21_000, 2)), np.array([0, 300, 300, 301, 21_000])
    users = Users(rows, offsets, weights=WEIGHTS[-1](21_000), loss=loss, distance=distance(2))
    x, way = rng.normal(size=(2, 4, 5, 2))
    looked = []
    for step in range(40):
        check_against_fresh(users, x + 0.001 * step * way)
        looked.append(users.looked)
    assert looked[:2] == [21_000, 21_000]
    # A row is also looked at when its gamma may begin to change, or stop to.
    assert max(looked[2:]) < 2_100


@ways
@pytest.mark.parametrize("loss", [KMeans(), Huber(60.0)], ids=repr)
def test_many_features_change_no_bit(way, loss, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(150, 4096)).astype(np.float32), np.array([0, 70, 150])
    users = Users(rows, offsets, loss=loss)
    x, way = rng.normal(size=(2, 2, 6, 4096))
    for step in range(10):
        check_against_fresh(users, x + 0.001 * step * way)
    assert users.looked < 150


def next_to_a_tie(n, rng):
    """Rows whose two nearest centers are equally near, or nearly: a few last bits decide."""
    x = np.array([[[-1.0, 0.3], [1.0, 0.3], [40.0, 0.0]]])
    rows = np.column_stack([rng.integers(-40, 41, n) * 2.0**-54, rng.normal(size=n)])
    return rows, x


@ways
def test_rows_that_rounding_decides_about_are_read_again(way, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    rows, x = next_to_a_tie(400, rng)
    users = Users(rows, np.array([0, 400]))
    for _ in range(60):
        check_against_fresh(users, x)
        x = x + rng.integers(-3, 4, size=x.shape) * 2.0**-53


@ways
@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1.0, 1e100, 1e150])
def test_a_row_is_read_just_before_its_label_changes(way, scale, monkeypatch):
    set_way(monkeypatch, way)
    # The far center comes in 1000 steps; the row at 0 is nearer to it once it is within 1.
    users = Users(np.array([[0.0], [-0.9 * scale]]), np.array([0, 2]))
    found = []
    for step in range(1000):
        x = np.array([[[-1.0], [2.0 - 1.5 * step / 1000]]]) * scale
        users.assign(x)
        found.append((users.labels[0], users.looked))
    label, looked = np.array(found).T
    turn = int(np.argmax(label == 1))
    assert turn == math.floor(1000 / 1.5) + 1
    assert looked[turn] >= 1
    assert looked[:2].tolist() == [2, 2]
    # Bounds are short numbers, which such scales are too large or too small for.
    if way != "with bounds" or scale == 1.0:
        assert looked[2:].sum() < 60


@ways
def test_centers_that_stay_are_not_measured_again(way, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(30_000, 3)), np.array([0, 10, 20_000, 30_000])
    x = rng.normal(size=(3, 4, 3))
    users = Users(rows, offsets, distance=Mahalanobis(spd(3)))
    for _ in range(2):
        users.assign(x.copy())
        assert users.looked == 30_000
    users.assign(x.copy())
    assert users.looked == 0
    users.assign(x + 1e-4)
    assert 0 < users.looked < 300


@ways
def test_a_single_center_is_measured_twice(way, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(50, 2)), np.array([0, 50]))
    users.assign(np.zeros((1, 1, 2)))
    users.assign(np.zeros((1, 1, 2)))
    for step in range(20):
        check_against_fresh(users, np.full((1, 1, 2), 10.0**step))
        assert users.looked == 0


@ways
def test_a_user_whose_centers_stay_is_left_alone(way, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(400, 2)), np.array([0, 200, 400])
    x = rng.normal(size=(2, 3, 2))
    users = Users(rows, offsets)
    users.assign(x)
    users.assign(x)
    x = x.copy()
    x[1] = rng.normal(size=(3, 2))
    check_against_fresh(users, x)
    assert users.looked == 200


@ways
def test_another_number_of_centers_or_forgetting_means_reading_all(way, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 5, 2))
    for K in (5, 2, 4, 1, 5):
        for _ in range(2):
            check_against_fresh(users, x[:, :K].copy())
            assert users.looked == 300
        check_against_fresh(users, x[:, :K].copy())
        assert users.looked == 0
    users.forget()
    check_against_fresh(users, x)
    assert users.changed == users.looked == 300


@ways
def test_centers_written_to_after_an_assignment_have_moved(way, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 5, 2))
    users.assign(x)
    users.assign(x)
    x += rng.normal(size=x.shape)
    check_against_fresh(users, x)


@ways
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_centers_that_leave_all_bounds_skip_nothing(way, bad, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 3, 2))
    gone = x.copy()
    gone[0, 1, 0] = bad
    for at in (x, x.copy(), gone, gone.copy(), x, x + 0.01):
        users.assign(at)
        same(users.labels, fresh_block(users, at).labels)
        assert users.looked >= (0 if bad == 1e200 and at is x else 100)


@ways
def test_an_assignment_that_was_broken_off_is_done_anew(way, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 3, 2))
    users.assign(x)
    users.assign(x)
    with monkeypatch.context() as patch:
        patch.setattr("peerclust.users.cached.spread", lambda loop, ends, work: loop(0, 1) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            users.assign(x + 0.5)
    check_against_fresh(users, x + 0.5)
    assert users.looked == 300


@pytest.mark.parametrize("bregman", BREGMANS, ids=repr)
def test_a_bregman_loss_reads_all(bregman):
    rng = np.random.default_rng(0)
    users = Users(rng.uniform(1, 2, size=(90, 2)), np.array([0, 90]), loss=bregman(2))
    x = rng.uniform(1, 2, size=(1, 3, 2))
    for step in range(5):
        check_against_fresh(users, x + 0.01 * step)
        assert users.looked == 90


@ways
@pytest.mark.parametrize("single", [False, True])
def test_sums_kept_for_10_000_rounds_are_those_of_a_fresh_block(way, single, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)) * 10.0 ** rng.integers(-3, 4, size=(400, 1))
    rows = rows.astype(np.float32 if single else np.float64)
    users = Users(rows, np.array([0, 150, 400]), weights=WEIGHTS[-1](400))
    x, way_there = rng.normal(size=(2, 2, 4, 3))
    for round_ in range(10_000):
        at = x + np.sin(0.05 * round_) * way_there
        users.assign(at)
        if round_ % 1000 == 999:
            fresh = fresh_block(users, at)
            same(users.labels, fresh.labels)
            # The bound is far below 1e-9 of each: these are the same bits.
            check_sums(users, fresh, at)


@ways
@pytest.mark.parametrize("scale", [1e40, 1e150])
def test_a_long_way_of_huge_numbers_changes_no_label(way, scale, monkeypatch):
    set_way(monkeypatch, way)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(200, 16)) * scale, np.array([0, 200]))
    x = rng.normal(size=(1, 4, 16)) * scale
    for _ in range(150):
        x = x + rng.normal(size=x.shape) * 0.05 * scale
        check_against_fresh(users, x)


def test_what_was_broken_off_is_summed_by_the_labels_it_has(monkeypatch):
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 3, 2))
    users.assign(x)
    before = users.pull(x)
    users.assign(x)
    with monkeypatch.context() as patch:
        patch.setattr("peerclust.users.cached.spread", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            users.assign(x)
    np.testing.assert_allclose(users.pull(x), before, rtol=1e-12)


@ways
def test_a_huge_row_that_leaves_a_cluster_leaves_nothing_behind(way, monkeypatch):
    set_way(monkeypatch, way)
    rows = np.random.default_rng(0).normal(size=(60, 2))
    rows[7] = [1e150, 1e149]
    users = Users(rows, np.array([0, 60]), loss=KMeans())
    near, far = np.array([[0.5, 0.0], [0.0, 0.5]]), np.array([[0.5, 0.0], [1e150, 1e149]])
    for x in (near, near, far, near, far):
        check_against_fresh(users, x[None].copy())


@pytest.mark.parametrize(
    "sizes",
    [[1e-165] * 60, [1.0] + [1e-17] * 1000, [1.0, 1e-3] * 30],
    ids=["squares underflow", "sums swallow", "ordinary"],
)
def test_drifts_are_never_too_small(sizes):
    rng = np.random.default_rng(0)
    last, gone, drift, clock = np.zeros((1, 4, 3)), *np.zeros((2, 1, 4)), np.zeros(1)
    own, both, fastest = [Fraction(0)] * 4, [Fraction(0)] * 4, Fraction(0)
    for size in sizes:
        x = rng.normal(size=(1, 4, 3)) * size
        ways = []
        for a, b in zip(x[0], last[0], strict=True):
            r2 = sum((Fraction(p) - Fraction(q)) ** 2 for p, q in zip(a, b, strict=True))
            ways.append(Fraction(math.isqrt(int(r2 * 10**400)), 10**200))  # the root, cut off
        own = [e + ways[k] for k, e in enumerate(own)]
        both = [e + ways[k] + max(ways[:k] + ways[k + 1 :]) for k, e in enumerate(both)]
        fastest += sum(sorted(ways)[-2:])
        kernels.add_drifts(x, last, np.array([0]), gone, drift, clock)
        same(last, x)
        for found, exact in ((gone[0], own), (drift[0], both), (clock, [fastest])):
            assert all(Fraction(f) >= e for f, e in zip(found, exact, strict=True))
    for found, exact in ((gone[0], own), (drift[0], both), (clock, [fastest])):
        np.testing.assert_allclose(found, [float(e) for e in exact], rtol=1e-11, atol=1e-150)
