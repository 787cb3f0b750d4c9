"""Consensus of all users on the average, or on the maximum, of numbers that each of them holds.

`Average` takes one step for each factor f_t of the graph (see `graphs.averaging`),

    x_i <- x_i - f_t sum_{j in N_i} [x_i - x_j],

after which every x_i is the average over all users, up to rounding. In a last round the network
takes the maximum of these averages, so that all users hold the same one to the last bit.

| symbol             | here                                            |
|--------------------|-------------------------------------------------|
| f_t                | `factors[t]`                                    |
| x_i                | `state.x[i]`, (k, w)                            |
| sum_j [x_i - x_j]  | `heard.degree * x - heard.total`                |

What leaves a user: its neighbors hear its own numbers in the first exchange, and partial averages
in the others. The average, or the maximum, becomes known to all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from peerclust.arrays import Array
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    HeardSum,
    Message,
    NeighborSum,
    NetworkMax,
    State,
)
from peerclust.users import Users


def growth(factors: Sequence[float], degree: float) -> float:
    """Return a bound on the growth of the largest of all users' numbers by these steps.

    A step computes (1 - f d) x + f sum of d neighbors' x: at most |1 - f d| + f d times as much.

    >>> growth((0.5,), degree=4.0)
    3.0
    """
    return math.prod(abs(1.0 - factor * degree) + factor * degree for factor in factors)


@dataclass(frozen=True)
class Average:
    """Compute the average of all users' numbers, in `rounds` rounds.

    >>> import numpy as np
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
        """The number of rounds: one per factor, and a last one in which all take the same bits."""
        return len(self.factors) + 1

    def start(self, users: Users, x: Array) -> State:  # noqa: ARG002
        """Start at each user's own numbers x, (u, k, w)."""
        return State(x=x)

    def say(self, state: State) -> Message[Heard]:
        """Send the numbers to the neighbors, and in the last round to all."""
        return NeighborSum(state.x) if state.round < len(self.factors) else NetworkMax(state.x)

    def hear(self, users: Users, state: State, heard: HeardSum | HeardMax) -> State:
        """Take one step towards the average; in the last round, take the maximum of all users."""
        if isinstance(heard, HeardMax):
            return replace(state, x=users.broadcast_centers(heard.v), round=state.round + 1)
        x = state.x - self.factors[state.round] * (heard.degree * state.x - heard.total)
        return replace(state, x=x, round=state.round + 1)


@dataclass(frozen=True)
class Maximum:
    """Compute the elementwise maximum of all users' numbers, in one round.

    >>> import numpy as np
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = Maximum()
    >>> state = program.start(users, np.array([[[1.0, 7.0]], [[4.0, 0.0]]]))
    >>> program.hear(users, state, HeardMax(np.array([[4.0, 7.0]]))).x.tolist()
    [[[4.0, 7.0]], [[4.0, 7.0]]]
    """

    def start(self, users: Users, x: Array) -> State:  # noqa: ARG002
        """Start at each user's own numbers x, (u, k, w)."""
        return State(x=x)

    def say(self, state: State) -> NetworkMax:
        """Send the numbers to all."""
        return NetworkMax(state.x)

    def hear(self, users: Users, state: State, heard: HeardMax) -> State:
        """Take the maximum."""
        return replace(state, x=users.broadcast_centers(heard.v), round=state.round + 1)
