"""The stopping rule: users decide by themselves when to stop, with two integers per message.

Each message carries two integers of its sender, read in a round's first exchange:

    s_i = 0 if user i's residual is above tol, else 1 + min(s_i, s_j of its neighbors),
    R_i = min(R_i, R_j of its neighbors),    the earliest announced stop.

With D at least the diameter, a user whose s_i exceeds D in round t announces R_i = t + D. Then
every user within distance D was below tol in round t - D, so there was a round in which all were.
The announcement reaches every user by round t + D, so all stop after the same round. Nothing is
averaged: minima are the same to the last bit on every runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max

# The bytes that the two integers add to a message.
VOTE_BYTES = 16


@dataclass(frozen=True)
class Vote:
    """The counters s and the earliest stops R of a block's users, both (u,)."""

    s: Counts
    R: Counts

    def due(self, round_: int) -> bool:
        """Return whether the block stops after this round; all its users have the same R then."""
        return bool(self.R[0] <= round_)


def first_vote(u: int) -> Vote:
    """Return the vote of u users before the first round."""
    return Vote(s=np.zeros(u, np.int64), R=np.full(u, NEVER))


def next_vote(vote: Vote, heard: Vote, quiet: NDArray[np.bool_], round_: int, D: int) -> Vote:
    """Return the vote after a round's first exchange.

    For each user, `heard` has the smallest s and R among its neighbors (NEVER if it has none), and
    `quiet` whether its residual is at most tol. `D` is a bound on the diameter.

    >>> alone = Vote(s=np.array([NEVER]), R=np.array([NEVER]))
    >>> next_vote(first_vote(1), alone, np.array([True]), 7, 0)
    Vote(s=array([1]), R=array([7]))
    """
    s = np.where(quiet, 1 + np.minimum(vote.s, heard.s), 0)
    R = np.minimum(vote.R, heard.R)
    return Vote(s=s, R=np.where(s > D, np.minimum(R, round_ + D), R))
