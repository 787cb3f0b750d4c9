"""The data sets of the paper and the benchmarks.

`synthetic` has those that are generated from a seed or come with scikit-learn. `images` has those
that are read from files or downloaded from OpenML, and functions that take subsets of them.
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
