"""The baseline of `core` and `rounds`: one iteration of scikit-learn's Lloyd algorithm."""

from __future__ import annotations

import warnings
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from peerclust.arrays import Rows

# The set-up of scikit-learn is averaged over this many iterations.
ITERATIONS = 25


def choose_centers(rows: Rows, K: int) -> NDArray[np.float64]:
    """Return K of the rows as centers, the same ones on each call."""
    chosen = np.random.default_rng(1).choice(len(rows), K, replace=False)
    return rows[chosen].astype(np.float64)


def time_lloyd(rows: Rows, centers: Rows) -> float:
    """Return the mean seconds of one of 25 Lloyd iterations from these centers, with tol = 0."""
    model = KMeans(
        len(centers), init=centers, n_init=1, max_iter=ITERATIONS, tol=0, algorithm="lloyd"
    )
    with warnings.catch_warnings():
        # Stopping after 25 iterations is intended.
        warnings.simplefilter("ignore", ConvergenceWarning)
        begin = perf_counter()
        model.fit(rows)
        seconds = perf_counter() - begin
    return seconds / int(model.n_iter_)
