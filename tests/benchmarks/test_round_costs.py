from __future__ import annotations

import numpy as np
import pytest
from peerclust.bench.timing import time_rounds

from peerclust import bench
from peerclust.bench import growth, rounds
from peerclust.errors import DataError, ParameterError
from peerclust.losses import Fair


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(6000, 2))


def test_the_exponent_is_that_of_a_power_law():
    values = (10, 100, 1000)
    curve = growth.Curve("N", values, "K = 4", 3.0 * np.array(values) ** 0.5)
    assert curve.exponent == pytest.approx(0.5)
    assert curve.measure.name == "exponent_of_N"
    assert curve.measure.target is None
    assert curve.measure.holds


def test_costs_are_measured_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(growth, "_REPEATS", 1)
    monkeypatch.setattr(growth, "_ROUNDS", 3)
    sweeps = (("N", (1000, 2000), {"K": 2, "d": 2}), ("d", (3, 20), {"N": 400, "K": 2}))
    monkeypatch.setattr(growth, "_SWEEPS", sweeps)
    said = []
    curves = list(growth.measure_growth(said.append))
    assert [curve.name for curve in curves] == ["N", "d"]
    assert all((curve.ms > 0).all() for curve in curves)
    assert len(said) == 4
    growth.draw(curves, tmp_path / "costs.png")
    assert (tmp_path / "costs.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("loss", [None, Fair()], ids=["kmeans", "fair"])
def test_a_round_is_measured_beside_scikit_learn(rows, loss, monkeypatch):
    monkeypatch.setattr(rounds, "_REPEATS", 1)
    each, setup = rounds._beside_lloyd("some", rows, K=3, rho=10.0, rounds=5, to=1e9, loss=loss)
    assert each.value > 0
    assert each.holds
    assert "5 rounds of 6,000 x 2 rows" in each.detail
    assert setup.value > 0
    assert setup.target == (20.0 if loss is None else None)


def test_memory_and_many_users_are_measured(rows, monkeypatch):
    monkeypatch.setattr(rounds, "_REPEATS", 1)
    memory = rounds._memory("bytes", rows, K=3, rho=10.0, paid=16, what="a copy")
    assert 0 < memory.value < 1000
    users = rounds._many_users(rows)
    assert users.value > 0
    assert "3,000 users x 2 rows" in users.detail


def test_the_set_up_is_told_apart(rows):
    timed = time_rounds(rows, K=3, rho=10.0, rounds=6)
    assert timed.setup > 0
    assert timed.each > 0


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"out": "costs.jpg"}, ParameterError, "must end in .png. Got costs.jpg"),
        ({"data_dir": "no/such/folder"}, DataError, "must be a folder. Got no/such/folder"),
        ({"schedules": 3}, ParameterError, "must be left out with rounds"),
    ],
)
def test_bad_options_end_before_anything_is_measured(options, error, words):
    said = []
    with pytest.raises(error, match=words):
        bench.run("rounds", said.append, **options)
    assert said == []
