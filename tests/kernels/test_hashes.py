"""Hashes of rows: all differ, by value alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from peerclust import kernels
from reference_impl import same


def hashes(rows):
    out = np.empty(len(rows), np.uint64)
    kernels.hashes(np.ascontiguousarray(rows), out)
    return out


@pytest.mark.parametrize("d", [1, 2, 5, 64])
def test_hashes_of_random_rows_all_differ(d):
    rows = np.random.default_rng(d).normal(size=(100_000, d))
    assert len(np.unique(hashes(rows))) == 100_000


def test_hashes_of_neighboring_numbers_and_lattice_points_all_differ():
    line = 1.0 + np.arange(50_000)[:, None] * np.finfo(float).eps
    assert len(np.unique(hashes(line))) == 50_000
    lattice = np.array(list(itertools.product(range(-9, 10), repeat=4)), dtype=np.float64)
    assert len(np.unique(hashes(lattice))) == len(lattice) == 19**4


def test_hashes_depend_on_the_order_of_features():
    rows = np.random.default_rng(0).normal(size=(1000, 2))
    assert (hashes(rows) != hashes(rows[:, ::-1])).all()
    assert (hashes(np.zeros((1, 2))) != hashes(np.zeros((1, 3)))).all()


def test_hashes_depend_on_a_row_s_values_alone():
    rows = np.random.default_rng(0).normal(size=(500, 3))
    order = np.random.default_rng(1).permutation(500)
    same(hashes(rows)[order], hashes(rows[order]))
    same(hashes(rows)[123:124], hashes(rows[123:124]))


def test_hashes_take_minus_zero_for_zero_and_single_precision_for_its_value():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0]])
    assert hashes(rows)[0] == hashes(rows)[1]
    single = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    same(hashes(single), hashes(single.astype(np.float64)))


def test_every_bit_of_a_hash_is_set_in_half_of_the_rows():
    # The order of the hashes stands for a random order of the rows.
    codes = hashes(np.arange(20_000, dtype=np.float64)[:, None])
    for bit in range(64):
        share = np.mean((codes >> np.uint64(bit)) & np.uint64(1))
        assert share == pytest.approx(0.5, abs=0.02)
