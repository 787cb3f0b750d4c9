"""The interface of runtimes, and the result of a run; not how messages are delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.errors import DivergedError
from peerclust.graphs import Graph
from peerclust.programs.protocol import NeighborSum, Program, State
from peerclust.ranks.distribution import Distribution
from peerclust.runtimes.stopping import VOTE_BYTES, Vote
from peerclust.text import mention
from peerclust.users import Users

# Called between rounds with the blocks' states and the blocks.
OnRound = Callable[[Sequence[State], Sequence[Users]], None]


@dataclass(frozen=True)
class Traffic:
    """The number of messages sent over links, and of the bytes of their payload."""

    messages: int = 0
    bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages + other.messages, self.bytes + other.bytes)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages - other.messages, self.bytes - other.bytes)


@dataclass(frozen=True, eq=False)
class Run:
    """The result of running a program.

    Attributes
    ----------
    states : sequence
        The last state of each block, blocks in ascending order of user.
    rounds : int
        The number of completed rounds.
    stopped : bool
        Whether the users stopped by themselves (see `stopping`), or the rounds ran out.
    traffic : Traffic
        The messages sent over the links.
    """

    states: Sequence[Any]
    rounds: int
    stopped: bool
    traffic: Traffic

    @property
    def x(self) -> Array:
        """The centers of all users, (m, K, d); with MPI those of this rank's users, (u, K, d)."""
        return np.concatenate([state.x for state in self.states])


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a run between two rounds: all that is needed to resume it.

    Without the blocks' last `labels`, all labels count as changed in the next round.
    """

    states: Sequence[Any]
    votes: Sequence[Vote]
    traffic: Traffic
    labels: Sequence[NDArray[np.int32]] = ()


# Called between rounds with a snapshot, without labels, and the blocks.
OnCheckpoint = Callable[[Snapshot, Sequence[Users]], None]


class Runtime(Protocol):
    """Runs programs on the users of a graph."""

    graph: Graph

    def run(
        self,
        program: Program,
        users: Users,
        x: Array,
        *,
        rounds: int,
        threshold: float = -1.0,
        on_round: OnRound | None = None,
    ) -> Run:
        """Start the program at x and run it for at most `rounds` rounds.

        x is (m, k, d), each user's own centers. The users stop by themselves once every residual
        has been at most `threshold` (see `stopping`); with a negative threshold they never do.

        A runtime that supports checkpoints also takes `on_checkpoint`, which is called after
        `on_round`, and `resume_from`, the snapshot to resume from.
        """


def distribution_of(runtime: Runtime) -> Distribution:
    """Return the distribution of a runtime's users; without one, this process has all users."""
    distribution: Distribution | None = getattr(runtime, "distribution", None)
    return Distribution.of_all(runtime.graph) if distribution is None else distribution


def message_bytes(said: NeighborSum) -> int:
    """Return the size of one message: what the program declares, or its numbers and the votes."""
    if said.size is not None:
        return said.size
    extra = 0 if said.extra_max is None else said.extra_max[0].nbytes
    return int(said.x[0].nbytes) + extra + VOTE_BYTES


def check_finite(values: Array, round_: int) -> None:
    """Raise if residuals or centers are not finite: the run has diverged."""
    if not np.isfinite(values).all():
        raise DivergedError(
            f"Diverged after {round_} rounds: the step size " + mention("alpha") + " is too large."
            " alpha='auto' is safe for every loss that the theory covers."
        )
