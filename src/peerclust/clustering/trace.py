"""Observes a run between its rounds: records the trace, reports progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from peerclust.clustering.certificate import solver_cost
from peerclust.clustering.checkpoint import TraceRow
from peerclust.clustering.problem import Problem
from peerclust.clustering.result import Trace
from peerclust.clustering.solvers import TunedSolver
from peerclust.programs.protocol import State
from peerclust.users import Users
from peerclust.users.assignment import Labels

# With several processes, progress is reported once in this many rounds.
EVERY = 10


class Tracer:
    """A callback between rounds that records the trace and reports progress.

    To record, it must know the solver, for its cost.
    """

    def __init__(
        self,
        problem: Problem,
        tuned: TunedSolver | None,
        *,
        record: bool,
        progress: Callable[[int, float], None] | None,
    ) -> None:
        self._problem, self._tuned = problem, tuned
        self._record, self._progress = record, progress
        # The trace so far, one row per round, and the labels of its last row, by block.
        self.rows: list[TraceRow] = []
        self._labels: list[Labels] = []

    def __call__(self, states: Sequence[State], blocks: Sequence[Users]) -> None:
        """Record or report one round."""
        report = self._progress is not None and self._is_reported(states[0].round)
        if not (self._record or report):
            return
        residual = self._problem.residual(states)
        if self._record and self._tuned is not None:
            x = np.concatenate([state.x for state in states])
            # Before a program's first assignment, rows count at their nearest centers.
            costs = np.concatenate(
                [
                    block.cost(state.assignment or block.assign(state.x), state.x)
                    for block, state in zip(blocks, states, strict=True)
                ]
            )
            cost = solver_cost(self._problem, costs, x, self._tuned)
            found = self._problem.distribution.disagreement(x)
            changed = sum(self._problem.distribution.group.allgather(self._count_changed(states)))
            self.rows.append((cost, found.mean, found.stacked, changed, residual))
        if report and self._progress is not None:
            self._progress(states[0].round, residual)

    def restore(self, rows: Sequence[TraceRow], states: Sequence[State]) -> None:
        """Continue after these rows, the last of which is of these states."""
        self.rows[:] = rows
        if self._record:
            blocks = self._problem.runtime.blocks(self._problem.users)
            self._count_changed([s.attach(b) for s, b in zip(states, blocks, strict=True)])

    def _count_changed(self, states: Sequence[State]) -> int:
        """Return how many labels differ from those of the last row, which may be of another run.

        At first all do. Before a program's first assignment, none do.
        """
        found = [state.assignment.labels for state in states if state.assignment]
        if not found:
            return 0
        last, self._labels = self._labels, found
        if not last:
            return sum(map(len, found))
        return sum(int(np.count_nonzero(a != b)) for a, b in zip(last, found, strict=True))

    def _is_reported(self, round_: int) -> bool:
        # The largest residual is a collective call, for which processes wait for each other.
        return self._problem.distribution.group.size == 1 or round_ % EVERY == 0

    def trace(self) -> Trace | None:
        """Return the trace, if it was recorded."""
        if not self._record:
            return None
        return Trace(*(np.array(column) for column in zip(*self.rows, strict=True)))
