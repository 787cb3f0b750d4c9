"""The benchmarks `core` and `outliers`, on small sizes."""

import numpy as np

import benchmarks
from benchmarks import core, outliers


def test_an_assignment_is_compared_with_scikit_learn():
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    found = core._compare_with_lloyd("some", rows, K=3)
    assert found.value > 0
    assert found.target == 1.5
    assert "3,000 x 2, K = 3, 10 users" in found.detail


def test_memory_is_measured_per_row():
    rows = np.random.default_rng(0).normal(size=(20_000, 2))
    found = core._measure_memory(rows, K=3)
    assert 0 < found.value < 1000
    assert found.target == 24


def test_outliers_are_found(monkeypatch):
    monkeypatch.setattr(outliers, "_SEEDS", 1)
    lines = []
    report = benchmarks.run("outliers", lines.append)
    assert [measure.name for measure in report.measures] == [
        "defaults_mean_auc", "defaults_seeds_at_0.95",
        "five_clusters_mean_auc", "five_clusters_seeds_at_0.95",
    ]  # fmt: skip
    assert all(measure.value > 0.9 for measure in report.measures)
    assert report.measures[2].detail.startswith(
        "PeerOutlierDetector(n_clusters=5, random_state=seed), 10 users, seeds 0 to 0;"
    )
    assert lines == ["defaults: data set 0 of 1", "five_clusters: data set 0 of 1"]
