"""The figures without curves: outliers (3), heterogeneous splits (4) and the ring (5)."""

import numpy as np
import pytest

from peerclust import paper
from peerclust.paper import noisy_iris, settings
from peerclust.paper.experiment import RunOptions
from peerclust.report import figures


def summary_of(name):
    experiment, options = paper.get(name), RunOptions(runs=1)
    rows = [row for job in experiment.plan(options) for row in job.work(**job.given)]
    return experiment.summarize(rows, options)


def scores(summary):
    return {(line.where["measure"], line.where["method"]): line.ours for line in summary.lines}


class FirstTwoFeatures:
    """A fast stand-in for t-SNE."""

    def __init__(self, **given):
        pass

    def fit_transform(self, points):
        return points[:, :2]


def test_figure_3_shows_the_rows_and_the_centers_of_three_methods(monkeypatch, tmp_path):
    monkeypatch.setattr("sklearn.manifold.TSNE", FirstTwoFeatures)
    monkeypatch.setattr(noisy_iris, "FIXED", {"rho": 10.0, "rounds": 30, "starts": 1})
    summary = summary_of("figure-3")
    assert len(summary.lines) == len(scores(summary)) == 9
    assert summary.picture.rows.shape == (150, 2)
    assert [name for name, _ in summary.picture.centers] == ["DGC-KM", "DGC-HL", "ADMM-KM"]
    assert all(x.shape == (3, 2) for _, x in summary.picture.centers)
    figures.draw(summary.picture, tmp_path / "figure.png")


@pytest.mark.paper
def test_figure_3_finds_the_means_with_huber_and_not_with_kmeans(monkeypatch):
    monkeypatch.setitem(noisy_iris.FIXED, "starts", 3)
    summary = summary_of("figure-3")
    assert summary.picture.rows.shape == (150, 2)
    ours = scores(summary)
    assert ours["found all three", "DGC-HL"].mean == 100
    assert ours["found all three", "DGC-KM"].mean == 0
    assert ours["outlier AUC", "DGC-HL"].mean >= 0.999


def test_figure_4_counts_every_row_once(images, monkeypatch, tmp_path):
    for name, small in {
        "mnist7-het": settings.Setting("mnist", 7, "MNIST7", uneven=700, per_user=(3, 5)),
        "cifar3-het": settings.Setting("cifar10", 3, "CIFAR3", per_class=50, per_user=2),
    }.items():
        monkeypatch.setitem(settings.SETTINGS, name, small)
    summary = summary_of("figure-4")
    assert [panel.counts.sum() for panel in summary.picture.panels] == [150, 700, 150]
    figures.draw(summary.picture, tmp_path / "figure.png")


def test_figure_5_is_the_ring_and_what_the_theory_needs_of_it(tmp_path):
    summary = summary_of("figure-5")
    ours = {line.where["measure"]: line.ours.mean for line in summary.lines}
    expected = {"links": 10, "diameter": 5, "lambda_2(L)": 2 - 2 * np.cos(np.pi / 5)}
    assert ours == pytest.approx(expected | {"lambda_max(L)": 4})
    figures.draw(summary.picture, tmp_path / "figure.png")
