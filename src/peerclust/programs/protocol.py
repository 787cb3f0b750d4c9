"""What a program is, what it may say, and what it then hears; no algorithm and no I/O.

A program is an algorithm written once, from the view of a block of users. It is a frozen dataclass
of its parameters with three methods, and all that changes is its state:

    state = program.start(users, x)
    state = program.hear(users, state, deliver(program.say(state)))    # as often as needed

A runtime is that loop and a way to deliver. State and messages are never written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peerclust.types import Array
from peerclust.users import Users

# A residual that is not known yet: above every threshold, and finite, as those that are infinite
# tell that centers ran away.
UNKNOWN = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class NeighborSum:
    """Tell every neighbor x[i], (u, ...); hear the neighbors' total and how many they were.

    With `extra_max`, (u, w), hear also the elementwise maximum of the neighbors' most[j]. `size` is what
    one letter takes in bytes, votes included, if it is not what `x` and `most` take in memory.
    `codes` are how x follows from what was said before: see `inexact`.
    """

    x: Array
    extra_max: Array | None = None
    size: int | None = None
    codes: tuple[NDArray[np.int8], NDArray[np.int16]] | None = None


@dataclass(frozen=True, eq=False)
class NeighborValues(NeighborSum):
    """As `NeighborSum`, and hear each neighbor's own x[j] besides."""


@dataclass(frozen=True, eq=False)
class NetworkMax:
    """Tell the whole network v[i], (u, ...); hear the elementwise maximum over all users."""

    v: Array


@dataclass(frozen=True, eq=False)
class HeardSum:
    """For each user of the block its neighbors' total, (u, ...), and their number, (u, 1, ...).

    The total is summed in ascending order of user, from zero. `most` is the maximum of what
    neighbors told, (u, w), if they told any; minus infinity for a user without neighbors.
    """

    total: Array
    degree: Array
    extra_max: Array | None = None


@dataclass(frozen=True, eq=False)
class HeardValues(HeardSum):
    """What `NeighborValues` hears: besides, x[j] of every neighbor j, (links, ...), and whose they are.

    The letters of the block's user i are at offsets[i]:offsets[i+1], in ascending order of sender.
    """

    each: Array = field(kw_only=True)
    offsets: NDArray[np.int64] = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class HeardMax:
    """The elementwise maximum over all users of what they said, (...)."""

    v: Array


def reduce_messages(
    said: NeighborSum, letters: Sequence[Array], most: Sequence[Array] = ()
) -> HeardSum:
    """Give what the only user of a block hears in its neighbors' letters, having said its own.

    They are in ascending order of user, (...) each, and so is `most`, what came with them.

    >>> heard = reduce_messages(NeighborSum(np.zeros((1, 2))), [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    >>> heard.total.tolist(), heard.degree.tolist()
    ([[4.0, 6.0]], [[2.0]])
    """
    x = said.x
    # A sum from zero: -0.0 comes out as 0.0, in every runtime.
    total = np.add(letters[0], 0.0, out=np.empty(x.shape)) if letters else np.zeros(x.shape)
    for letter in letters[1:]:
        total += letter
    degree, largest = _number(len(letters), x.ndim), None
    if said.extra_max is not None:
        nothing = np.full(said.extra_max.shape[1:], -np.inf)
        largest = np.maximum.reduce([nothing, *most])[None]
    if not isinstance(said, NeighborValues):
        return HeardSum(total, degree, largest)
    each = np.array(letters).reshape(len(letters), *x.shape[1:])
    offsets = np.array([0, len(letters)])
    return HeardValues(total, degree, largest, each=each, offsets=offsets)


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


def set_round(state: Any, round_: int) -> Any:
    """Give the state as it is at the beginning of a round; of one that wraps another, both."""
    if hasattr(state, "inner"):
        return replace(state, inner=set_round(state.inner, round_))
    return replace(state, round=round_, update=0)


class Program(Protocol):
    """An algorithm from the view of a block of users."""

    def start(self, users: Users, x: Array) -> State:
        """Return the state before the first round."""

    def say(self, state: Any) -> NeighborSum | NetworkMax:
        """Return what the users tell now; its kind and shape depend on counters only."""

    def hear(self, users: Users, state: Any, heard: Any) -> Any:
        """Return the next state."""
