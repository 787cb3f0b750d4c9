"""The benchmark behind docs/how-to-choose.md, on small sizes."""

import numpy as np
import pytest

import benchmarks
from benchmarks import choices
from peerclust.losses import Huber, KMeans


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(choices, "_SEEDS", 2)
    monkeypatch.setattr(choices, "_RHOS", (10, 100))
    monkeypatch.setattr(choices, "_UPDATES", (1, 4))
    monkeypatch.setattr(choices, "_SHARES", (0.0, 0.2))
    monkeypatch.setattr(choices, "_LOSSES", {"K-means": KMeans(), "Huber": Huber(1.0)})


def test_the_effects_of_rho_b_and_the_loss_are_measured_and_drawn(small, tmp_path):
    report = benchmarks.run("choices", out=tmp_path / "choices.png")
    found = {measure.name: measure.value for measure in report.measures}
    assert len(found) == 2 * 3 + 2 * 2 + 2 * 2
    for solver in ("dgc", "accelerated"):
        assert found[f"{solver}, rho = 10: rounds"] < found[f"{solver}, rho = 100: rounds"]
    disagreement = [
        found[f"dgc and accelerated, rho = {rho}: share of the spread"] for rho in (10, 100)
    ]
    assert disagreement[0] > 3 * disagreement[1]
    passes, exchanges = (
        [found[f"{what}, B = {B}: number, to 1e-6"] for B in (1, 4)]
        for what in ("passes over the rows", "exchanges")
    )
    assert passes[0] == exchanges[0]
    assert passes[1] == exchanges[1] / 4 < passes[0]
    error = "{}, share of outliers = 0.2: mean error"
    assert found[error.format("Huber")] < 0.2 * found[error.format("K-means")]
    assert (tmp_path / "choices.png").read_bytes()[:4] == b"\x89PNG"


def test_too_few_rounds_are_infinity(monkeypatch):
    monkeypatch.setattr(choices, "_MAX_ROUNDS", 5)
    assert choices._solve_at("dgc", 1000, 0)[0] == np.inf


def test_centers_are_matched_with_means_before_they_are_measured():
    assert choices._center_error(KMeans(), 0.0, 0) < 0.3
    assert choices._center_error(KMeans(), 0.2, 0) > 2.0
