"""The interface of runtimes, and the result of a run; not how messages are delivered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.protocol import Heard, Message, NetworkSum, State, ToNeighbors
from peerclust.ranks.distribution import Distribution
from peerclust.ranks.group import ProcessGroup
from peerclust.runtimes.stopping import NEVER, VOTE_BYTES, Vote
from peerclust.users import Users

S_co = TypeVar("S_co", bound=State, covariant=True)

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
class Run(Generic[S_co]):
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

    states: Sequence[S_co]
    rounds: int
    stopped: bool
    traffic: Traffic

    @cached_property
    def x(self) -> Array:
        """The centers of all users, (m, K, d); with MPI those of this rank's users, (u, K, d)."""
        if len(self.states) == 1:
            return self.states[0].x
        return np.concatenate([state.x for state in self.states])


@dataclass(frozen=True, eq=False)
class Snapshot(Generic[S_co]):
    """The state of a run between two rounds: all that is needed to resume it.

    Users do not vote before the round `vote_from`; see `convergence`.
    """

    states: Sequence[S_co]
    votes: Sequence[Vote]
    traffic: Traffic
    vote_from: int = 0


# Called between rounds with a snapshot.
OnCheckpoint = Callable[[Snapshot[State]], None]


class Said(NamedTuple):
    """What the blocks say in one exchange, and their votes and states at that point."""

    messages: Sequence[Message[Heard]]
    votes: Sequence[Vote]
    states: Sequence[State]


class Ballot(NamedTuple):
    """The blocks' own votes, the smallest votes among each user's neighbors, and D.

    D is a bound on the diameter; see `stopping`.
    """

    own: Sequence[Vote]
    heard: Sequence[Vote]
    D: int


def _no_ballot() -> Ballot:
    raise NotImplementedError("no votes were delivered")


class Delivered(NamedTuple):
    """What the blocks hear in one exchange, and the messages that were sent over links for it.

    `ballot` is called after the blocks have heard, and only if they vote in this exchange.
    """

    messages: Sequence[Heard]
    traffic: Traffic = Traffic()
    ballot: Callable[[], Ballot] = _no_ballot


@runtime_checkable
class Runtime(Protocol):
    """A way to deliver the messages of programs; `loop.run_program` runs a program with it."""

    @property
    def distribution(self) -> Distribution:
        """The graph, and which of its users are in this process."""

    def blocks(self, users: Users) -> Sequence[Users]:
        """Divide the users of this process into blocks, in ascending order."""

    def deliver(self, said: Said) -> Delivered:
        """Deliver what the blocks say."""

    def close(self) -> None:
        """Release the resources of this runtime, such as communicators."""


@runtime_checkable
class RuntimeGroup(ProcessGroup, Protocol):
    """Processes that have a runtime of their own, which delivers messages between them."""

    def make_runtime(self, distribution: Distribution) -> Runtime:
        """Return the runtime for users distributed like this."""


def sum_traffic(said: NetworkSum, m: int) -> Traffic:
    """Return the messages of a sum over m users: one up and one down each edge of the tree."""
    sent = 2 * (m - 1)
    return Traffic(sent, sent * int(said.v[0].nbytes))


def agreed_ballot(votes: Sequence[Vote]) -> Ballot:
    """Return the ballot of blocks that have heard a network sum: all know the same, so D is 0."""
    alone = [Vote(np.full_like(vote.s, NEVER), np.full_like(vote.R, NEVER)) for vote in votes]
    return Ballot(votes, alone, 0)


def message_bytes(said: ToNeighbors[Heard]) -> int:
    """Return the size of one message: what the program declares, or its numbers and the votes."""
    if said.size is not None:
        return said.size
    extra = 0 if said.extra_max is None else said.extra_max[0].nbytes
    return int(said.x[0].nbytes) + extra + VOTE_BYTES
