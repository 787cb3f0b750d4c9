"""Quantiles over the rows of all users, found digit by digit from counts.

Each row y has a value, or several: its squared distance D(y)^2 to the nearest of the centers that
users have agreed on, or some of its features. The quantile q of a value is the smallest number up
to which rows have at least the fraction q of all weight.

Doubles are ordered as integers of 64 bits are. First the network takes the largest weight of a
user, which sets the scale of the sums. Then it finds the integer of a quantile, `BITS` bits at a
time: it sums the weight of the rows whose integer is at most that of the bits found so far,
followed by 0, 1, ..., `PARTS` - 1. After `STEPS` sums all bits are known.

What leaves a user: its total weight goes to its neighbors, and the largest of all to all users;
sums of its rows' weights go along the tree of the network (see `consensus`). No row and no value
other than the quantiles becomes known.

| symbol        | here                                          |
|---------------|-----------------------------------------------|
| weight up to  | `state.counts`, (u, n PARTS) for n quantiles  |
| bits found    | `state.bits`, n integers                      |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array, Ints, Rows
from peerclust.programs.fixed_point import FixedPoint
from peerclust.programs.limits import Limits, weight_limits
from peerclust.programs.protocol import (
    HeardMax,
    HeardTotal,
    Message,
    NetworkMax,
    State,
)
from peerclust.users import Users

# A sum finds this many bits, the first one fewer: together they are 64.
BITS = 6
PARTS = 1 << BITS
STEPS = 11

# Weights are compared up to rounding.
_SLACK = 1e-12

# Of users and x: the values of their rows, (N, v).
Values = Callable[[Users, Array], Rows]


def squared_distances(users: Users, x: Array) -> Array:
    """Return each row's squared distance to the nearest of the common centers x[0], (N, 1)."""
    return users.nearest_distance2(x[0])[:, None]


@dataclass(frozen=True, eq=False, kw_only=True)
class QuantileState(State):
    """What is known of the n quantiles, value after value, and of the weight of users' rows.

    `weights`, (u, 1), are the users' total weights, `below`, (u, n), the weights of their rows
    below all numbers with the bits found. `bound` is the largest weight of a user, and `limits` are
    those of one weight.
    """

    weights: Array
    below: Array
    counts: Array
    bits: tuple[int, ...]
    bound: float = 0.0
    total: float = 0.0
    limits: Limits | None = None

    @property
    def found(self) -> Array:
        """The quantiles, (n,), after the last round."""
        # Totals that someone made up may lead to numbers that are not finite.
        return _doubles(np.clip(np.array(self.bits, np.uint64), *_keys(_EXTREMES)))


