"""Distances of rows to one common set of centers; for users' own centers see `users`.

Rows are processed in batches, so that temporary arrays stay small. A batch is split among threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.arrays import Array, Rows
from peerclust.distances import Geometry
from peerclust.kernels.threads import parallel_for
from peerclust.sparse import AnyRows, SparseRows
from peerclust.users.sparse import dense_length, find_nearest, own_distance2

BATCH_ROWS = 1 << 17


def nearest(
    rows: AnyRows, centers: Array, geometry: Geometry, *, transformed: AnyRows | None = None
) -> tuple[NDArray[np.int32], Array]:
    """Return each row's nearest center among (K, d), and its squared distance (or divergence).

    `transformed` are the rows after `geometry.forward`, if the caller has them.

    >>> from peerclust.distances import Euclidean, Linear
    >>> rows, centers = np.array([[0.0], [4.0]]), np.array([[0.0], [5.0]])
    >>> label, r2 = nearest(rows, centers, Linear(Euclidean()))
    >>> label.tolist(), r2.tolist()
    ([0, 1], [0.0, 1.0])
    """
    if isinstance(rows, SparseRows):
        one, z = np.array([0, len(rows)]), np.ascontiguousarray(centers, dtype=np.float64)[None]
        label = find_nearest(rows, one, z)
        return label, own_distance2(rows, one, z, label)
    labels = np.zeros(len(rows), np.int32)
    r2 = np.full(len(rows), np.inf)
    z, scores = geometry.place(np.asarray(centers, dtype=np.float64))
    slope, offset = scores or (None, None)
    for start in range(0, len(rows), BATCH_ROWS):
        here = slice(start, start + BATCH_ROWS)
        y = geometry.forward(rows[here]) if transformed is None else transformed[here]
        work, into = y.size * len(z), (labels[here], r2[here])
        parallel_for(kernels.nearest, len(y), work, y, z, slope, offset, *into)
        if geometry.divergence is not None:
            r2[here] = _measure(geometry.divergence, centers[labels[here]], rows[here])
    return labels, r2


def measure(rows: AnyRows, centers: Array, geometry: Geometry) -> Array:
    """Return each row's squared distance (or divergence) to each of the centers (K, d), (N, K).

    >>> from peerclust.distances import Euclidean, Linear
    >>> rows, centers = np.array([[0.0], [4.0]]), np.array([[0.0], [5.0]])
    >>> measure(rows, centers, Linear(Euclidean())).tolist()
    [[0.0, 25.0], [16.0, 1.0]]
    """
    r2 = np.empty((len(rows), len(centers)))
    z = geometry.place(centers)[0]
    step = dense_length(rows.shape[1]) if isinstance(rows, SparseRows) else BATCH_ROWS
    for start in range(0, len(rows), step):
        here = slice(start, start + step)
        if geometry.divergence is not None:
            for k, center in enumerate(centers):
                r2[here, k] = _measure(geometry.divergence, center, rows[here])
        else:
            y = geometry.forward(np.asarray(rows[here]))
            parallel_for(kernels.distances2, len(y), y.size * len(z), y, z, r2[here])
    return r2


def _measure(divergence: Callable[[Array, Array], Array], centers: Array, rows: Rows) -> Array:
    # Rounding may make it negative.
    return np.maximum(divergence(centers, np.asarray(rows, dtype=np.float64)), 0.0)
