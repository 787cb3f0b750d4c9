"""A model of the seconds of a round on several ranks, with five costs measured separately.

    T(R) = round + s K d (row N_R + user m_R) + [R > 1] (latency + byte b_R)

| symbol                 | here                                                          |
|------------------------|---------------------------------------------------------------|
| R, K, d                | `ranks`, `Load.K`, `Load.d`                                   |
| N_R, m_R, b_R          | `Load`: rows, users and bytes sent of the most loaded rank    |
| round, row, user       | `Costs`: of an empty round, of a row, of a user               |
| latency, byte          | `Costs`: of an empty exchange, of each byte sent              |
| s                      | ranks per core, at least 1: R / `cores`                       |

The model has no overlap of computation and communication, no slow ranks, and no contention for
memory or for the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

# Each message ends with two integers, see `runtimes.mpi.runtime`.
_VOTES = 2


@dataclass(frozen=True)
class Costs:
    """Seconds of each part of a round.

    Attributes
    ----------
    round : float
        A round without rows and messages.
    row, user : float
        One row and one user, each for one center and one feature.
    latency : float
        An exchange of empty messages with the neighboring ranks.
    byte : float
        One byte that a rank sends: 1 / bandwidth.
    """

    round: float
    row: float
    user: float
    latency: float
    byte: float


@dataclass(frozen=True)
class Load:
    """The work of the most loaded rank in a round."""

    rows: int
    users: int
    bytes: int
    K: int
    d: int


def bytes_per_user(K: int, d: int) -> int:
    """Return the bytes that one user sends to another rank.

    >>> bytes_per_user(3, 4)
    112
    """
    return 8 * (K * d + _VOTES)


def ring_load(*, m: int, rows: int, ranks: int, K: int, d: int) -> Load:
    """Return the load of m users on a ring with equally many rows, in contiguous blocks.

    The first and the last user of each block have a neighbor on another rank.

    >>> ring_load(m=10, rows=1000, ranks=4, K=3, d=4)
    Load(rows=300, users=3, bytes=224, K=3, d=4)
    >>> ring_load(m=10, rows=1000, ranks=1, K=3, d=4)
    Load(rows=1000, users=10, bytes=0, K=3, d=4)
    """
    users = ceil(m / ranks)
    sent = 2 * bytes_per_user(K, d) if ranks > 1 else 0
    return Load(rows=users * ceil(rows / m), users=users, bytes=sent, K=K, d=d)


def predict(costs: Costs, load: Load, *, ranks: int, cores: int) -> float:
    """Return the seconds of a round.

    >>> costs = Costs(round=1e-5, row=1e-9, user=1e-8, latency=2e-6, byte=1e-9)
    >>> load = ring_load(m=10, rows=1000, ranks=2, K=3, d=4)
    >>> f"{predict(costs, load, ranks=2, cores=2):.4g}"
    '1.882e-05'
    """
    ranks_per_core = max(1.0, ranks / cores)
    work = ranks_per_core * load.K * load.d * (costs.row * load.rows + costs.user * load.users)
    exchange = costs.latency + costs.byte * load.bytes if ranks > 1 else 0.0
    return costs.round + work + exchange


def fit_line(small: tuple[float, float], large: tuple[float, float]) -> tuple[float, float]:
    """Return intercept and slope of the line through two (size, seconds), neither below zero.

    >>> fit_line((10, 3.0), (30, 7.0))
    (1.0, 0.2)
    """
    slope = max((large[1] - small[1]) / (large[0] - small[0]), 0.0)
    return max(small[1] - slope * small[0], 0.0), slope


def fit_row(seconds: float, load: Load, *, round_: float, user: float) -> float:
    """Return the seconds per row, center and feature, from those of a round on one rank.

    >>> load = Load(rows=1000, users=10, bytes=0, K=3, d=4)
    >>> f"{fit_row(2.32e-05, load, round_=1e-5, user=1e-8):.4g}"
    '1e-09'
    """
    size = load.K * load.d
    return max(seconds - round_ - user * load.users * size, 0.0) / (load.rows * size)