@dataclass(frozen=True)
class Quantile:
    """Compute the quantiles q, each 0 < q <= 1, of the values of all users' rows.

    `m` is the number of users, or an upper bound on it.

    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator, run_program
    >>> users = Users(np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([0, 3, 4]))
    >>> program, x = Quantile(m=2, q=(0.5, 0.75)), np.zeros((2, 1, 1))
    >>> run_program(Simulator(path(2)), program, users, x, rounds=program.rounds).states[0].found
    array([1., 4.])
    """

    m: int
    q: tuple[float, ...]
    values: Values = squared_distances

    @property
    def rounds(self) -> int:
        """The number of rounds: a maximum, and the sums."""
        return 1 + STEPS

    def start(self, users: Users, x: Array) -> QuantileState:
        """Start at the centers x, (u, k, d), that users have agreed on, if the values need any."""
        n = len(self.q) * self.values(users, x).shape[1]
        return QuantileState(
            x=x,
            weights=users.total_weights[:, None],
            below=np.zeros((users.m, n)),
            counts=np.empty((users.m, n * PARTS)),
            bits=(0,) * n,
            limits=weight_limits(users),
        )

    def say(self, state: QuantileState) -> Message[HeardMax | HeardTotal]:
        """Send the total weight, then the weights up to each number, to all."""
        if state.round == 0:
            return NetworkMax(state.weights, state.limits)
        limits = state.limits and state.limits.repeat(state.counts.shape[1])
        return self._numbers(state).message(state.counts, limits)

    def hear(
        self, users: Users, state: QuantileState, heard: HeardMax | HeardTotal
    ) -> QuantileState:
        """Find the next bits, and count the rows up to each number with these."""
        if isinstance(heard, HeardMax):
            state = replace(state, bound=float(heard.v[0]))
        else:
            state = self._narrow(state, self._numbers(state).decode(heard.v).reshape(-1, PARTS))
        return replace(state, counts=self._count(users, state), round=state.round + 1)

    def _narrow(self, state: QuantileState, counts: Array) -> QuantileState:
        """Find the next bits from the weight of all rows up to each number, (n, PARTS)."""
        # In the first sum all rows lie up to the last number.
        total = state.total or float(counts[0, -1])
        q = np.tile(self.q, len(counts) // len(self.q))
        last = (1 << 64) - 1 >> _shift(state.round - 1)
        own = state.counts.reshape(len(state.below), -1, PARTS)
        below, bits = state.below.copy(), []
        for j, found in enumerate(state.bits):
            part = int((counts[j] < q[j] * total * (1.0 - _SLACK)).sum())
            part = min(part, PARTS - 1, last - found * PARTS)
            if part > 0:
                below[:, j] = own[:, j, part - 1]
            bits.append(found * PARTS + part)
        return replace(state, below=below, bits=tuple(bits), total=total)

    def _count(self, users: Users, state: QuantileState) -> Array:
        """Return the weight of each user's rows up to each number, (u, n PARTS)."""
        if state.round == STEPS:
            return state.counts
        values, shift = self.values(users, state.x), np.uint64(_shift(state.round))
        owner = np.repeat(np.arange(users.m), np.diff(users.offsets))
        counts = np.empty((users.m, len(state.bits), PARTS))
        for column in range(values.shape[1]):
            keys = _keys(values[:, column]) >> shift
            here = slice(column * len(self.q), (column + 1) * len(self.q))
            # Quantiles that have the same bits so far have the same counts.
            inside = {bits: _weigh(users, owner, keys, bits) for bits in set(state.bits[here])}
            for j, bits in enumerate(state.bits[here], here.start):
                counts[:, j] = state.below[:, j, None] + np.cumsum(inside[bits], axis=1)
        return counts.reshape(users.m, -1)

    def _numbers(self, state: QuantileState) -> FixedPoint:
        # A user's weight is summed in another order here.
        return FixedPoint.for_bound(np.full(len(state.bits) * PARTS, 2.0 * state.bound), self.m)


def _shift(step: int) -> int:
    """Return how many bits of an integer are left after a sum, counted from 0."""
    return 64 - 4 - BITS * step


def _weigh(users: Users, owner: Ints, keys: NDArray[np.uint64], bits: int) -> Array:
    """Return the weight of each user's rows with these bits, by the next ones, (u, PARTS)."""
    # The difference of a smaller key wraps around to a large number.
    part = keys - np.uint64(bits * PARTS)
    inside = part < PARTS
    cell = owner[inside] * PARTS + part[inside].astype(np.int64)
    one, each = (users.weights, None) if isinstance(users.weights, float) else (1.0, users.weights)
    weights = None if each is None else each[inside]
    counts = np.bincount(cell, weights=weights, minlength=users.m * PARTS)
    return np.asarray(one * counts, np.float64).reshape(-1, PARTS)


_SIGN = np.uint64(1 << 63)
_EXTREMES = np.array([np.finfo(np.float64).min, np.finfo(np.float64).max])


def _keys(values: Rows) -> NDArray[np.uint64]:
    """Return integers that are ordered as these numbers are."""
    # Adding 0 makes 0 of -0.
    bits = (np.asarray(values, np.float64) + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _doubles(keys: NDArray[np.uint64]) -> Array:
    """Return the numbers of these integers."""
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)
