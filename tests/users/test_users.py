"""What must not change a bit of what users compute: precision, blocks, threads, chunks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from all_pairs import by_pairs
from instances import (
    LOSSES,
    OBJECTIVES,
    SIZES,
    WEIGHTS,
    random_block,
)
from peerclust import kernels
from peerclust.distances import Euclidean
from peerclust.kernels import threads
from peerclust.losses import Fair, Huber, KMeans
from peerclust.users import Users, rows as user_rows
from reference_impl import same

dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


all_weights = pytest.mark.parametrize("weights", WEIGHTS, ids=repr)


objectives = pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)


def part(users, a, b):
    """Return the users a to b as a block of their own."""
    here = slice(users.offsets[a], users.offsets[b])
    whole = isinstance(users.weights, float)
    return Users(
        users.rows[here].copy(),
        users.offsets[a : b + 1] - users.offsets[a],
        weights=users.weights if whole else users.weights[here].copy(),
        loss=users.loss,
        distance=users.distance,
        ids=users.ids[a:b],
    )


def all_of(users, x, moved):
    """Return everything a block computes, in one order."""
    first = users.assign(x)
    out = {"labels": first.labels, "gradient": users.gradient(first, x)}
    for at, name in ((x, ""), (moved, ", moved")):
        out[f"cost{name}"] = users.cost(first, at)
        out[f"curvature{name}"] = users.curvature(first, at)
        out[f"local curvature{name}"] = users.local_curvature(first, at)
    out["label weights"] = users.label_weights(first, x.shape[1])
    out["gradient, moved"] = users.gradient(first, moved)
    second = users.assign(moved, first)
    out["labels, moved"], out["gradient, again"] = second.labels, users.gradient(second, moved)
    out["total weights"] = users.total_weights
    return out


@objectives
@pytest.mark.parametrize("d", [1, 3, 20])
def test_single_precision_rows_give_what_copies_in_double_give(objective, d):
    rows, offsets, x = random_block(SIZES, d, 4, dtype=np.float32)
    w = WEIGHTS[-1](len(rows))
    single, double = (
        Users(each, offsets, weights=w, **objective(d)) for each in (rows, rows.astype(np.float64))
    )
    narrow, wide = all_of(single, x, x + 0.1), all_of(double, x, x + 0.1)
    for name in wide:
        same(narrow[name], wide[name])
    for a, b in zip(single.nearest(x[0]), double.nearest(x[0]), strict=True):
        same(a, b)
    for a, b in zip(single.distinct, double.distinct, strict=True):
        same(a, b)


@by_pairs(
    objective=OBJECTIVES,
    weights=WEIGHTS,
    chunk_rows=[16, kernels.CHUNK_ROWS],
    shape=[(1, 2), (3, 4), (20, 1)],
)
def test_a_block_of_many_users_computes_what_blocks_of_one_do_to_the_last_bit(
    monkeypatch, objective, weights, chunk_rows, shape
):
    d, K = shape
    monkeypatch.setattr(kernels, "CHUNK_ROWS", chunk_rows)
    rows, offsets, x = random_block(SIZES, d, K)
    ids = [3 * i + 2 for i in range(len(SIZES))]
    made = {"weights": weights(len(rows)), **objective(d)}
    users = Users(rows, offsets, ids=ids, **made)
    together = all_of(users, x, x + 0.1)
    for i in range(users.m):
        block = users.single_user(i)
        assert (block.m, block.d, block.ids) == (1, d, (3 * i + 2,))
        alone = all_of(block, x[i : i + 1], x[i : i + 1] + 0.1)
        for name, value in alone.items():
            here = slice(offsets[i], offsets[i + 1]) if "labels" in name else slice(i, i + 1)
            same(value, together[name][here])


@objectives
def test_the_same_holds_for_rows_of_many_features(objective):
    # numpy adds up more than 128 numbers in another order than fewer
    d = 140
    rows, offsets, x = random_block([3, 1, 40], d, 3)
    users = Users(rows, offsets, **objective(d))
    together = all_of(users, x, x + 0.1)
    for i in range(users.m):
        alone = all_of(users.single_user(i), x[i : i + 1], x[i : i + 1] + 0.1)
        for name, value in alone.items():
            here = slice(offsets[i], offsets[i + 1]) if "labels" in name else slice(i, i + 1)
            same(value, together[name][here])


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    cuts=st.sets(st.integers(1, 7)),
    which=st.integers(0, len(LOSSES) - 1),
    seed=st.integers(0, 1000),
)
def test_however_users_are_divided_into_blocks_each_computes_the_same(sizes, cuts, which, seed):
    rows, offsets, x = random_block(sizes, 2, 3, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "CHUNK_ROWS", 16)
        users = Users(rows, offsets, weights=WEIGHTS[-1](len(rows)), loss=LOSSES[which])
        together = all_of(users, x, x + 0.1)
        ends = sorted({0, len(sizes), *(cut for cut in cuts if cut < len(sizes))})
        for a, b in pairwise(ends):
            alone = all_of(part(users, a, b), x[a:b], x[a:b] + 0.1)
            for name, value in alone.items():
                here = slice(offsets[a], offsets[b]) if "labels" in name else slice(a, b)
                same(value, together[name][here])


@objectives
@all_weights
def test_threads_do_not_change_a_bit(monkeypatch, objective, weights):
    monkeypatch.setattr(kernels, "CHUNK_ROWS", 16)
    monkeypatch.setattr(threads, "MIN_WORK_PER_THREAD", 1)
    rows, offsets, x = random_block(SIZES, 3, 4)
    found = []
    for number in (1, 2, 5):
        monkeypatch.setenv("PEERCLUST_THREADS", str(number))
        users = Users(rows, offsets, weights=weights(len(rows)), **objective(3))
        found.append(all_of(users, x, x + 0.1))
        found[-1]["nearest"], found[-1]["r2"] = users.nearest(x[0])
    for other in found[1:]:
        for name in found[0]:
            same(other[name], found[0][name])


def test_threads_do_not_change_a_bit_of_many_rows(monkeypatch):
    # as the library is: nothing patched but the number of threads
    rows, offsets, x = random_block([50_000, 3, 0, 70_000], 4, 5)
    found = []
    for number in (1, 2, 5):
        monkeypatch.setenv("PEERCLUST_THREADS", str(number))
        found.append(all_of(Users(rows, offsets, loss=Fair(0.5)), x, x + 0.1))
    for other in found[1:]:
        for name in found[0]:
            same(other[name], found[0][name])


@by_pairs(objective=OBJECTIVES, weights=WEIGHTS, chunk=[1, 40, 100])
def test_cost_does_not_depend_on_how_many_rows_are_in_memory_at_a_time(
    monkeypatch, objective, weights, chunk
):
    monkeypatch.setattr(kernels, "CHUNK_ROWS", 16)
    rows, offsets, x = random_block(SIZES, 3, 4)
    users = Users(rows, offsets, weights=weights(len(rows)), **objective(3))
    assignment = users.assign(x)
    at_once, total = users.cost(assignment, x), users.total_weights
    monkeypatch.setattr(user_rows, "BATCH_ROWS", chunk)
    same(users.cost(assignment, x), at_once)
    fresh = Users(rows, offsets, weights=weights(len(rows)))
    same(fresh.total_weights, total)


def test_the_order_of_a_user_s_rows_matters_only_in_the_last_bits():
    rows, offsets, x = random_block(SIZES, 3, 4)
    rng = np.random.default_rng(0)
    order = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(offsets)])
    for loss in LOSSES:
        one, other = Users(rows, offsets, loss=loss), Users(rows[order], offsets, loss=loss)
        first, second = one.assign(x), other.assign(x)
        same(first.labels[order], second.labels)
        np.testing.assert_allclose(
            other.gradient(second, x), one.gradient(first, x), rtol=1e-12, atol=1e-11
        )
        np.testing.assert_allclose(other.cost(second, x), one.cost(first, x), rtol=1e-13)


@objectives
def test_nothing_that_is_given_is_written_to(objective):
    rows, offsets, x = random_block(SIZES, 3, 4)
    w = WEIGHTS[-1](len(rows))
    before = [each.copy() for each in (rows, offsets, x, w)]
    users = Users(rows, offsets, weights=w, **objective(3))
    all_of(users, x, x + 0.1)
    users.nearest(x[0])
    _ = users.distinct
    for each, kept in zip((rows, offsets, x, w), before, strict=True):
        same(each, kept)


def test_rows_that_cannot_be_written_to_are_taken():
    rows, offsets, x = random_block(SIZES, 3, 4)
    expected = all_of(Users(rows, offsets, loss=Huber(0.5)), x, x + 0.1)
    rows = rows.copy()
    rows.flags.writeable = False
    found = all_of(Users(rows, offsets, loss=Huber(0.5)), x, x + 0.1)
    for name in expected:
        same(found[name], expected[name])


@dtypes
@losses
def test_euclidean_rows_are_not_copied(dtype, loss):
    rows, offsets, _ = random_block(SIZES, 3, 4, dtype=dtype)
    users = Users(rows, offsets, loss=loss)
    assert users.rows is rows
    assert np.shares_memory(users._y, rows)
    block = users.single_user(7)
    assert np.shares_memory(block.rows, rows)
    assert np.shares_memory(block._y, rows)


def test_a_user_draws_the_same_numbers_in_any_block():
    rows, offsets, _ = random_block(SIZES, 2, 3)
    users = Users(rows, offsets, ids=np.arange(4, 4 + 5 * len(SIZES), 5).tolist())
    for i in range(users.m):
        together = users.generator(i, seed=11, step=2).random(5)
        same(users.single_user(i).generator(0, seed=11, step=2).random(5), together)


def test_users_steps_and_seeds_draw_different_numbers():
    users = Users(*random_block(SIZES, 2, 3)[:2])
    drawn = {
        users.generator(i, seed=seed, step=step).random()
        for i in range(users.m)
        for seed in range(4)
        for step in range(4)
    }
    assert len(drawn) == users.m * 16


def test_a_user_with_a_private_seed_draws_from_it_in_any_block():
    rows, offsets, _ = random_block(SIZES, 2, 3)
    seeds = {3: b"a secret", 5: b"another secret"}
    plain, private = Users(rows, offsets), Users(rows, offsets, private_seeds=seeds)
    weighted = private.with_weights(np.ones(len(rows)))
    for i in range(private.m):
        drawn = private.generator(i, seed=11, step=2).random(5)
        same(private.single_user(i).generator(0, seed=11, step=2).random(5), drawn)
        same(weighted.generator(i, seed=11, step=2).random(5), drawn)
        public = np.array_equal(plain.generator(i, seed=11, step=2).random(5), drawn)
        assert public == (i not in seeds)


def test_private_seeds_public_seeds_steps_and_hidden_numbers_draw_different_numbers():
    rows, offsets, _ = random_block(SIZES, 2, 3)
    drawn = {
        Users(rows, offsets, private_seeds={0: bytes([secret])})
        .generator(0, seed=seed, step=step, hides=hides)
        .random()
        for secret in range(4)
        for seed in range(4)
        for step in range(4)
        for hides in (0.0, 1.0, 1.0 + 2.0**-52)
    }
    assert len(drawn) == 4 * 4 * 4 * 3


def test_the_default_is_kmeans_under_the_euclidean_distance_with_unit_weights():
    rows, offsets, x = random_block(SIZES, 2, 3)
    users = Users(rows, offsets)
    given_all = Users(rows, offsets, weights=1.0, loss=KMeans(), distance=Euclidean())
    first, second = users.assign(x), given_all.assign(x)
    same(users.gradient(first, x), given_all.gradient(second, x))
    same(users.cost(first, x), given_all.cost(second, x))
