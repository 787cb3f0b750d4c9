"""ROC AUC of `PeerOutlierDetector` on scattered outliers, over 100 data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.measures import Measure, Progress
from peerclust.datasets import scattered_outliers
from peerclust.estimators import PeerOutlierDetector

_SEEDS = 100


def measure(progress: Progress) -> Iterator[Measure]:
    """Yield the AUC over seeds: with every default, and with the number of clusters given."""
    yield from _auc("defaults", {}, progress)
    yield from _auc("five_clusters", {"n_clusters": 5}, progress)


def _auc(name: str, options: dict[str, Any], progress: Progress) -> Iterator[Measure]:
    users = np.arange(1000) % 10
    auc = np.empty(_SEEDS)
    for seed in range(_SEEDS):
        if seed % 20 == 0:
            progress(f"{name}: data set {seed} of {_SEEDS}")
        rows, outlier = scattered_outliers(random_state=seed)
        detector = PeerOutlierDetector(**options, random_state=seed).fit(rows, users=users)
        auc[seed] = roc_auc_score(outlier, -detector.score_samples(rows))
    given = "".join(f"{key}={value!r}, " for key, value in options.items())
    detail = (
        f"PeerOutlierDetector({given}random_state=seed), 10 users,"
        f" seeds 0 to {_SEEDS - 1}; worst {auc.min():.3f}"
    )
    yield Measure(f"{name}_mean_auc", float(auc.mean()), detail, at_least=0.98)
    good = int((auc >= 0.95).sum())
    yield Measure(f"{name}_seeds_at_0.95", good, f"of {_SEEDS} data sets", at_least=95)
