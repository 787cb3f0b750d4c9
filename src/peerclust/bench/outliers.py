"""How well `PeerOutlierDetector` with its defaults finds scattered outliers, over 100 data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from peerclust.bench import Measure
from peerclust.datasets import scattered_outliers
from peerclust.estimators import PeerOutlierDetector

_SEEDS = 100


def measure(say: Callable[[str], None]) -> Iterator[Measure]:
    """Yield AUC over seeds: with every default, and told the number of clusters."""
    yield from _auc("defaults", {}, say)
    yield from _auc("five_clusters", {"n_clusters": 5}, say)


def _auc(name: str, options: dict[str, Any], say: Callable[[str], None]) -> Iterator[Measure]:
    users = np.arange(1000) % 10
    auc = np.empty(_SEEDS)
    for seed in range(_SEEDS):
        if seed % 20 == 0:
            say(f"{name}: data set {seed} of {_SEEDS}")
        rows, outlier = scattered_outliers(random_state=seed)
        detector = PeerOutlierDetector(**options, random_state=seed).fit(rows, users=users)
        auc[seed] = roc_auc_score(outlier, -detector.score_samples(rows))
    detail = f"{detector}, 10 users on a ring, seeds 0 to {_SEEDS - 1}; worst {auc.min():.3f}"
    yield Measure(f"{name}_mean_auc", float(auc.mean()), detail, at_least=0.98)
    good = int((auc >= 0.95).sum())
    yield Measure(f"{name}_seeds_at_0.95", good, f"of {_SEEDS} data sets", at_least=95)
