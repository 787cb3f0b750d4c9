"""How far a run is from the pooled solution after each round, and at what cost.

The distance to the pooled solution, called the gap, is the larger of two fractions of the spread:
the pooled residual at the users' mean centers, and the users' disagreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.solvers.cases import run_solver
from peerclust import theory
from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.clustering.solvers import TunedSolver
from peerclust.programs.protocol import State
from peerclust.runtimes.protocol import Delivered, Runtime, Said
from peerclust.users import Users


@dataclass(frozen=True)
class Effort:
    """The cost of reaching a level; infinity if it was not reached.

    `rounds` are rounds of one exchange: a round of `exact`, which is a sum over the network, counts
    as twice the height of the graph's tree.
    """

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
    exchanges : int
        The number of exchanges per round.
    """

    gap: Array
    seconds: Array
    bytes: Array
    exchanges: int = 1

    def reach(self, level: float) -> Effort:
        """Return the cost until the gap was at most `level` and stayed there to the end."""
        rounds = count_rounds(self.gap, level)
        if rounds is None:
            return NOT_REACHED
        sent, seconds = float(self.bytes[rounds - 1]), float(self.seconds[rounds - 1])
        return Effort(rounds * self.exchanges, sent, seconds)


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
    tuned: TunedSolver,
    x: Array,
    *,
    rounds: int,
    tol: float,
    cutoff: float = inf,
) -> Trajectory:
    """Run a solver from x until its users stop at `tol`, and record its trajectory.

    A gap above `cutoff` may be recorded as infinity, which saves measuring it.
    """
    runtime = CountingRuntime(problem.runtime)
    recorder = _Recorder(problem, runtime, cutoff)
    run_solver(problem, tuned, x, rounds=rounds, tol=tol, on_round=recorder, runtime=runtime)
    sent = np.array(recorder.sent, dtype=np.float64)
    exchanges = 2 * problem.graph.tree.height if tuned.spec.sends_sums else 1
    return Trajectory(np.array(recorder.gap), np.array(recorder.seconds), sent, exchanges)


class CountingRuntime:
    """A runtime that counts the bytes that it delivers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self.distribution, self.bytes = runtime, runtime.distribution, 0

    def blocks(self, users: Users) -> Sequence[Users]:
        """Return the blocks of the other runtime."""
        return self._runtime.blocks(users)

    def deliver(self, said: Said) -> Delivered:
        """Deliver and count."""
        delivered = self._runtime.deliver(said)
        self.bytes += delivered.traffic.bytes
        return delivered

    def close(self) -> None:
        """Close the other runtime."""
        self._runtime.close()


class _Recorder:
    """Measures the gap after each round, with the clock stopped."""

    def __init__(self, problem: Problem, runtime: CountingRuntime, cutoff: float) -> None:
        users, self._runtime = problem.users, runtime
        # One user that holds all rows, with labels of its own, so that the run is not affected.
        self._pooled = Users(
            users.rows,
            np.array([0, len(users.rows)]),
            weights=users.weights,
            loss=users.loss,
            distance=users.distance,
        )
        self._problem, self._cutoff = problem, cutoff
        self._last: tuple[Any, float] = (None, inf)
        self.gap: list[float] = []
        self.seconds: list[float] = []
        self.sent: list[int] = []
        self._elapsed, self._resumed = 0.0, perf_counter()

    def __call__(self, states: Sequence[State], _: Sequence[Users]) -> None:
        self._elapsed += perf_counter() - self._resumed
        self.seconds.append(self._elapsed)
        x = states[0].x
        # In the first rounds of `exact` the centers do not change.
        if x is not self._last[0]:
            self._last = x, self._measure(x)
        self.gap.append(self._last[1])
        self.sent.append(self._runtime.bytes)
        self._resumed = perf_counter()

    def _measure(self, x: Array) -> float:
        # The disagreement is at least the width of the bounding box of all users' centers.
        widths = np.ptp(x, axis=0).max(axis=1)
        if widths.mean() > self._cutoff * self._problem.scales.spread:
            return inf
        # As in `programs.certificate`, without the cost.
        mean = x.mean(axis=0, keepdims=True)
        assignment = self._pooled.assign(mean)
        length = np.linalg.norm(self._pooled.gradient(assignment, mean), axis=2)
        curvature = theory.replace_zeros(self._pooled.local_curvature(assignment, mean))
        residual = (length / curvature).max() / self._problem.scales.spread
        if residual > self._cutoff:
            return inf
        return max(float(residual), self._problem.disagreement(x))
