"""The nearest of one common set of centers for each row; users' own centers are in `users`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import kernels
from peerclust.bregman import Bregman
from peerclust.distances import Distance
from peerclust.threads import spread

Array = NDArray[np.float64]
Rows = NDArray[Any]


def nearest(
    rows: Rows,
    centers: Array,
    *,
    loss: Any,
    distance: Distance,
    moved: Rows | None = None,
) -> tuple[NDArray[np.int32], Array]:
    """Give each row's nearest center among (K, d), and its squared distance (or divergence).

    `moved` are the rows as `distance.forward` gives them, where they are at hand.

    >>> from peerclust import Euclidean, KMeans
    >>> label, r2 = nearest(np.array([[0.0], [4.0]]), np.array([[0.0], [5.0]]),
    ...                     loss=KMeans(), distance=Euclidean())
    >>> label.tolist(), r2.tolist()
    ([0, 1], [0.0, 1.0])
    """
    labels = np.zeros(len(rows), np.int32)
    r2 = np.full(len(rows), np.inf)
    slope, offset = np.empty((0, 0)), np.empty(0)
    if isinstance(loss, Bregman):
        slope, offset = loss.affine(centers)
    y = distance.forward(rows) if moved is None else moved
    z = np.ascontiguousarray(distance.forward(centers), dtype=np.float64)
    ends = np.append(np.arange(kernels.SEGMENT, len(y), kernels.SEGMENT), len(y))

    def loop(first: int, last: int) -> None:
        kernels.nearest(
            y, first * kernels.SEGMENT, int(ends[last - 1]), z, slope, offset, labels, r2
        )

    if len(y):
        spread(loop, ends, y.size * len(z))
    if isinstance(loss, Bregman):
        divergence = loss.divergence(centers[labels], np.asarray(rows, dtype=np.float64))
        return labels, np.maximum(divergence, 0.0)
    return labels, r2
