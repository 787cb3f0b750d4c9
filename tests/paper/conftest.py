"""Small stand-ins for the image data, for every test of this folder."""

import numpy as np
import pytest

from peerclust import datasets
from peerclust.paper import settings


@pytest.fixture
def images(monkeypatch):
    """Use rows of three numbers for MNIST and CIFAR-10; the first number is unique."""

    def make(data_dir=None):
        rng = np.random.default_rng(0)
        classes = rng.integers(0, 10, 20_000).astype(np.intp)
        rows = rng.random((20_000, 3), dtype=np.float32) + 10 * classes[:, None]
        rows = rows.astype(np.float32)
        rows[:, 0] = np.arange(20_000) / 1e4
        return rows, classes

    monkeypatch.setattr(datasets, "mnist", make)
    monkeypatch.setattr(datasets, "cifar10", make)
    settings.load.cache_clear()
    yield make
    settings.load.cache_clear()
