"""The interface of programs: what they may say, and what they then hear; no algorithm, no I/O.

A program is an algorithm written once, from the view of a block of users. It is a frozen dataclass
of its parameters with three methods; only its state changes:

    state = program.start(users, x)
    state = program.hear(users, state, deliver(program.say(state)))    # repeated

A runtime is that loop together with a way to deliver messages. States and messages are never
written to. The type of a message determines what is heard in reply: a `Message[HeardSum]` is
answered by a `HeardSum`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.programs.limits import Limits
from peerclust.users import Assignment, Users

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


@dataclass(frozen=True, eq=False)
class HeardTotal:
    """The sum over all users of what they said, (w,), modulo 2^64."""

    v: NDArray[np.uint64]


Heard = HeardSum | HeardMax | HeardTotal
S = TypeVar("S", bound="State")
H = TypeVar("H", bound=Heard)
H_co = TypeVar("H_co", bound=Heard, covariant=True)


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
class NeighborValues(ToNeighbors[HeardValues]):
    """As `NeighborSum`, but hear each neighbor's own x[j] as well."""


@dataclass(frozen=True, eq=False)
class NetworkMax(Message[HeardMax]):
    """Send v[i], (u, ...), to the whole network; hear the elementwise maximum over all users.

    `limits`, if given, are those of one user's values.
    """

    v: Array
    limits: Limits | None = None


@dataclass(frozen=True, eq=False)
class NetworkSum(Message[HeardTotal]):
    """Send the integers v[i], (u, w), to the whole network; hear their sum modulo 2^64.

    They are added along a breadth-first tree of the graph (`Graph.tree`), up and down: twice its
    height in exchanges. All users hear the same bits, so a round that begins with a sum may end a
    run at once: its residuals must follow from what was heard alone. `fixed_point` makes integers
    of numbers. `refuse`, if given, returns why a sum of so many users' integers cannot be theirs,
    or "".
    """

    v: NDArray[np.uint64]
    refuse: Callable[[NDArray[np.uint64], int], str] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """What every program's state has; a program adds its own arrays and counters in a subclass.

    Attributes
    ----------
    x : (u, K, d) array
        The centers of the block's users.
    round : int
        The number of completed rounds.
    update : int
        The number of completed exchanges of the present round; 0 between rounds.
    residual : (u,) array
        An estimate of how far each user's centers still had to go at the start of its last round, a
        length; the runtime compares it with a threshold. Empty before the first round, and in
        programs that end after a fixed number of rounds.
    stiffness : (u, K) array
        The curvatures by which gradients become lengths: a center at which the gradient of J is g
        has about ||g|| / stiffness to go (`theory.Curvature`). They are 1 until users have agreed
        on them. Empty in programs that end after a fixed number of rounds.
    assignment : Assignment, optional
        The last assignment of the users' rows to centers.
    """

    # Fields of which a row belongs to a link instead of a user.
    by_link: ClassVar[tuple[str, ...]] = ()

    x: Array
    round: int = 0
    update: int = 0
    residual: Array = field(default_factory=partial(np.empty, 0))
    stiffness: Array = field(default_factory=partial(np.empty, (0, 0)))
    assignment: Assignment | None = None

    @property
    def max_residual(self) -> float:
        """The largest residual; infinite before the first round."""
        return float(self.residual.max()) if self.residual.size else np.inf

    def attach(self, users: Users) -> Self:
        """Return the state, as read from a checkpoint, of these users: they assign again."""
        if self.assignment is None:
            return self
        again = replace(users.assign(self.assignment.x), counts=self.assignment.counts)
        return replace(self, assignment=again)

    def at_round(self, round_: int) -> Self:
        """Return the state as of the start of a round."""
        return replace(self, round=round_, update=0)

    def with_stiffness(self, stiffness: Array) -> Self:
        """Return the state with the stiffness, (u, K), on which its users have agreed."""
        return replace(self, stiffness=stiffness)


@runtime_checkable
class Program(Protocol[S, H]):
    """An algorithm from the view of a block of users; S is its state and H is what it hears."""

    def start(self, users: Users, x: Array) -> S:
        """Return the state before the first round."""

    def say(self, state: S) -> Message[H]:
        """Return the users' next message; its kind and shape depend on counters only."""

    def hear(self, users: Users, state: S, heard: H) -> S:
        """Return the next state."""


# A program of some state and some messages, where it does not matter which: Python has no type for
# "there is an S", so this is the only explicit Any of programs and runtimes.
AnyProgram = Program[Any, Any]  # type: ignore[explicit-any]


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
