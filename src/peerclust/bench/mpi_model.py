"""What a round should cost on many ranks: a model of five costs, each measured on its own.

    T(R) = round + s K d (row N_R + user m_R) + [R > 1] (latency + byte b_R)

| symbol                 | here                                                          |
|------------------------|---------------------------------------------------------------|
| R, K, d                | `ranks`, `Load.K`, `Load.d`                                   |
| N_R, m_R, b_R          | `Load`: rows, users and bytes sent of the rank that has most  |
| round, row, user       | `Costs`: of a round as such, of a row, of a user              |
| latency, byte          | `Costs`: of letters however short, of each byte of them       |
| s                      | ranks a core, at least 1: R / `cores`                         |

Nothing overlaps, no rank is slower than others, cores do not wait for each other's memory, nor
letters for other letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

# Two whole numbers go with each letter, see `runtimes.mpi.exchange`.
_VOTES = 2


@dataclass(frozen=True)
class Costs:
    """Seconds of the parts of a round.

    Attributes
    ----------
    round : float
        A round with nothing to do.
    row, user : float
        A row, and a user, each for one center and one feature.
    latency : float
        Letters to the neighboring ranks and from them, however short.
    byte : float
        Each byte that a rank sends: 1 / bandwidth.
    """

    round: float
    row: float
    user: float
    latency: float
    byte: float


@dataclass(frozen=True)
class Load:
    """What the rank that has most has to do in a round."""

    rows: int
    users: int
    bytes: int
    K: int
    d: int


def message_bytes(K: int, d: int) -> int:
    """Give the bytes of one user's letter to another rank.

    >>> message_bytes(3, 4)
    112
    """
    return 8 * (K * d + _VOTES)


def ring_load(*, m: int, rows: int, ranks: int, K: int, d: int) -> Load:
    """Give the load of m users on a ring, alike in rows, that stand in line on the ranks.

    Each rank has a user at either end of its stretch who has a neighbor elsewhere.

    >>> ring_load(m=10, rows=1000, ranks=4, K=3, d=4)
    Load(rows=300, users=3, bytes=224, K=3, d=4)
    >>> ring_load(m=10, rows=1000, ranks=1, K=3, d=4)
    Load(rows=1000, users=10, bytes=0, K=3, d=4)
    """
    users = ceil(m / ranks)
    sent = 2 * message_bytes(K, d) if ranks > 1 else 0
    return Load(rows=users * ceil(rows / m), users=users, bytes=sent, K=K, d=d)


def predict(costs: Costs, load: Load, *, ranks: int, cores: int) -> float:
    """Give the seconds of a round.

    >>> costs = Costs(round=1e-5, row=1e-9, user=1e-8, latency=2e-6, byte=1e-9)
    >>> load = ring_load(m=10, rows=1000, ranks=2, K=3, d=4)
    >>> f"{predict(costs, load, ranks=2, cores=2):.4g}"
    '1.882e-05'
    """
    sharing = max(1.0, ranks / cores)
    work = sharing * load.K * load.d * (costs.row * load.rows + costs.user * load.users)
    travel = costs.latency + costs.byte * load.bytes if ranks > 1 else 0.0
    return costs.round + work + travel


def fit_line(small: tuple[float, float], large: tuple[float, float]) -> tuple[float, float]:
    """Give level and slope of seconds by size from two (size, seconds); neither is below zero.

    >>> fit_line((10, 3.0), (30, 7.0))
    (1.0, 0.2)
    """
    slope = max((large[1] - small[1]) / (large[0] - small[0]), 0.0)
    return max(small[1] - slope * small[0], 0.0), slope


def fit_row(seconds: float, load: Load, *, round_: float, user: float) -> float:
    """Give the seconds of a row, center and feature from those of a round on one rank.

    >>> load = Load(rows=1000, users=10, bytes=0, K=3, d=4)
    >>> f"{fit_row(2.32e-05, load, round_=1e-5, user=1e-8):.4g}"
    '1e-09'
    """
    size = load.K * load.d
    return max(seconds - round_ - user * load.users * size, 0.0) / (load.rows * size)
