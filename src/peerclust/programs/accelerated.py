"""Accelerated DGC: Algorithm 1 with Nesterov's momentum, which each user restarts by itself.

With g the gradient of J_rho at the centers y that users send to their neighbors (see `dgc`),

    x+ = y - alpha g,    y+ = x+ + (t - 1) / t+ (x+ - x),    t+ = (1 + sqrt(1 + 4 t^2)) / 2,

where t starts at 1 (Y. Nesterov, "A method of solving a convex programming problem with convergence
rate O(1/k^2)", Soviet Mathematics Doklady 27, 1983). A user restarts one of its centers k, setting
t = 1 and y+ = x+, when momentum carries that center uphill: <g(k), x+(k) - x(k)> > 0. This is the
gradient test of B. O'Donoghue and E. Candes, "Adaptive restart for accelerated gradient schemes",
Foundations of Computational Mathematics 15, 2015, applied to one center of one user instead of all
centers together. It needs nothing that the user does not know.

Where the centers are at rest, x+ = x = y and g is 0. So the fixed points are those of `dgc`, and
the messages are the same.

| symbol      | here                                                    |
|-------------|---------------------------------------------------------|
| y           | `state.x`: the message, and where rows are assigned     |
| x           | `state.stepped`                                         |
| t           | `state.t`, (u, K)                                       |
| y - alpha g | `DGC.gradient_step`                                     |
| y+          | `kernels.nesterov_extrapolate`                          |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.bregman import Bregman
from peerclust.kernels import buffers
from peerclust.kernels.threads import parallel_for
from peerclust.programs.dgc import DGC
from peerclust.programs.protocol import HeardSum, NeighborSum
from peerclust.programs.solver_spec import penalized_spec
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class AcceleratedState:
    """The centers of the block's users, where their last steps ended, and their momentum."""

    x: Array
    stepped: Array
    t: Array
    round: int
    update: int
    residual: Array


@dataclass(frozen=True)
class Accelerated:
    """DGC with momentum: penalty rho, step size alpha and B updates per round.

    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = Accelerated(rho=1.0, alpha=0.25)
    >>> state = program.start(users, np.array([[[0.0]], [[1.0]]]))
    >>> heard = HeardSum(total=np.array([[[1.0]], [[0.0]]]), degree=np.ones((2, 1, 1)))
    >>> program.hear(users, state, heard).x.tolist()
    [[[0.25]], [[1.0]]]
    """

    rho: float
    alpha: float
    B: int = 1
    consensus_factor: float = 1.0

    def max_overshoot(self, condition: float) -> float:
        """Return how far centers may leave the bounding box of rows and starts, in widths of it.

        Momentum may carry them outside. Ten widths are a generous allowance; for a Mahalanobis
        distance it is multiplied by the condition number of A.
        """
        return 10.0 * condition

    def start(self, users: Users, x: Array) -> AcceleratedState:
        """Start at the centers x, (u, K, d), without momentum."""
        return AcceleratedState(
            x=x,
            stepped=x,
            t=np.ones(x.shape[:2]),
            round=0,
            update=0,
            residual=np.full(users.m, np.inf),
        )

    def say(self, state: AcceleratedState) -> NeighborSum:
        """Send the centers to the neighbors."""
        return NeighborSum(state.x)

    def hear(self, users: Users, state: AcceleratedState, heard: HeardSum) -> AcceleratedState:
        """Assign at the start of a round, take the gradient step, then extrapolate."""
        y = state.x
        stepped, residual = self._plain.gradient_step(users, y, heard, assign=state.update == 0)
        ahead, t, moved = buffers.empty(y.shape), np.empty_like(state.t), np.empty(users.m)

        def loop(first: int, last: int) -> None:
            kernels.nesterov_extrapolate(
                y, stepped, state.stepped, state.t, first, last, ahead, t, moved
            )

        parallel_for(loop, users.m, y.size)
        if isinstance(users.loss, Bregman) and not users.loss.contains(ahead):
            # Extrapolation may leave the domain; the gradient step alone stays in it.
            inside = np.asarray(users.loss.domain(ahead))  # type: ignore[misc]
            ahead = np.where(inside[..., None], ahead, stepped)
            t = np.where(inside, t, 1.0)
        last = state.update + 1 == self.B
        return AcceleratedState(
            x=ahead,
            stepped=stepped,
            t=t,
            round=state.round + last,
            update=0 if last else state.update + 1,
            residual=(
                np.maximum(residual, self.stiffness(users, heard.degree.reshape(-1)) * moved)
                if state.update == 0
                else state.residual
            ),
        )

    def stiffness(self, users: Users, degree: Array) -> Array:
        """Return an estimate of how much users' gradients change per unit of their own motion.

        With momentum a small gradient does not imply a fixed point, so motion counts, too.
        """
        own = float(users.loss.smoothness) * users.distance.largest * users.total_weights
        return np.asarray(self.rho * self.consensus_factor * degree + own)

    @property
    def _plain(self) -> DGC:
        return DGC(self.rho, self.alpha, self.B, self.consensus_factor)


SPEC = penalized_spec("accelerated", "gradient descent on J_rho with momentum", Accelerated)
