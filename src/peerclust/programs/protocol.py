"""The interface of programs: what they may say, and what they then hear; no algorithm, no I/O.

A program is an algorithm written once, from the view of a block of users. It is a frozen dataclass
of its parameters with three methods; only its state changes:

    state = program.start(users, x)
    state = program.hear(users, state, deliver(program.say(state)))    # repeated

A runtime is that loop together with a way to deliver messages. States and messages are never
written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.users import Users

# A residual that is not known yet. It is above every threshold, and finite: an infinite residual
# means that the run diverged.
UNKNOWN = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False)
class HeardSum:
    """For each user of the block, its neighbors' total, (u, ...), and their number, (u, 1, ...).

    The total is summed in ascending order of user, from zero. `extra_max`, (u, w), is the maximum
    of the neighbors' `extra_max`, if any was sent; minus infinity for a user without neighbors.
    """

    total: Array
    degree: Array
    extra_max: Array | None = None


@dataclass(frozen=True, eq=False)
class HeardValues(HeardSum):
    """As `HeardSum`, with x[j] of every neighbor j in `values`, (links, ...).

    The block's user i heard values[offsets[i]:offsets[i+1]], in ascending order of sender.
    """

    values: Array = field(kw_only=True)
    offsets: NDArray[np.int64] = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class HeardMax:
    """The elementwise maximum over all users of what they said, (...)."""

    v: Array


Heard = HeardSum | HeardMax
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    S = TypeVar("S", bound="State", default=Any)
    H = TypeVar("H", bound=Heard, default=Any)
    H_co = TypeVar("H_co", bound=Heard, covariant=True, default=Any)
else:
    from typing import TypeVar

    S, H, H_co = TypeVar("S"), TypeVar("H"), TypeVar("H_co", covariant=True)


class Message(Generic[H_co]):
    """What a program says; H is what it hears in reply."""


@dataclass(frozen=True, eq=False)
class ToNeighbors(Message[H_co]):
    """Send x[i], (u, ...), to every neighbor.

    With `extra_max`, (u, w), hear also the elementwise maximum of the neighbors' extra_max[j].
    `size` is the size of one message in bytes, votes included, where that differs from what `x` and
    `extra_max` take in memory. `codes` encode the difference from the last message: see `lossy`.
    """

    x: Array
    extra_max: Array | None = None
    size: int | None = None
    codes: tuple[NDArray[np.int8], NDArray[np.int16]] | None = None


@dataclass(frozen=True, eq=False)
class NeighborSum(ToNeighbors[HeardSum]):
    """Send x[i] to every neighbor; hear the neighbors' total and how many they are."""


@dataclass(frozen=True, eq=False)
class NeighborValues(NeighborSum):
    """As `NeighborSum`, but hear each neighbor's own x[j] as well."""


@dataclass(frozen=True, eq=False)
class NetworkMax(Message[HeardMax]):
    """Send v[i], (u, ...), to the whole network; hear the elementwise maximum over all users."""

    v: Array


def reduce_messages(
    said: ToNeighbors[HeardSum], messages: Sequence[Array], extra_max: Sequence[Array] = ()
) -> HeardSum:
    """Return what a block of one user, which said `said`, hears in its neighbors' messages.

    The messages, (...) each, and the `extra_max` that came with them are in ascending order of
    user.

    >>> messages = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    >>> heard = reduce_messages(NeighborSum(np.zeros((1, 2))), messages)
    >>> heard.total.tolist(), heard.degree.tolist()
    ([[4.0, 6.0]], [[2.0]])
    """
    x = said.x
    # A sum from zero: -0.0 becomes 0.0 in every runtime.
    total = np.add(messages[0], 0.0, out=np.empty(x.shape)) if messages else np.zeros(x.shape)
    for message in messages[1:]:
        total += message
    degree, largest = _degree(len(messages), x.ndim), None
    if said.extra_max is not None:
        nothing = np.full(said.extra_max.shape[1:], -np.inf)
        largest = np.maximum.reduce([nothing, *extra_max])[None]
    if not isinstance(said, NeighborValues):
        return HeardSum(total, degree, largest)
    values = np.array(messages).reshape(len(messages), *x.shape[1:])
    offsets = np.array([0, len(messages)])
    return HeardValues(total, degree, largest, values=values, offsets=offsets)


@lru_cache
def _degree(n: int, ndim: int) -> Array:
    degree = np.full((1,) * ndim, float(n))
    degree.setflags(write=False)
    return degree


class State(Protocol):
    """The attributes that every state has; a program adds its own arrays and counters."""

    @property
    def x(self) -> Array:
        """The centers of the block's users, (u, K, d)."""

    @property
    def round(self) -> int:
        """The number of completed rounds."""

    @property
    def update(self) -> int:
        """The number of completed exchanges of the present round; 0 between rounds."""

    @property
    def residual(self) -> Array:
        """The distance of each user from a fixed point at the start of its last round, (u,).

        It is in the units of a gradient of the cost J; the runtime compares it with a threshold.
        """


def set_round(state: Any, round_: int) -> Any:
    """Return the state as of the start of a round; if it wraps an inner state, that one as well."""
    if hasattr(state, "inner"):
        return replace(state, inner=set_round(state.inner, round_))
    return replace(state, round=round_, update=0)


class Program(Protocol[S, H]):
    """An algorithm from the view of a block of users.

    A solver that peers run also has `max_overshoot(condition)`, a bound on the centers that
    neighbors may send.
    """

    def start(self, users: Users, x: Array) -> S:
        """Return the state before the first round."""

    def say(self, state: S) -> Message[H]:
        """Return the users' next message; its kind and shape depend on counters only."""

    def hear(self, users: Users, state: S, heard: H) -> S:
        """Return the next state."""


AnyProgram = Program[Any, Any]
