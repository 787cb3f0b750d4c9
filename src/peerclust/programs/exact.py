"""The pooled step at every user: sums and counts are averaged exactly, in a fixed number of rounds.

All users hold the same centers x. Each sums its own rows,

    H_i(k) = a bound on the curvature (`users.curvature`; for K-means the weight of C_i(k)),
    S_i(k) = H_i(k) x(k) - g_i(k)                         (for K-means the sum of its rows),

with g_i the gradient of its local cost. Then the network averages both, one factor of
`graphs.averaging` per round, and every user takes the step  x(k) <- S(k) / H(k)  of the averages.
For K-means that is Lloyd's step on all rows. For other losses it minimizes the majorizer that
`admm` describes, x - g / H of all rows. In the first rounds users average their starts, so that
these may differ.

| symbol    | here                                                              |
|-----------|-------------------------------------------------------------------|
| x         | `state.x[i]`, the same for all i up to rounding                   |
| H, S      | `state.sums[..., 0]`, `state.sums[..., 1:]`, partly averaged      |
| factors   | `factors`; `state.step` of them have been used                    |

**What leaves a user: not only centers.** Its neighbors hear its own sums and counts (weights, or
curvatures) of every cluster in the first exchange of each step, and mixtures of all users' in the
others. A cluster in which a user has one row reveals that row. Use `admm` where that is not
acceptable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerclust import theory
from peerclust.arrays import Array
from peerclust.programs.consensus import growth
from peerclust.programs.protocol import UNKNOWN, HeardSum, NeighborSum, State
from peerclust.programs.solver_spec import SolverSpec, Tuning, stays_in_box
from peerclust.users import Users


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactState(State):
    """The users' centers, and the sums that they are averaging.

    `stepped` is true once the starts have been averaged, so that these are sums of rows.
    """

    sums: Array
    step: int = 0
    stepped: bool = False


@dataclass(frozen=True)
class Exact:
    """Lloyd's method, or a majorized one, on all users' rows.

    Parameters
    ----------
    factors : tuple of float
        The averaging factors of the graph (`Graph.averaging_factors`).
    weight_ratio : float
        The largest user's weight over the users' mean weight. Residuals are the average gradient
        times this ratio, so that a tolerance means the same as in other programs.

    Examples
    --------
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = Exact(factors=(0.5,))
    >>> state = program.start(users, np.array([[[0.0]], [[1.0]]]))
    >>> heard = HeardSum(state.sums[::-1], np.ones((2, 1, 1)))
    >>> program.hear(users, state, heard).x.tolist()
    [[[0.5]], [[0.5]]]
    """

    factors: tuple[float, ...]
    weight_ratio: float = 1.0

    def growth(self, state: ExactState, degree: float) -> float:
        """Return a bound on the present sums, relative to the largest of all users' own sums."""
        return growth(self.factors[: state.step], degree)

    def start(self, users: Users, x: Array) -> ExactState:
        """Start by averaging the centers x, (u, K, d)."""
        first = np.concatenate([np.ones((*x.shape[:2], 1)), x], axis=2)
        return ExactState(x=x, sums=first, residual=np.full(users.m, UNKNOWN))

    def say(self, state: ExactState) -> NeighborSum:
        """Send the sums to the neighbors."""
        return NeighborSum(state.sums)

    def hear(self, users: Users, state: ExactState, heard: HeardSum) -> ExactState:
        """Continue the average; at its end take the step and sum the rows again."""
        sums, step, x = state.sums, state.step, state.x
        if self.factors:
            sums = sums - self.factors[step] * (heard.degree * sums - heard.total)
            step += 1
        residual, stepped, assignment = state.residual, state.stepped, state.assignment
        if step == len(self.factors):
            H, S = sums[..., :1], sums[..., 1:]
            if stepped:
                off = H * x - S
                residual = self.weight_ratio * np.sqrt((off * off).sum(axis=2)).max(axis=1)
            # A cluster without rows keeps its center.
            x = np.divide(S, H, out=x.copy(), where=H > 0)
            assignment = users.assign(x, assignment)
            H = users.curvature(assignment, x)[..., None]
            sums = np.concatenate([H, H * x - users.gradient(assignment, x)], axis=2)
            step, stepped = 0, True
        return ExactState(
            x=x,
            sums=sums,
            step=step,
            stepped=stepped,
            assignment=assignment,
            round=state.round + 1,
            residual=residual,
        )


def _make(t: Tuning) -> Exact:
    factors = t.graph.find_averaging_factors(theory.AVERAGING * t.tol)
    return Exact(factors, weight_ratio=t.scales.W * t.graph.m / t.scales.W_total)


SPEC = SolverSpec(
    name="exact",
    summary="the pooled step at every user, from exact averages of sums and counts",
    make=_make,
    max_overshoot=stays_in_box,
    sends_sums=True,
    full_precision=True,
)
