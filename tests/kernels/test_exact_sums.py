"""Sums of two numbers beside sums of fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from assignment_modes import MODES, use_mode
from peerclust import kernels
from peerclust.kernels.exact_sums import no_marks, no_sums
from peerclust.kernels.loops import exact_sums
from peerclust.users import Users

ULP = 2.0**-52


def true_sum(rows, weights):
    """The sum of w y, each product rounded as the loops do."""
    columns = (weights[:, None] * rows).T.tolist()
    return [sum((Fraction(v) for v in column), Fraction(0)) for column in columns]


@pytest.mark.parametrize("spread", [0, 3, 12, 40])
def test_moves_are_within_the_bound_or_ask_to_be_recomputed(spread):
    rng = np.random.default_rng(spread)
    rows = rng.normal(size=(60, 3)) * 10.0 ** rng.uniform(-spread, spread, (60, 3))
    w = rng.uniform(0.5, 2.0, 60)
    sums, marks = no_sums(1, 1, 3), no_marks(1, 1, 3)
    inside = np.zeros(60, bool)
    asked = 0
    for step in range(2000):
        row = int(rng.integers(60))
        weight = -w[row] if inside[row] else w[row]
        inside[row] = not inside[row]
        if exact_sums.update_row(rows, row, weight, 0, 0, sums, marks):
            asked += 1
            sums, marks = no_sums(1, 1, 3), no_marks(1, 1, 3)
            for each in np.flatnonzero(inside):
                exact_sums.update_row(rows, each, w[each], 0, 0, sums, marks)
        if step % 4:
            continue
        for found, truth in zip(sums.hi1[0, 0], true_sum(rows[inside], w[inside]), strict=True):
            # Rounded once, and by n 2^-65 before.
            assert abs(Fraction(found) - truth) <= abs(truth) * Fraction(ULP), step
        weight_sum = sum(map(Fraction, w[inside].tolist()), Fraction(0))
        assert abs(Fraction(sums.hi0[0, 0]) - weight_sum) <= weight_sum * Fraction(ULP)
    assert (asked > 0) == (spread == 40)


def test_a_feature_that_few_rows_have_need_not_be_recomputed():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 256, (50, 2)) / 255.0
    rows[1:, 1] = 0.0
    sums, marks = no_sums(1, 1, 2), no_marks(1, 1, 2)
    for row in range(50):
        assert not exact_sums.update_row(rows, row, 1.0, 0, 0, sums, marks)
    assert not exact_sums.update_row(rows, 0, -1.0, 0, 0, sums, marks)
    assert sums.hi1[0, 0, 1] == 0.0
    assert not marks.rounded1.any()


@pytest.mark.parametrize("mode", MODES)
def test_rows_of_very_different_size_leave_no_trace(mode, monkeypatch):
    use_mode(monkeypatch, mode)
    # One after the other goes to the second center, the largest first.
    rows = np.array(
        [[2.0**78, 0.0], [2.0**39, 1.0], [1.1, 2.0**39], [2.0**-40, 1.1], [0.3, 2.0**-70]]
    )
    users, last = Users(rows, np.array([0, 5])), None
    for gone in range(-1, 4):
        near = np.zeros((1, 2, 2))
        near[0, 1] = rows[gone] if gone >= 0 else 1e300
        for _ in range(2):
            last = users.assign(near, last)
        mine = rows[last.labels == 0]
        _, s1 = users.gradient_terms(last, near)
        for found, truth in zip(s1[0, 0], true_sum(mine, np.ones(len(mine))), strict=True):
            assert abs(Fraction(found) - truth) <= abs(truth) * Fraction(ULP)


def test_sums_of_entries_are_exact_and_rounded_once_in_any_order():
    rng = np.random.default_rng(0)
    ends, sizes, plain = np.array([0, 500, 500, 900]), np.array([200, 0, 150]), np.zeros(3, bool)
    values = rng.normal(size=900) * 10.0 ** rng.uniform(-9, 9, 900)
    cells = np.r_[rng.integers(0, 7, 500), rng.integers(7, 20, 400)]
    hi, lo = kernels.sum_entries(values, cells, 21, ends, sizes, plain)
    for cell in range(20):
        truth = sum(map(Fraction, values[cells == cell].tolist()), Fraction(0))
        assert hi[cell] == float(truth)
        assert (
            abs(Fraction(hi[cell]) + Fraction(lo[cell]) - truth) <= abs(truth) * Fraction(2) ** -100
        )
    assert hi[20] == 0.0
    order = np.r_[rng.permutation(500), 500 + rng.permutation(400)]
    again = kernels.sum_entries(values[order], cells[order], 21, ends, sizes, plain)
    assert np.array_equal(again, (hi, lo))


def test_entries_of_plain_users_are_added_in_their_order():
    values, cells = np.array([1e16, 1.0, -1e16, 1e16, 1.0, -1e16]), np.repeat([0, 1], 3)
    ends, sizes = np.array([0, 3, 6]), np.array([3, 3])
    hi, _ = kernels.sum_entries(values, cells, 2, ends, sizes, np.array([True, False]))
    assert hi.tolist() == [0.0, 1.0]
