"""Clustering of data that lives with many users, without pooling it and without a server.

Names are loaded when they are first used, so that `peerclust --help` answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from peerclust import (
        bregman as bregman,
    )
    from peerclust import (
        datasets as datasets,
    )
    from peerclust import (
        distances as distances,
    )
    from peerclust import (
        graphs as graphs,
    )
    from peerclust import (
        initialize as initialize,
    )
    from peerclust import (
        losses as losses,
    )
    from peerclust import (
        metrics as metrics,
    )
    from peerclust import (
        outliers as outliers,
    )
    from peerclust import (
        partition as partition,
    )
    from peerclust import (
        theory as theory,
    )
    from peerclust.bregman import Bregman as Bregman
    from peerclust.clustering import cluster as cluster
    from peerclust.distances import Euclidean as Euclidean
    from peerclust.distances import Mahalanobis as Mahalanobis
    from peerclust.estimators import DGC as DGC
    from peerclust.estimators import DGCOutlierDetector as DGCOutlierDetector
    from peerclust.graphs import Graph as Graph
    from peerclust.losses import (
        Fair as Fair,
    )
    from peerclust.losses import (
        Huber as Huber,
    )
    from peerclust.losses import (
        KMeans as KMeans,
    )
    from peerclust.losses import (
        Logistic as Logistic,
    )
    from peerclust.solution import Certificate as Certificate
    from peerclust.solution import Solution as Solution
    from peerclust.solution import Status as Status

_MODULES = (
    "bregman", "datasets", "distances", "graphs", "initialize", "losses", "metrics", "outliers",
    "partition", "theory",
)  # fmt: skip
_HOMES = {
    "Bregman": "bregman",
    "Certificate": "solution",
    "DGC": "estimators",
    "DGCOutlierDetector": "estimators",
    "Euclidean": "distances",
    "Fair": "losses",
    "Graph": "graphs",
    "Huber": "losses",
    "KMeans": "losses",
    "Logistic": "losses",
    "Mahalanobis": "distances",
    "Solution": "solution",
    "Status": "solution",
    "cluster": "clustering",
}

__all__ = [*_MODULES, *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"peerclust.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(f"peerclust.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'peerclust' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
