"""ADMM-KM: K-means over a network by the alternating direction method of multipliers.

P. Forero, A. Cano and G. Giannakis, "Distributed clustering using wireless sensor networks",
IEEE Journal of Selected Topics in Signal Processing 5(4), 2011, with hard clusters. Round t
assigns each row to the nearest of its user's centers, then

    x_i(k) <- (S1_i(k) - p_i(k) + c sum_{j in N_i} [x_i(k) + x_j(k)]) / (S0_i(k) + 2 c |N_i|),
    p_i(k) <- p_i(k) + c sum_{j in N_i} [x_i(k) - x_j(k)]      at the new centers,

with S0_i(k) and S1_i(k) the number and the sum of the rows of C_i(k). As S1 = S0 x - pull, the
first line is the step  x - (pull + p + c sum_j [x_i - x_j]) / (S0 + 2 c |N_i|),  which is how it
is computed. For another loss S0 is replaced by a bound on the curvature (`users.curvature`).

| symbol            | here                                                       |
|-------------------|------------------------------------------------------------|
| c                 | `c`; the paper that compares with it calls it rho          |
| x_i(k), p_i(k)    | `state.x[i, k]`, `state.p[i, k]`                           |
| S0, S0 x - S1     | `users.curvature`, `users.pull`                            |
| sum_j [x_i - x_j] | `heard.degree * x - heard.total`                           |

The multipliers p of a round need the neighbors' new centers, which are what the next exchange
brings; so a round is one exchange, and p is brought up to date when it is heard.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerclust.programs.protocol import HeardSum, Sum
from peerclust.users import Users

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ADMMState:
    """The centers of the block's users and the multipliers as of the round before."""

    x: Array
    p: Array
    round: int
    residual: Array
    update: int = 0


@dataclass(frozen=True)
class ADMM:
    """K-means by ADMM with penalty c.

    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = ADMM(c=0.5)
    >>> state = program.start(users, np.array([[[0.0]], [[2.0]]]))
    >>> heard = HeardSum(total=np.array([[[2.0]], [[0.0]]]), degree=np.ones((2, 1, 1)))
    >>> program.hear(users, state, heard).x.tolist()
    [[[0.5]], [[1.5]]]
    """

    c: float

    def strays(self, condition: float) -> float:
        """Give how far centers may leave the box of rows and starts, in widths of it.

        Multipliers carry them out of it while they build up; ten widths is a generous allowance,
        and more for a Mahalanobis distance with the condition number of A.
        """
        return 10.0 * condition

    def start(self, users: Users, x: Array) -> ADMMState:
        """Begin at the centers x, (u, K, d), with multipliers of zero."""
        return ADMMState(x=x, p=np.zeros_like(x), round=0, residual=np.full(users.m, np.inf))

    def say(self, state: ADMMState) -> Sum:
        """Tell the neighbors the centers."""
        return Sum(state.x)

    def hear(self, users: Users, state: ADMMState, heard: HeardSum) -> ADMMState:
        """Bring the multipliers up to date, assign, then update the centers."""
        x = state.x
        apart = self.c * (heard.degree * x - heard.total)
        p = state.p + apart if state.round > 0 else state.p
        users.assign(x)
        local = users.pull(x) + p
        curvature = users.curvature(x)[..., None] + 2.0 * self.c * heard.degree
        # A user without neighbors keeps the center of an empty cluster.
        step = np.divide(local + apart, curvature, out=np.zeros_like(x), where=curvature > 0)
        # At a fixed point a user's rows and multipliers balance, and its neighbors agree with it.
        off = np.sqrt((local * local).sum(axis=2)) + np.sqrt((apart * apart).sum(axis=2))
        return ADMMState(x=x - step, p=p, round=state.round + 1, residual=off.max(axis=1))
