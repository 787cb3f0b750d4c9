"""Watches a run between its rounds: keeps the trace, tells progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from peerclust.clustering.certificate import solver_cost
from peerclust.clustering.problem import Problem
from peerclust.clustering.solution import Trace
from peerclust.clustering.solvers import TunedSolver
from peerclust.programs.protocol import State
from peerclust.users import Users

# In several processes progress is told so often only.
EVERY = 10


class Tracer:
    """Looks at the states between rounds: keeps the trace, tells progress."""

    def __init__(
        self,
        problem: Problem,
        tuned: TunedSolver,
        *,
        keep: bool,
        progress: Callable[[int, float], None] | None,
    ) -> None:
        self._problem, self._tuned = problem, tuned
        self._keep, self._progress = keep, progress
        # What was kept so far, a row a round.
        self.rows: list[tuple[float, float, float, int, float]] = []

    def __call__(self, states: Sequence[State], blocks: Sequence[Users]) -> None:
        """Take one look."""
        told = self._progress is not None and self._is_told(states[0].round)
        if not (self._keep or told):
            return
        residual = self._problem.residual(states)
        if self._keep:
            x = np.concatenate([state.x for state in states])
            costs = np.concatenate([b.cost(s.x) for b, s in zip(blocks, states, strict=True)])
            cost = solver_cost(self._problem, costs, x, self._tuned)
            apart = self._problem.distribution.disagreement(x)
            changed = sum(
                self._problem.distribution.group.allgather(sum(block.changed for block in blocks))
            )
            self.rows.append((cost, apart.mean, apart.stacked, changed, residual))
        if told and self._progress is not None:
            self._progress(states[0].round, residual)

    def _is_told(self, round_: int) -> bool:
        # All processes have to wait for each other to know the largest residual.
        return self._problem.distribution.group.size == 1 or round_ % EVERY == 0

    def trace(self) -> Trace | None:
        """Give what was kept, if anything was to be."""
        if not self._keep:
            return None
        return Trace(*(np.array(column) for column in zip(*self.rows, strict=True)))
