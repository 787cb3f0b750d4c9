"""What a program is, what it may say, and what it then hears; no algorithm and no I/O.

A program is an algorithm written once, from the view of a block of users. It is a frozen dataclass
of its parameters with three methods, and all that changes is its state:

    state = program.start(users, x)
    state = program.hear(users, state, deliver(program.say(state)))    # as often as needed

A runtime is that loop and a way to deliver. State and messages are never written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peerclust.users import Users

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sum:
    """Tell every neighbor x[i], (u, ...); hear the neighbors' total and how many they were."""

    x: Array


@dataclass(frozen=True, eq=False)
class Max:
    """Tell the whole network v[i], (u, ...); hear the elementwise maximum over all users."""

    v: Array


@dataclass(frozen=True, eq=False)
class HeardSum:
    """For each user of the block its neighbors' total, (u, ...), and their number, (u, 1, ...).

    The total is summed in ascending order of user, from zero.
    """

    total: Array
    degree: Array


@dataclass(frozen=True, eq=False)
class HeardMax:
    """The elementwise maximum over all users of what they said, (...)."""

    v: Array


def sum_heard(x: Array, letters: Sequence[Array]) -> HeardSum:
    """Give what the only user of a block, with centers x (1, ...), hears in its neighbors' letters.

    They are in ascending order of user, (...) each.

    >>> heard = sum_heard(np.zeros((1, 2)), [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    >>> heard.total.tolist(), heard.degree.tolist()
    ([[4.0, 6.0]], [[2.0]])
    """
    # A sum from zero: -0.0 comes out as 0.0, in every runtime.
    total = np.add(letters[0], 0.0, out=np.empty(x.shape)) if letters else np.zeros(x.shape)
    for letter in letters[1:]:
        total += letter
    return HeardSum(total, _number(len(letters), x.ndim))


@lru_cache
def _number(n: int, ndim: int) -> Array:
    number = np.full((1,) * ndim, float(n))
    number.setflags(write=False)
    return number


class State(Protocol):
    """What every state carries; a program adds its own arrays and counters."""

    @property
    def x(self) -> Array:
        """The centers of the block's users, (u, K, d)."""

    @property
    def round(self) -> int:
        """How many rounds are done."""

    @property
    def update(self) -> int:
        """How many exchanges of the present round are done; 0 between rounds."""

    @property
    def residual(self) -> Array:
        """How far each user was from a fixed point when its last round began, (u,).

        In the units of a gradient of the cost J; the runtime compares it with a threshold.
        """


class Program(Protocol):
    """An algorithm from the view of a block of users."""

    def start(self, users: Users, x: Array) -> State:
        """Return the state before the first round."""

    def say(self, state: Any) -> Sum | Max:
        """Return what the users tell now; its kind and shape depend on counters only."""

    def hear(self, users: Users, state: Any, heard: Any) -> Any:
        """Return the next state."""
