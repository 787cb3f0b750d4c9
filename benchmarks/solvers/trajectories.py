"""How far a run is from the pooled solution after each round, and at what cost.

The distance to the pooled solution, called the gap, is the larger of two numbers: the pooled
residual at the users' mean centers, and the users' disagreement as a fraction of the spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.programs.protocol import AnyProgram, State, ToNeighbors
from peerclust.runtimes.protocol import message_bytes
from peerclust.users import Users


@dataclass(frozen=True)
class Effort:
    """The cost of reaching a level; infinity if it was not reached."""

    rounds: float
    bytes: float
    seconds: float


NOT_REACHED = Effort(inf, inf, inf)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A run, round by round.

    gap : (rounds,) array
        The gap after each round.
    seconds : (rounds,) array
        The time until then, without the time for measuring.
    bytes : (rounds,) array
        The bytes sent over all links until then.
    """

    gap: Array
    seconds: Array
    bytes: Array

    def reach(self, level: float) -> Effort:
        """Return the cost until the gap was at most `level` and stayed there to the end."""
        rounds = count_rounds(self.gap, level)
        if rounds is None:
            return NOT_REACHED
        return Effort(rounds, float(self.bytes[rounds - 1]), float(self.seconds[rounds - 1]))


def count_rounds(gap: Array, level: float) -> int | None:
    """Return the first round from which on the gap stays at most `level`; None if there is none.

    >>> count_rounds(np.array([9.0, 1.0, 3.0, 1.0, 0.5]), 1.0)
    4
    """
    # NaN counts as above.
    above = np.flatnonzero(~(gap <= level))
    rounds = int(above[-1]) + 2 if above.size else 1
    return rounds if rounds <= len(gap) else None


def format_level(level: float) -> str:
    """Format a power of ten.

    >>> format_level(1e-6)
    '1e-6'
    """
    return f"{level:.0e}".replace("e-0", "e-")


def record(
    problem: Problem,
    program: AnyProgram,
    x: Array,
    *,
    rounds: int,
    tol: float,
    cutoff: float = inf,
) -> Trajectory:
    """Run a program from x until its users stop at `tol`, and record its trajectory.

    A gap above `cutoff` may be recorded as infinity, which saves measuring it.
    """
    recorder = _Recorder(problem, program, x, cutoff)
    problem.run(program, x, rounds, tol, recorder)
    # The message after the last round was not sent.
    sent = 2 * problem.graph.edges * np.cumsum(recorder.sizes[:-1], dtype=np.float64)
    return Trajectory(np.array(recorder.gap), np.array(recorder.seconds), sent)


class _Recorder:
    """Measures the gap after each round, with the clock stopped."""

    def __init__(self, problem: Problem, program: AnyProgram, x: Array, cutoff: float) -> None:
        users = problem.users
        self._program = program
        self.sizes = [message_size(program, program.start(users, x))]
        # One user that holds all rows, with labels of its own, so that the run is not affected.
        self._pooled = Users(
            users.rows,
            np.array([0, len(users.rows)]),
            weights=users.weights,
            loss=users.loss,
            distance=users.distance,
        )
        self._scale = problem.scales.pooled
        self._problem, self._cutoff = problem, cutoff
        self._last: tuple[Any, float] = (None, inf)
        self.gap: list[float] = []
        self.seconds: list[float] = []
        self._elapsed, self._resumed = 0.0, perf_counter()

    def __call__(self, states: Sequence[State], _: Sequence[Users]) -> None:
        self._elapsed += perf_counter() - self._resumed
        self.seconds.append(self._elapsed)
        x = states[0].x
        # Between two steps of `exact` the centers do not change.
        if x is not self._last[0]:
            self._last = x, self._measure(x)
        self.gap.append(self._last[1])
        self.sizes.append(message_size(self._program, states[0]))
        self._resumed = perf_counter()

    def _measure(self, x: Array) -> float:
        # The disagreement is at least the width of the bounding box of all users' centers.
        widths = np.ptp(x, axis=0).max(axis=1)
        if widths.mean() > self._cutoff * self._problem.scales.spread:
            return inf
        # As in `clustering.certificate.measure_pooled`, without the cost.
        mean = x.mean(axis=0, keepdims=True)
        gradient = self._pooled.gradient(self._pooled.assign(mean), mean)
        residual = np.linalg.norm(gradient, axis=2).max() / self._scale
        if residual > self._cutoff:
            return inf
        return max(float(residual), self._problem.disagreement(x))


def message_size(program: AnyProgram, state: State) -> int:
    """Return the bytes of a message that a user in this state sends."""
    said = program.say(state)
    assert isinstance(said, ToNeighbors)
    return message_bytes(said)
