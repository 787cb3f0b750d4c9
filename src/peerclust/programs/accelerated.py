"""Accelerated DGC: Algorithm 1 with Nesterov's momentum, which each user restarts by itself.

With g the gradient of J_rho at the centers y that all users told each other (see `dgc`),

    x+ = y - alpha g,    y+ = x+ + (t - 1) / t+ (x+ - x),    t+ = (1 + sqrt(1 + 4 t^2)) / 2,

where t begins at 1 (Y. Nesterov, "A method of solving a convex programming problem with convergence
rate O(1/k^2)", Soviet Mathematics Doklady 27, 1983). A user restarts a center k of its own, t = 1
and y+ = x+, when momentum carries that center uphill, <g(k), x+(k) - x(k)> > 0: the gradient test
of B. O'Donoghue and E. Candes, "Adaptive restart for accelerated gradient schemes", Foundations of
Computational Mathematics 15, 2015, with the user's own center in place of all of them. It asks for
nothing that the user does not know.

Where the centers rest, x+ = x = y, g is 0: the fixed points are those of `dgc`. Messages, too.

| symbol      | here                                                  |
|-------------|-------------------------------------------------------|
| y           | `state.x`: what is told, and where rows are assigned  |
| x           | `state.stepped`                                       |
| t           | `state.t`, (u, K)                                     |
| y - alpha g | `DGC.descend`                                         |
| y+          | `kernels.nesterov_extrapolate`                                       |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerclust import kernels
from peerclust.bregman import Bregman
from peerclust.kernels import buffers
from peerclust.kernels.threads import parallel_for
from peerclust.programs.dgc import DGC
from peerclust.programs.protocol import HeardSum, NeighborSum
from peerclust.types import Array
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
    """DGC with momentum: penalty rho, step alpha and B updates a round.

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
        """Give how far centers may leave the box of rows and starts, in widths of it.

        Momentum carries them past it on their way; ten widths is a generous allowance, and more for
        a Mahalanobis distance with the condition number of A.
        """
        return 10.0 * condition

    def start(self, users: Users, x: Array) -> AcceleratedState:
        """Begin at the centers x, (u, K, d), without momentum."""
        return AcceleratedState(
            x=x,
            stepped=x,
            t=np.ones(x.shape[:2]),
            round=0,
            update=0,
            residual=np.full(users.m, np.inf),
        )

    def say(self, state: AcceleratedState) -> NeighborSum:
        """Tell the neighbors the centers."""
        return NeighborSum(state.x)

    def hear(self, users: Users, state: AcceleratedState, heard: HeardSum) -> AcceleratedState:
        """Assign when a round begins, make the step, and go on in its direction."""
        y = state.x
        stepped, residual = self._plain.descend(users, y, heard, assign=state.update == 0)
        told, t, far = buffers.empty(y.shape), np.empty_like(state.t), np.empty(users.m)

        def loop(first: int, last: int) -> None:
            kernels.nesterov_extrapolate(
                y, stepped, state.stepped, state.t, first, last, told, t, far
            )

        parallel_for(loop, users.m, y.size)
        if isinstance(users.loss, Bregman) and not users.loss.contains(told):
            # Momentum does not know of a domain; a step that stays in it is all that is made.
            inside = np.asarray(users.loss.domain(told))  # type: ignore[misc]
            told = np.where(inside[..., None], told, stepped)
            t = np.where(inside, t, 1.0)
        last = state.update + 1 == self.B
        return AcceleratedState(
            x=told,
            stepped=stepped,
            t=t,
            round=state.round + last,
            update=0 if last else state.update + 1,
            residual=(
                np.maximum(residual, self.stiffness(users, heard.degree.reshape(-1)) * far)
                if state.update == 0
                else state.residual
            ),
        )

    def stiffness(self, users: Users, degree: Array) -> Array:
        """Give about how much users' gradients change if they stop by the way and others do not.

        At rest nothing moves: a gradient that is small in the midst of a swing is not rest.
        """
        own = float(users.loss.smoothness) * users.distance.largest * users.total_weights
        return np.asarray(self.rho * self.consensus_factor * degree + own)

    @property
    def _plain(self) -> DGC:
        return DGC(self.rho, self.alpha, self.B, self.consensus_factor)
