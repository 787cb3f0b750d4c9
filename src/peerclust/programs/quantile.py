"""A quantile over the rows of all users, found by bisection on counts.

Each row y has a value D(y)^2, its squared distance to the nearest of the centers that users have
agreed on. The quantile q is the smallest value up to which rows have at least the fraction q of all
weight. First the network computes the largest value. Then it sums, over and over, the weight of the
rows up to each of a few thresholds, which divide what is left of the range into equal parts; a
part has 1 / `PARTS` of the floating-point numbers in it. After `STEPS` sums one number is left.

What leaves a user: the maximum of its values goes to all, and sums of its rows' weights go along
the tree of the network (see `consensus`). No row and no distance other than the quantile and the
maximum becomes known.

| symbol        | here                                          |
|---------------|-----------------------------------------------|
| weight up to  | `state.counts`, (u, PARTS)                    |
| the range     | `state.low` < quantile <= `state.high`        |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from peerclust.arrays import Array, Ints
from peerclust.programs.fixed_point import FixedPoint
from peerclust.programs.protocol import (
    HeardMax,
    HeardTotal,
    Message,
    NetworkMax,
    NetworkSum,
    State,
)
from peerclust.users import Users

# The number of parts into which a sum divides the range, and the number of sums: together they
# tell all nonnegative doubles apart.
PARTS = 64
STEPS = 11

# Weights are compared up to rounding.
_SLACK = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantileState(State):
    """The weight of each user's rows up to each threshold, and what is known of the quantile.

    `low` and `high` are its bounds, as the integers that order doubles. `bound` is the largest
    weight of a user. `largest`, (u, 2), are each user's largest value and its weight.
    """

    largest: Array
    counts: Array
    bound: float = 0.0
    total: float = 0.0
    low: int = -1
    high: int = 0

    @property
    def found(self) -> float:
        """The quantile, after the last round."""
        return float(_to_doubles(np.array([self.high]))[0])


@dataclass(frozen=True)
class Quantile:
    """Compute the quantile q, 0 < q <= 1, of the squared distances to common centers.

    `m` is the number of users, or an upper bound on it.

    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator, run_program
    >>> users = Users(np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 3, 4]))
    >>> program, x = Quantile(m=2, q=0.75), np.zeros((2, 1, 1))
    >>> run_program(Simulator(path(2)), program, users, x, rounds=program.rounds).states[0].found
    4.0
    """

    m: int
    q: float

    @property
    def rounds(self) -> int:
        """The number of rounds: a maximum, and the sums."""
        return 1 + STEPS

    def start(self, users: Users, x: Array) -> QuantileState:
        """Start at the centers x, (u, k, d), that users have agreed on."""
        far = np.zeros(users.m)
        np.maximum.at(far, _owner(users), users.nearest(x[0])[1])
        largest = np.column_stack([far, users.total_weights])
        return QuantileState(x=x, largest=largest, counts=np.empty((users.m, PARTS)))

    def say(self, state: QuantileState) -> Message[HeardMax | HeardTotal]:
        """Send the largest value and weight, then the weights up to each threshold, to all."""
        if state.round == 0:
            return NetworkMax(state.largest)
        return NetworkSum(self._numbers(state).encode(state.counts))

    def hear(
        self, users: Users, state: QuantileState, heard: HeardMax | HeardTotal
    ) -> QuantileState:
        """Narrow the range, and count the rows up to each threshold in it."""
        if isinstance(heard, HeardMax):
            high = int(heard.v[:1].view(np.int64)[0])
            state = replace(state, bound=float(heard.v[1]), high=high)
        else:
            counts, thresholds = self._numbers(state).decode(heard.v), _divide(state)
            # In the first sum all rows lie up to the last threshold, the largest value.
            total = state.total or float(counts[-1])
            at = int(np.argmax(counts >= self.q * total * (1.0 - _SLACK)))
            low = state.low if at == 0 else int(thresholds[at - 1])
            state = replace(state, total=total, low=low, high=int(thresholds[at]))
        return replace(state, counts=_count(users, state), round=state.round + 1)

    def _numbers(self, state: QuantileState) -> FixedPoint:
        # A user's weight is summed in another order here.
        return FixedPoint.for_bound(np.full(PARTS, 2.0 * state.bound), self.m)


def _owner(users: Users) -> Ints:
    return np.repeat(np.arange(users.m), np.diff(users.offsets))


def _count(users: Users, state: QuantileState) -> Array:
    """Return the weight of each user's rows up to each threshold, (u, PARTS)."""
    part = np.searchsorted(_to_doubles(_divide(state)), users.nearest(state.x[0])[1])
    # Rows beyond the last threshold count nowhere.
    cell = _owner(users) * (PARTS + 1) + part
    given = users.weights
    weights = np.full(len(cell), given) if isinstance(given, float) else given
    inside = np.bincount(cell, weights=weights, minlength=users.m * (PARTS + 1))
    return np.cumsum(inside.reshape(users.m, PARTS + 1)[:, :-1], axis=1)


def _divide(state: QuantileState) -> Ints:
    """Return the thresholds, ascending up to `high`, that divide the range evenly."""
    # Python's integers do not overflow.
    width = state.high - state.low
    return np.array([state.low + width * part // PARTS for part in range(1, PARTS + 1)])


def _to_doubles(order: Ints) -> Array:
    """Return the doubles of these integers, which are ordered as they are; -1 is below 0."""
    return np.where(order < 0, -1.0, np.maximum(order, 0).view(np.float64))
