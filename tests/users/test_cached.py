"""Skipping rows changes nothing: a block with a cache, compared with a new block each time.

From its second assignment on, a block caches; a new one reads all rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from cached_blocks import MOVES, check_against_fresh, check_sums, fresh_block, move, some_rows
from hypothesis import given, settings, strategies as st

from all_pairs import by_pairs
from assignment_modes import MODES, use_mode
from instances import BREGMANS, DISTANCES, LOSSES, WEIGHTS, spd
from peerclust import kernels
from peerclust.distances import Mahalanobis
from peerclust.kernels import threads
from peerclust.losses import Huber, KMeans
from peerclust.users import Users
from peerclust.users.assigners import first_pass
from peerclust.users.boxes import sort_rows
from peerclust.users.cached import cached_pass
from reference_impl import same

modes = pytest.mark.parametrize("mode", MODES)
RUNS = st.fixed_dictionaries(
    {
        "sizes": st.lists(st.integers(0, 90), min_size=1, max_size=5),
        "d": st.integers(1, 9),
        "K": st.integers(1, 9),
        "scale": st.sampled_from([1e-160, 1e-150, 1e-30, 1.0, 1e6, 1e150]),
        "kind": st.sampled_from(["normal", "lattice", "line", "clusters"]),
        "loss": st.sampled_from(LOSSES),
        "distance": st.sampled_from(DISTANCES),
        "weights": st.sampled_from(WEIGHTS),
        "single": st.booleans(),
        "chunk_rows": st.sampled_from([16, 40, kernels.CHUNK_ROWS]),
        "moves": st.lists(st.sampled_from(MOVES), min_size=1, max_size=12),
        "seed": st.integers(0, 2**32 - 1),
    }
)


@modes
@pytest.mark.parametrize("number", [1, 2])
@settings(derandomize=True, deadline=None, max_examples=25)
@given(case=RUNS)
def test_skipping_rows_changes_no_bit(mode, number, case):
    check_run(mode, number, **case)


@pytest.mark.slow
@modes
@pytest.mark.parametrize("number", [1, 2])
@settings(derandomize=True, deadline=None, max_examples=200)
@given(case=RUNS)
def test_skipping_rows_changes_no_bit_in_many_more_runs(mode, number, case):
    check_run(mode, number, **case)


def check_run(
    mode,
    number,
    *,
    sizes,
    d,
    K,
    scale,
    kind,
    loss,
    distance,
    weights,
    single,
    chunk_rows,
    moves,
    seed,
):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if single:
        scale = min(max(scale, 1e-30), 1e30)
    rows = some_rows((offsets[-1], d), kind, scale, rng)
    rows = np.ascontiguousarray(rows, np.float32 if single else np.float64)
    x = some_rows((len(sizes) * K, d), "normal", scale, rng).reshape(len(sizes), K, d)
    with pytest.MonkeyPatch.context() as patch:
        use_mode(patch, mode)
        patch.setattr(kernels, "CHUNK_ROWS", chunk_rows)
        patch.setattr(threads, "MIN_WORK_PER_THREAD", 1)
        patch.setenv("PEERCLUST_THREADS", str(number))
        users = Users(rows, offsets, weights=weights(len(rows)), loss=loss, distance=distance(d))
        last = check_against_fresh(users, x)
        for how in moves:
            x = move(x, how, rows, scale, rng)
            last = check_against_fresh(users, x, last)


@by_pairs(mode=MODES, loss=LOSSES, distance=DISTANCES)
def test_a_long_path_in_small_steps_changes_no_bit(mode, loss, distance, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(21_000, 2)), np.array([0, 300, 300, 301, 21_000])
    users = Users(rows, offsets, weights=WEIGHTS[-1](21_000), loss=loss, distance=distance(2))
    x, ahead = rng.normal(size=(2, 4, 5, 2))
    scanned, last = [], None
    for step in range(40):
        last = check_against_fresh(users, x + 0.001 * step * ahead, last)
        scanned.append(last.rows_scanned)
    assert scanned[:2] == [21_000, 21_000]
    # A row is also read when its gamma may become variable or constant.
    assert max(scanned[2:]) < 2_100


@modes
@pytest.mark.parametrize("loss", [KMeans(), Huber(60.0)], ids=repr)
def test_many_features_change_no_bit(mode, loss, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(150, 4096)).astype(np.float32), np.array([0, 70, 150])
    users = Users(rows, offsets, loss=loss)
    (x, ahead), last = rng.normal(size=(2, 2, 6, 4096)), None
    for step in range(10):
        last = check_against_fresh(users, x + 0.001 * step * ahead, last)
    assert last.rows_scanned < 150


@modes
def test_centers_that_stay_are_not_measured_again(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(30_000, 3)), np.array([0, 10, 20_000, 30_000])
    x = rng.normal(size=(3, 4, 3))
    users, last = Users(rows, offsets, distance=Mahalanobis(spd(3))), None
    for _ in range(2):
        last = users.assign(x.copy(), last)
        assert last.rows_scanned == 30_000
    last = users.assign(x.copy(), last)
    assert last.rows_scanned == 0
    last = users.assign(x + 1e-4, last)
    assert 0 < last.rows_scanned < 300


@modes
def test_a_single_center_is_measured_twice(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(50, 2)), np.array([0, 50]))
    last = users.assign(np.zeros((1, 1, 2)), users.assign(np.zeros((1, 1, 2))))
    for step in range(20):
        last = check_against_fresh(users, np.full((1, 1, 2), 10.0**step), last)
        assert last.rows_scanned == 0


@modes
def test_a_user_whose_centers_stay_is_left_alone(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(400, 2)), np.array([0, 200, 400])
    x = rng.normal(size=(2, 3, 2))
    users = Users(rows, offsets)
    last = users.assign(x.copy(), users.assign(x))
    x = x.copy()
    x[1] = rng.normal(size=(3, 2))
    assert check_against_fresh(users, x, last).rows_scanned == 200


@modes
def test_another_number_of_centers_means_reading_all(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x, last = rng.normal(size=(2, 5, 2)), None
    for K in (5, 2, 4, 1, 5):
        for _ in range(2):
            last = check_against_fresh(users, x[:, :K].copy(), last)
            assert last.rows_scanned == 300
        last = check_against_fresh(users, x[:, :K].copy(), last)
        assert last.rows_scanned == 0


@modes
def test_without_a_last_assignment_all_labels_have_changed_but_the_cache_is_used(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 5, 2))
    for _ in range(2):
        last = check_against_fresh(users, x.copy())
        assert last.changed == last.rows_scanned == 300
    last = check_against_fresh(users, x.copy())
    assert (last.changed, last.rows_scanned) == (300, 0)
    check_against_fresh(users, x + rng.normal(size=x.shape))


@modes
def test_centers_written_to_after_an_assignment_have_moved(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 5, 2))
    last = users.assign(x, users.assign(x.copy()))
    x += rng.normal(size=x.shape)
    check_against_fresh(users, x, last)


@modes
def test_an_interrupted_assignment_is_done_again(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 3, 2))
    last = users.assign(x.copy(), users.assign(x))
    with monkeypatch.context() as patch:
        patch.setattr(
            "peerclust.users.cached.parallel_for",
            lambda loop, ends, work, *arguments: loop(0, 1, *arguments) or 1 / 0,
        )
        with pytest.raises(ZeroDivisionError):
            users.assign(x + 0.5, last)
    assert check_against_fresh(users, x + 0.5, last).rows_scanned == 300


@pytest.mark.parametrize("bregman", BREGMANS, ids=repr)
def test_a_bregman_loss_reads_all(bregman):
    rng = np.random.default_rng(0)
    users = Users(rng.uniform(1, 2, size=(90, 2)), np.array([0, 90]), loss=bregman(2))
    x, last = rng.uniform(1, 2, size=(1, 3, 2)), None
    for step in range(5):
        last = check_against_fresh(users, x + 0.01 * step, last)
        assert last.rows_scanned == 90


@modes
@pytest.mark.parametrize("single", [False, True])
def test_sums_cached_for_10_000_rounds_are_those_of_a_fresh_block(mode, single, monkeypatch):
    use_mode(monkeypatch, mode)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)) * 10.0 ** rng.integers(-3, 4, size=(400, 1))
    rows = rows.astype(np.float32 if single else np.float64)
    users = Users(rows, np.array([0, 150, 400]), weights=WEIGHTS[-1](400))
    (x, ahead), last = rng.normal(size=(2, 2, 4, 3)), None
    for round_ in range(10_000):
        at = x + np.sin(0.05 * round_) * ahead
        last = users.assign(at, last)
        if round_ % 1000 == 999:
            fresh = fresh_block(users)
            expected = fresh.assign(at)
            same(last.labels, expected.labels)
            # The bound is far below 1e-9 of each: these are the same bits.
            check_sums(users, last, fresh, expected)


@pytest.mark.parametrize("mode", [None, *MODES])
def test_the_counts_of_an_assignment_are_not_written_to_by_the_next(mode, monkeypatch):
    use_mode(monkeypatch, mode or "in place", few=2 if mode else 10**9)
    rng = np.random.default_rng(0)
    data = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))._data
    labels, x = np.full(300, -1, np.int32), rng.normal(size=(2, 3, 2))
    for assigner in (first_pass(data, 3)[0], cached_pass(data, 3)[0]):
        assigner.assign(x, labels)
        counts = assigner.changed, assigner.rows_scanned
        before = [np.copy(each) for each in counts]
        assigner.assign(-x, labels)
        assert np.sum(assigner.changed) > 0
        for found, expected in zip(counts, before, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_rows_are_sorted_into_boxes_once_whatever_the_number_of_clusters(monkeypatch):
    use_mode(monkeypatch, "in boxes")
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    made = []
    monkeypatch.setattr(
        "peerclust.users.assigners.sort_rows", lambda *rows: made.append(rows) or sort_rows(*rows)
    )
    for K in (3, 5, 3):
        first = users.assign(rng.normal(size=(2, K, 2)))
        users.assign(rng.normal(size=(2, K, 2)), first)
    assert len(made) == 1


def test_after_an_interruption_rows_are_summed_by_their_current_labels(monkeypatch):
    rng = np.random.default_rng(0)
    users = Users(rng.normal(size=(300, 2)), np.array([0, 100, 300]))
    x = rng.normal(size=(2, 3, 2))
    first = users.assign(x)
    before = users.gradient(first, x)
    last = users.assign(x.copy(), first)
    with monkeypatch.context() as patch:
        patch.setattr("peerclust.users.cached.parallel_for", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            users.assign(x.copy(), last)
    np.testing.assert_allclose(users.gradient(last, x), before, rtol=1e-12)
