from __future__ import annotations

import numpy as np
import pytest

from benchmarks.round_timing import time_rounds
from benchmarks.rounds import cost_growth, round_costs
from peerclust.losses import Fair


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(6000, 2))


def test_the_exponent_is_that_of_a_power_law():
    values = (10, 100, 1000)
    curve = cost_growth.Curve("N", values, "K = 4", 3.0 * np.array(values) ** 0.5)
    assert curve.exponent == pytest.approx(0.5)
    assert curve.measure.name == "exponent_of_N"
    assert curve.measure.target is None
    assert curve.measure.holds


def test_costs_are_measured_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(cost_growth, "_REPEATS", 1)
    monkeypatch.setattr(cost_growth, "_ROUNDS", 3)
    sweeps = (("N", (1000, 2000), {"K": 2, "d": 2}), ("d", (3, 20), {"N": 400, "K": 2}))
    monkeypatch.setattr(cost_growth, "_SWEEPS", sweeps)
    lines = []
    curves = list(cost_growth.measure_growth(lines.append))
    assert [curve.name for curve in curves] == ["N", "d"]
    assert all((curve.ms > 0).all() for curve in curves)
    assert len(lines) == 4
    cost_growth.draw(curves, tmp_path / "costs.png")
    assert (tmp_path / "costs.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("loss", [None, Fair()], ids=["kmeans", "fair"])
def test_a_round_is_compared_with_scikit_learn(rows, loss, monkeypatch):
    monkeypatch.setattr(round_costs, "_REPEATS", 1)
    each, setup = round_costs._compare_with_lloyd(
        "some", rows, K=3, rho=10.0, rounds=5, target=1e9, loss=loss
    )
    assert each.value > 0
    assert each.holds
    assert "5 rounds of 6,000 x 2 rows" in each.detail
    assert setup.value > 0
    assert setup.target == (20.0 if loss is None else None)


def test_memory_and_many_users_are_measured(rows, monkeypatch):
    monkeypatch.setattr(round_costs, "_REPEATS", 1)
    memory = round_costs._measure_memory("bytes", rows, K=3, rho=10.0, allowed=16, what="a copy")
    # Less than the copy if rows are not worth sorting.
    assert -16 < memory.value < 1000
    users = round_costs._compare_with_product(rows)
    assert users.value > 0
    assert "3,000 users x 2 rows" in users.detail


def test_the_set_up_is_timed_separately(rows):
    times = time_rounds(rows, K=3, rho=10.0, rounds=6)
    assert times.setup > 0
    assert times.later > 0
