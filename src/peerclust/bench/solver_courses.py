"""A run as an onlooker sees it between rounds: how far from the pooled solution, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from time import perf_counter
from typing import Any

import numpy as np

from peerclust.clustering.problem import Problem
from peerclust.programs.protocol import Program, State, Sum
from peerclust.runtimes.protocol import message_bytes
from peerclust.types import Array
from peerclust.users import Users


@dataclass(frozen=True)
class Effort:
    """What it took to reach a level; infinity if it was not reached."""

    rounds: float
    bytes: float
    seconds: float


NOT_REACHED = Effort(inf, inf, inf)


@dataclass(frozen=True, eq=False)
class Course:
    """How a run went on.

    far : (rounds,) array
        After each round the larger of the pooled residual at the mean centers and the users'
        disagreement as a fraction of the spread.
    seconds : (rounds,) array
        The time until then, without the onlooker's.
    bytes : (rounds,) array
        All that went over the links up to the end of each round.
    """

    far: Array
    seconds: Array
    bytes: Array

    def reach(self, level: float) -> Effort:
        """Give what it took until `far` was at most `level`, and stayed so to the end."""
        rounds = count_rounds(self.far, level)
        if rounds is None:
            return NOT_REACHED
        return Effort(rounds, float(self.bytes[rounds - 1]), float(self.seconds[rounds - 1]))


def count_rounds(far: Array, level: float) -> int | None:
    """Give the round from which on `far` stays at or below a level; None if it ends above.

    >>> count_rounds(np.array([9.0, 1.0, 3.0, 1.0, 0.5]), 1.0)
    4
    """
    # A number that is none is not below.
    above = np.flatnonzero(~(far <= level))
    rounds = int(above[-1]) + 2 if above.size else 1
    return rounds if rounds <= len(far) else None


def show_rounds(rounds: float) -> float | str:
    """Give a number of rounds, or a ratio of such, as a measure shows it.

    >>> show_rounds(12.0), show_rounds(inf)
    (12.0, 'not reached')
    """
    return rounds if isfinite(rounds) else "not reached"


def show_level(level: float) -> str:
    """Write a power of ten.

    >>> show_level(1e-6)
    '1e-6'
    """
    return f"{level:.0e}".replace("e-0", "e-")


def follow(
    problem: Problem,
    program: Program,
    x: Array,
    *,
    rounds: int,
    tol: float,
    beyond: float = inf,
) -> Course:
    """Run a program from x until its users stop at `tol`, and look on.

    What is further than `beyond` may be told as infinity, which takes less measuring.
    """
    onlooker = _Onlooker(problem, program, x, beyond)
    problem.run(program, x, rounds, tol, onlooker)
    # What was to be said after the last round was not.
    sent = 2 * problem.graph.edges * np.cumsum(onlooker.letters[:-1], dtype=np.float64)
    return Course(np.array(onlooker.far), np.array(onlooker.seconds), sent)


class _Onlooker:
    """Measures between rounds, while the clock stands still."""

    def __init__(self, problem: Problem, program: Program, x: Array, beyond: float) -> None:
        users = problem.users
        self._program = program
        self.letters = [letter_size(program, program.start(users, x))]
        # All rows are one user's here, with labels of its own: the run's are not disturbed.
        self._pooled = Users(
            users.rows,
            np.array([0, len(users.rows)]),
            weights=users.weights,
            loss=users.loss,
            distance=users.distance,
        )
        self._scale = float(users.total_weights.sum()) * problem.steepness * problem.spread
        self._problem, self._beyond = problem, beyond
        self._last: tuple[Any, float] = (None, inf)
        self.far: list[float] = []
        self.seconds: list[float] = []
        self._spent, self._since = 0.0, perf_counter()

    def __call__(self, states: Sequence[State], _: Sequence[Users]) -> None:
        self._spent += perf_counter() - self._since
        self.seconds.append(self._spent)
        x = states[0].x
        # Between two steps of `exact` centers stay where they are.
        if x is not self._last[0]:
            self._last = x, self._measure(x)
        self.far.append(self._last[1])
        self.letters.append(letter_size(self._program, states[0]))
        self._since = perf_counter()

    def _measure(self, x: Array) -> float:
        # Two users' centers are at least as far apart as the box around all is wide.
        widths = np.ptp(x, axis=0).max(axis=1)
        if widths.mean() > self._beyond * self._problem.spread:
            return inf
        # The residual of `certify.measure_pooled`, without the cost.
        mean = x.mean(axis=0, keepdims=True)
        self._pooled.assign(mean)
        residual = np.linalg.norm(self._pooled.gradient(mean), axis=2).max() / self._scale
        if residual > self._beyond:
            return inf
        return max(float(residual), self._problem.disagreement(x))


def letter_size(program: Program, state: State) -> int:
    """Give the bytes of a letter that users in this state send."""
    said = program.say(state)
    assert isinstance(said, Sum)
    return message_bytes(said)
