"""Clustering of data held by many users, without pooling it and without a server.

Names are imported on first use, so that `peerclust --help` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from peerclust import (
        baselines as baselines,
        bregman as bregman,
        datasets as datasets,
        distances as distances,
        errors as errors,
        graphs as graphs,
        initialize as initialize,
        losses as losses,
        metrics as metrics,
        outliers as outliers,
        paper as paper,
        partition as partition,
        testing as testing,
        theory as theory,
    )
    from peerclust.bregman import Bregman as Bregman
    from peerclust.clustering.checkpoint import Checkpoint as Checkpoint
    from peerclust.clustering.cluster import cluster as cluster
    from peerclust.clustering.result import Certificate as Certificate, Status as Status
    from peerclust.clustering.solution import Solution as Solution
    from peerclust.distances import Euclidean as Euclidean, Mahalanobis as Mahalanobis
    from peerclust.estimators import (
        PeerClustering as PeerClustering,
        PeerOutlierDetector as PeerOutlierDetector,
    )
    from peerclust.graphs import Graph as Graph
    from peerclust.losses import (
        Fair as Fair,
        Huber as Huber,
        KMeans as KMeans,
        Logistic as Logistic,
    )

_MODULES = (
    "baselines", "bregman", "datasets", "distances", "errors", "graphs", "initialize", "losses",
    "metrics", "outliers", "paper", "partition", "testing", "theory",
)  # fmt: skip
_MODULE_OF = {
    "Bregman": "bregman",
    "Certificate": "clustering.result",
    "Checkpoint": "clustering.checkpoint",
    "PeerClustering": "estimators",
    "PeerOutlierDetector": "estimators",
    "Euclidean": "distances",
    "Fair": "losses",
    "Graph": "graphs",
    "Huber": "losses",
    "KMeans": "losses",
    "Logistic": "losses",
    "Mahalanobis": "distances",
    "Solution": "clustering.solution",
    "Status": "clustering.result",
    "cluster": "clustering.cluster",
}

__all__ = [*_MODULES, *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"peerclust.{name}")
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(f"peerclust.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'peerclust' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
