"""The experiments that the paper does not have: splits, cifar-classes and rivals."""

import numpy as np

from peerclust import paper
from peerclust.paper.experiment import RunOptions
from peerclust.paper.extras import RIVALS, cluster_classes


def test_splits_tells_the_deviation_within_a_split_from_that_between_them():
    rows = [
        {"method": method, "seed": split, "start_seed": start, "accuracy": 0.9 + 0.02 * split}
        for method in ("DGC-KM", "DGC-HL", "DGC-LL")
        for split in (0, 1)
        for start in range(5)
    ]
    lines = paper.get("splits").summarize(rows, RunOptions(runs=2)).lines
    assert [round(line.ours.mean, 9) for line in lines[:5]] == [91.0, 0.0, 1.0, 90.0, 92.0]


def test_cifar_classes_finds_the_threes_that_agree():
    rows = [
        {"classes": name, "seed": 0, "accuracy": right, "ari": alike}
        for name, right, alike in [("a, b, c", 0.42, 0.046), ("d, e, f", 0.5, 0.11)]
    ]
    summary = paper.get("cifar-classes").summarize(rows, RunOptions(runs=1))
    assert [line.where["classes"] for line in summary.lines[::2]] == ["a, b, c", "d, e, f"]
    assert summary.notes == ["Of the 2 choices of three classes, 1 agree with both numbers."]
    assert [panel.title for panel in summary.picture.panels] == ["accuracy", "ARI"]


def test_cifar_classes_clusters_the_classes_asked_for(images):
    (row,) = cluster_classes(classes=(1, 5, 9), n=50, seed=0, data_dir=None)
    assert row["classes"] == "automobile, dog, truck"
    assert row["accuracy"] == row["ari"] == 1.0


def test_rivals_measures_cost_in_units_of_the_lowest_on_the_same_data():
    rows = [
        {
            **{"setting": data, "method": method, "seed": seed, "accuracy": 0.9, "ari": 0.8},
            **{"pooled_cost": (seed + 1.0) * (k + 2), "bytes": 100 * k, "iterations": 7},
        }
        for data in ("iris", "iris-het", "gaussians")
        for k, method in enumerate(RIVALS)
        for seed in (0, 1)
    ]
    summary = paper.get("rivals").summarize(rows, RunOptions(runs=2))
    cost = [line.ours for line in summary.lines if line.where["measure"] == "pooled cost"]
    np.testing.assert_allclose([each.mean for each in cost], 3 * [1 + k / 2 for k in range(12)])
    assert all(each.std < 1e-15 for each in cost)
    assert {line.form for line in summary.lines if line.where["measure"] == "bytes"} == {"count"}
