"""delta="auto" of the Huber loss: the median distance of the rows to the centers of a start.

With c(1), ..., c(K) the centers of a start, and the median weighted over the rows of all users,

    delta = median of min_k ||y - c(k)||.

Within delta of its center a row counts as it does for K-means, beyond that its gradient is bounded.
The right threshold is therefore about the size of a cluster, which is what the median measures:
half of the rows are nearer, and rows that are far away, unless they are half of all, do not change
it. Centers of a start are rows, so distances to them are somewhat larger than those to the centers
that are found, and more than half of the rows count in full. For the same reason the start should
not have outliers for centers: it is drawn by k-means++ with D^2 capped at its quantile `CAP`.

What others learn: what such a start reveals (see `initialize`), and delta.
"""

from __future__ import annotations

import numpy as np

from peerclust.initialize import KMeansPlusPlus, joint_quantile
from peerclust.losses import Huber, Loss
from peerclust.runtimes.protocol import Runtime, Traffic
from peerclust.users import Users

# The quantile at which D^2 is capped in the draws of the start.
CAP = 0.9

# If half of the rows lie on centers, delta is this fraction of the data's spread.
_SMALLEST = 1e-3


def is_auto(loss: Loss) -> bool:
    """Return whether a loss is Huber(delta="auto").

    >>> is_auto(Huber("auto")), is_auto(Huber(2.0))
    (True, False)
    """
    return isinstance(loss, Huber) and loss.delta == "auto"


def choose_delta(
    runtime: Runtime, users: Users, K: int, *, seed: int, spread: float, mean_of: int = 1
) -> tuple[float, Traffic]:
    """Return delta, the same bits at every user, and the traffic that choosing it took.

    The loss of the users does not matter. `spread` is that of the data; `mean_of` is that of the
    start, `KMeansPlusPlus`.

    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator
    >>> users = Users(np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]), np.array([0, 3, 6]))
    >>> choose_delta(Simulator(path(2)), users, 2, seed=0, spread=5.0)[0]
    1.0
    """
    x, sent = KMeansPlusPlus(cap=CAP, mean_of=mean_of).centers(runtime, users, K, seed)
    r2, more = joint_quantile(runtime, users, x[0], 0.5)
    return float(np.sqrt(r2)) or _SMALLEST * spread, sent + more
