"""The benchmark behind docs/how-to-choose.md, made small."""

import numpy as np
import pytest

from peerclust import bench
from peerclust.bench import choices
from peerclust.errors import ParameterError
from peerclust.losses import Huber, KMeans


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(choices, "_SEEDS", 2)
    monkeypatch.setattr(choices, "_RHOS", (10, 100))
    monkeypatch.setattr(choices, "_UPDATES", (1, 4))
    monkeypatch.setattr(choices, "_SHARES", (0.0, 0.2))
    monkeypatch.setattr(choices, "_LOSSES", {"K-means": KMeans(), "Huber": Huber(1.0)})


def test_it_tells_what_rho_b_and_the_loss_do(small, tmp_path):
    report = bench.run("choices", out=tmp_path / "choices.png")
    found = {measure.name: measure.value for measure in report.measures}
    assert len(found) == 2 * 3 + 2 * 2 + 2 * 2
    for solver in ("dgc", "accelerated"):
        assert found[f"{solver}, rho = 10: rounds"] < found[f"{solver}, rho = 100: rounds"]
    apart = [found[f"dgc and accelerated, rho = {rho}: share of the spread"] for rho in (10, 100)]
    assert apart[0] > 3 * apart[1]
    looks, exchanges = (
        [found[f"{what}, B = {B}: how many, to 1e-6"] for B in (1, 4)]
        for what in ("looks at the rows", "exchanges")
    )
    assert looks[0] == exchanges[0]
    assert looks[1] == exchanges[1] / 4 < looks[0]
    error = "{}, share of outliers = 0.2: mean error"
    assert found[error.format("Huber")] < 0.2 * found[error.format("K-means")]
    assert (tmp_path / "choices.png").read_bytes()[:4] == b"\x89PNG"


def test_rounds_that_do_not_suffice_are_not_reached(monkeypatch):
    monkeypatch.setattr(choices, "_MOST", 5)
    assert choices._solve_at("dgc", 1000, 0)[0] == np.inf


def test_centers_are_matched_with_means_before_they_are_measured():
    assert choices._center_error(KMeans(), 0.0, 0) < 0.3
    assert choices._center_error(KMeans(), 0.2, 0) > 2.0


def test_a_picture_that_cannot_be_written_is_told_first(tmp_path):
    for out, sentence in ((tmp_path / "a.pdf", "must end in .png"), ("/no/a.png", "that exists")):
        with pytest.raises(ParameterError, match=sentence):
            bench.run("choices", out=out)
