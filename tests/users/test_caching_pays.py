"""Rows are sorted and bounds cached only once assignments have cost as much as that would."""

import numpy as np
import pytest

from peerclust import kernels
from peerclust.users import Users, cached, users
from peerclust.users.assigners import Data

NEVER, AT_ONCE = float("inf"), 0.0


@pytest.fixture(autouse=True)
def as_it_is(monkeypatch, cache_at_once):
    monkeypatch.setattr(users, "caching_pays", cached.caching_pays)
    monkeypatch.setattr(Data, "spent_by_all", 0.0)


def make_block(n, d):
    rng = np.random.default_rng(n)
    return Users(rng.normal(size=(n, d)), np.array([0, n])), rng.normal(size=(1, 3, d))


def count_passes(n, d, delay, monkeypatch, most=200):
    """Return how many assignments read all rows, if loops take `delay` seconds to compile."""
    monkeypatch.setattr(Data, "spent_by_all", 0.0)
    monkeypatch.setattr(kernels.Kernel, "delay", lambda kernel, worth, *_: delay)
    block, x = make_block(n, d)
    last = None
    for each in range(most):
        last = block.assign(x + 1e-9 * each, last)
        if last.rows_scanned < n:
            return each - 1  # the assignment before this one has filled the cache
    return most


def test_a_block_is_cached_once_its_assignments_have_paid_for_it(monkeypatch):
    sorting = count_passes(2000, 2, AT_ONCE, monkeypatch)
    compiling = count_passes(2000, 2, 2e-4, monkeypatch)
    assert 1 < sorting < 20 < compiling < 200
    assert count_passes(2000, 2, NEVER, monkeypatch, most=50) == 50


def test_bounds_are_cached_from_the_second_assignment_on_if_nothing_has_to_be_compiled(monkeypatch):
    assert count_passes(300, 20, AT_ONCE, monkeypatch) == 1


def test_rows_that_are_sorted_already_are_used_from_the_second_assignment_on(monkeypatch):
    monkeypatch.setattr(kernels.Kernel, "delay", lambda kernel, worth, *_: AT_ONCE)
    block, x = make_block(2000, 2)
    assert block._data.box_layout is block._data.box_layout
    last = block.assign(x)
    for _ in range(2):
        last = block.assign(x.copy(), last)
    assert last.rows_scanned == 0


def test_what_a_block_has_spent_counts_over_all_of_its_runs(monkeypatch):
    monkeypatch.setattr(kernels.Kernel, "delay", lambda kernel, worth, *_: AT_ONCE)
    block, x = make_block(2000, 2)
    for _ in range(20):
        block.assign(x)
    assert block._data.has_layout


def test_compiling_is_paid_for_by_all_blocks_together(monkeypatch):
    alone = count_passes(2000, 2, 2e-4, monkeypatch)
    monkeypatch.setattr(Data, "spent_by_all", 0.0)
    block, x = make_block(2000, 2)
    for _ in range(alone):
        block.assign(x + 1e-9)
    another, x = make_block(2001, 2)
    passes = 0
    while not another._data.has_layout:
        another.assign(x)
        passes += 1
    assert passes < alone / 2
