"""What a runtime is, and what driving a program gives; nothing of how messages travel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peerclust.errors import DivergedError
from peerclust.graphs import Graph
from peerclust.programs.protocol import NeighborSum, Program, State
from peerclust.ranks.distribution import Distribution
from peerclust.runtimes.stopping import VOTE_BYTES, Vote
from peerclust.types import Array
from peerclust.users import Users

# Called between rounds with the blocks' states and the blocks.
OnRound = Callable[[Sequence[State], Sequence[Users]], None]


@dataclass(frozen=True)
class Traffic:
    """How many messages went over links, and how many bytes of payload they carried."""

    messages: int = 0
    bytes: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages + other.messages, self.bytes + other.bytes)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.messages - other.messages, self.bytes - other.bytes)


@dataclass(frozen=True, eq=False)
class Run:
    """Where a program ended.

    Attributes
    ----------
    states : sequence
        The last state of each block, blocks in ascending order of user.
    rounds : int
        How many rounds were done.
    stopped : bool
        Whether the users stopped by themselves (see `stopping`), or the rounds ran out.
    traffic : Traffic
        What went over the links.
    """

    states: Sequence[Any]
    rounds: int
    stopped: bool
    traffic: Traffic

    @property
    def x(self) -> Array:
        """The centers of all users, (m, K, d); with MPI those of this rank's, (u, K, d)."""
        return np.concatenate([state.x for state in self.states])


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Where a run is between two rounds: all that it needs to go on.

    Without the blocks' last `labels`, all count as changed in the next round.
    """

    states: Sequence[Any]
    votes: Sequence[Vote]
    traffic: Traffic
    labels: Sequence[NDArray[np.int32]] = ()


# Called between rounds with where the run is, without labels, and the blocks.
OnCheckpoint = Callable[[Snapshot, Sequence[Users]], None]


class Runtime(Protocol):
    """A way to drive a program over a graph."""

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
        """Start the program at x and drive it for at most so many rounds.

        x is (m, k, d), each user's own centers. The users stop by themselves once every residual
        has been at most `threshold` (see `stopping`); below zero they never do.

        A runtime that can keep checkpoints also takes `on_checkpoint`, called after `on_round`, and `resume_from`,
        where to go on from.
        """


def distribution_of(runtime: Runtime) -> Distribution:
    """Give which users a runtime drives in this process: all, unless it says otherwise."""
    distribution: Distribution | None = getattr(runtime, "distribution", None)
    return Distribution.of_all(runtime.graph) if distribution is None else distribution


def message_bytes(said: NeighborSum) -> int:
    """Give what one letter takes: what the program says it does, or its numbers and the votes."""
    if said.size is not None:
        return said.size
    most = 0 if said.extra_max is None else said.extra_max[0].nbytes
    return int(said.x[0].nbytes) + most + VOTE_BYTES


def check_finite(values: Array, round_: int) -> None:
    """Raise if residuals or centers are no numbers any more: the centers have run away."""
    if not np.isfinite(values).all():
        raise DivergedError(
            f"The centers ran away within {round_} rounds: the step `alpha` is too long."
            " alpha='auto' is safe for every loss that the theory covers."
        )
