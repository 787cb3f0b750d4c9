"""Agreement of all users on the average, or on the maximum, of numbers that each of them holds.

`Average` makes one step for each factor f_t of the graph (see `graphs.averaging`),

    x_i <- x_i - f_t sum_{j in N_i} [x_i - x_j],

after which every x_i is the average over all users, to rounding. In a last round the network takes
the maximum of what its users hold, so that all hold the same average to the last bit.

| symbol             | here                                            |
|--------------------|-------------------------------------------------|
| f_t                | `factors[t]`                                    |
| x_i                | `state.x[i]`, (k, w)                            |
| sum_j [x_i - x_j]  | `heard.degree * x - heard.total`                |

What leaves a user: its neighbors hear its own numbers in the first exchange and partial averages in
the others; the average, or the maximum, becomes known to all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from peerclust.programs.protocol import HeardMax, HeardSum, NeighborSum, NetworkMax
from peerclust.types import Array
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class AgreeState:
    """What the block's users hold, (u, k, w), and how many rounds are done."""

    x: Array
    round: int = 0
    update: int = 0

    @property
    def residual(self) -> Array:
        """No residual: an agreement takes as many rounds as it does, always."""
        return np.full(len(self.x), np.inf)


def growth(factors: Sequence[float], degree: float) -> float:
    """Give how many times the largest of all users' numbers one may be after steps by factors.

    A step gives (1 - f d) x + f sum of d neighbors' x: at most |1 - f d| + f d times as much.

    >>> growth((0.5,), degree=4.0)
    3.0
    """
    return math.prod(abs(1.0 - factor * degree) + factor * degree for factor in factors)


@dataclass(frozen=True)
class Average:
    """Agree on the average of all users' numbers in `rounds` rounds.

    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = Average(factors=(0.5,))
    >>> state = program.start(users, np.array([[[1.0]], [[4.0]]]))
    >>> heard = HeardSum(total=np.array([[[4.0]], [[1.0]]]), degree=np.ones((2, 1, 1)))
    >>> program.hear(users, state, heard).x.tolist()
    [[[2.5]], [[2.5]]]
    """

    factors: tuple[float, ...]

    @property
    def rounds(self) -> int:
        """One for each factor, and the last, in which all take the same bits."""
        return len(self.factors) + 1

    def max_growth(self, round_: int, degree: float) -> float:
        """Give how many times the largest of all first numbers a number may have in a round."""
        return growth(self.factors[:round_], degree)

    def start(self, users: Users, x: Array) -> AgreeState:  # noqa: ARG002
        """Begin at each user's own numbers x, (u, k, w)."""
        return AgreeState(x)

    def say(self, state: AgreeState) -> NeighborSum | NetworkMax:
        """Tell the neighbors; in the end, all."""
        return NeighborSum(state.x) if state.round < len(self.factors) else NetworkMax(state.x)

    def hear(self, users: Users, state: AgreeState, heard: HeardSum | HeardMax) -> AgreeState:
        """Make one step towards the average; in the end, take the largest of what all hold."""
        if isinstance(heard, HeardMax):
            return replace(state, x=users.broadcast_centers(heard.v), round=state.round + 1)
        apart = heard.degree * state.x - heard.total
        x = state.x - self.factors[state.round] * apart
        return replace(state, x=x, round=state.round + 1)


@dataclass(frozen=True)
class Maximum:
    """Agree on the elementwise maximum of all users' numbers in one round.

    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = Maximum()
    >>> state = program.start(users, np.array([[[1.0, 7.0]], [[4.0, 0.0]]]))
    >>> program.hear(users, state, HeardMax(np.array([[4.0, 7.0]]))).x.tolist()
    [[[4.0, 7.0]], [[4.0, 7.0]]]
    """

    def start(self, users: Users, x: Array) -> AgreeState:  # noqa: ARG002
        """Begin at each user's own numbers x, (u, k, w)."""
        return AgreeState(x)

    def say(self, state: AgreeState) -> NetworkMax:
        """Tell all."""
        return NetworkMax(state.x)

    def hear(self, users: Users, state: AgreeState, heard: HeardMax) -> AgreeState:
        """Take the maximum."""
        return replace(state, x=users.broadcast_centers(heard.v), round=state.round + 1)
