"""Sums and maxima over the whole network of numbers that each user holds.

`Total` computes the sum. First the network takes the largest order of magnitude of each number, a
power of two, which sets the scale of the integers (see `fixed_point`); then it adds the integers
(`NetworkSum`). Where a bound on the numbers is already known to all, the first exchange is not
needed.

What leaves a user: its neighbors hear the order of magnitude of its numbers; its parent in the tree
hears the sum over its subtree, thus its own numbers if it is a leaf. The total becomes known to
all. Of a maximum, neighbors hear the user's own number, and all users the largest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.fixed_point import FixedPoint, order_of_magnitude
from peerclust.programs.limits import Limits
from peerclust.programs.protocol import (
    HeardMax,
    HeardTotal,
    Message,
    NetworkMax,
    State,
)
from peerclust.users import Users


@dataclass(frozen=True, eq=False, kw_only=True)
class TotalState(State):
    """The users' numbers x, (u, k, w), and their bound, (k, w), once it is known.

    After the last round x has the total at every user.
    """

    bound: Array | None


@dataclass(frozen=True)
class Total:
    """Compute the sum of all users' numbers.

    Parameters
    ----------
    m : int
        The number of users, or an upper bound on it.
    bound : float, optional
        A bound on the magnitude of all numbers that all users know.
    limits : Limits, optional
        What the numbers of one user can be.

    Examples
    --------
    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator, run_program
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = Total(m=2)
    >>> x = np.array([[[1.0]], [[4.0]]])
    >>> run_program(Simulator(path(2)), program, users, x, rounds=program.rounds).x.tolist()
    [[[5.0]], [[5.0]]]
    """

    m: int
    bound: float | None = None
    limits: Limits | None = None

    @property
    def rounds(self) -> int:
        """The number of rounds: a maximum, unless the bound is known or not needed, and a sum."""
        return 2 if self.bound is None and self.m > 1 else 1

    def start(self, users: Users, x: Array) -> TotalState:  # noqa: ARG002
        """Start at each user's own numbers x, (u, k, w)."""
        bound = 0.0 if self.m == 1 else self.bound
        known = None if bound is None else np.full(x.shape[1:], float(bound))
        return TotalState(x=x, bound=known)

    def say(self, state: TotalState) -> Message[HeardMax | HeardTotal]:
        """Send the magnitudes, then the integers, to all."""
        if state.bound is None:
            limits = self.limits and self.limits.magnitudes()
            return NetworkMax(order_of_magnitude(state.x), limits)
        values = state.x.reshape(len(state.x), -1)
        return self._numbers(state.bound).message(values, self.limits)

    def hear(self, users: Users, state: TotalState, heard: HeardMax | HeardTotal) -> TotalState:
        """Take the maximum as the bound, then take the total."""
        if isinstance(heard, HeardMax):
            return replace(state, bound=heard.v, round=state.round + 1)
        assert state.bound is not None
        total = self._numbers(state.bound).decode(heard.v).reshape(state.bound.shape)
        return replace(state, x=users.broadcast_centers(total), round=state.round + 1)

    def _numbers(self, bound: Array) -> FixedPoint:
        return FixedPoint.for_bound(bound.reshape(-1), self.m)


@dataclass(frozen=True)
class Maximum:
    """Compute the elementwise maximum of all users' numbers, in one round.

    `limits`, if given, are those of one user's numbers.

    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = Maximum()
    >>> state = program.start(users, np.array([[[1.0, 7.0]], [[4.0, 0.0]]]))
    >>> program.hear(users, state, HeardMax(np.array([[4.0, 7.0]]))).x.tolist()
    [[[4.0, 7.0]], [[4.0, 7.0]]]
    """

    limits: Limits | None = None

    def start(self, users: Users, x: Array) -> State:  # noqa: ARG002
        """Start at each user's own numbers x, (u, k, w)."""
        return State(x=x)

    def say(self, state: State) -> NetworkMax:
        """Send the numbers to all."""
        return NetworkMax(state.x, self.limits)

    def hear(self, users: Users, state: State, heard: HeardMax) -> State:
        """Take the maximum."""
        return replace(state, x=users.broadcast_centers(heard.v), round=state.round + 1)
