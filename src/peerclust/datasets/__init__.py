"""The data sets of the paper and the benchmarks.

`made` has those that a seed or scikit-learn can make, `images` those that are read from files or
had from OpenML, and the ways to cut subsets from them.
"""

from __future__ import annotations

from peerclust.datasets.images import cifar10, first_classes, mnist, uneven_classes
from peerclust.datasets.synthetic import (
    NoisyIris,
    gaussians,
    iris,
    noisy_iris,
    noisy_means,
    scattered_outliers,
)

__all__ = [
    "NoisyIris",
    "cifar10",
    "first_classes",
    "gaussians",
    "iris",
    "mnist",
    "noisy_iris",
    "noisy_means",
    "scattered_outliers",
    "uneven_classes",
]
