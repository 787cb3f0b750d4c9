"""Compile the kernels that tests use, so that pytest's workers find them in the cache.

`make test` runs `python -m tests.warm_up` before it starts pytest. What is missing here is compiled
by the first test that needs it: that costs time, in each worker, and nothing else.
"""

from __future__ import annotations

import warnings

import numpy as np

import peerclust as pc
from peerclust import kernels
from peerclust.clustering.warm_up import warm_up


class OwnLoss:
    """A loss that has no formula in the kernels: K-means once more."""

    smoothness = 1.0

    def value(self, r2: np.ndarray) -> np.ndarray:
        return r2 / 2

    def gamma(self, r2: np.ndarray) -> np.ndarray:
        return np.ones_like(r2)


def warm_up_other_losses() -> None:
    """Run a few rounds of losses that tests use, and few others."""
    rng = np.random.default_rng(0)
    parts = [abs(rng.normal(size=(30, 2))) + 1 for _ in range(3)]
    for loss in (OwnLoss(), pc.bregman.generalized_kl(smoothness=1.0)):
        solution = pc.cluster(parts, n_clusters=2, rho=2, rounds=3, loss=loss)
        solution.predict(parts[0])


if __name__ == "__main__":
    warm_up(print, float32=True)
    with kernels.use_mode("always"):
        warnings.simplefilter("ignore")  # of runs that end before they converge
        warm_up_other_losses()
