"""DGC-F_rho, Algorithm 1 of the paper: distributed gradient clustering.

Round t assigns each row to the nearest of its user's centers, then updates the centers B times:

    x_i(k) <- x_i(k) - alpha ( 1/rho sum_{r in C_i(k)} w_r grad f(x_i(k), y_r)
                               + c sum_{j in N_i} [x_i(k) - x_j(k)] ),      (eq. grad_local)

which is gradient descent on J_rho(x, C) = 1/rho J(x, C) + c/2 <x, L x>   (eq. distributed-gen).

| symbol             | here                                                          |
|--------------------|---------------------------------------------------------------|
| rho, alpha, B, c   | `rho`, `alpha`, `B`, `consensus_factor`                       |
| x_i(k)             | `state.x[i, k]`                                               |
| C_i(k)             | `users.labels`, set by `users.assign`                         |
| sum w grad f       | `users.gradient_terms`                                        |
| sum_j [x_i - x_j]  | `heard.degree * x - heard.total`                              |
| the update         | `kernels.gradient_step`, `small_gradient_step`: the same bits |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.kernels import buffers
from peerclust.kernels.threads import parallel_for
from peerclust.programs.protocol import HeardSum, NeighborSum
from peerclust.programs.solver_spec import penalized_spec
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class DGCState:
    """The centers of the block's users, and the current round and update."""

    x: Array
    round: int
    update: int
    residual: Array

    def next(self, x: Array, residual: Array, B: int) -> DGCState:
        """Return the state one update later."""
        if self.update + 1 < B:
            return replace(self, x=x, update=self.update + 1, residual=residual)
        return DGCState(x=x, round=self.round + 1, update=0, residual=residual)


@dataclass(frozen=True)
class DGC:
    """Distributed gradient clustering with penalty rho, step size alpha and B updates per round.

    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = DGC(rho=1.0, alpha=0.25)
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

        With the Euclidean distance and a safe step they never do (lm:bdd-fix-pt). A Mahalanobis
        distance rotates the gradient; the condition number of A, 1 for the Euclidean, is a generous
        allowance.
        """
        return condition - 1.0

    def start(self, users: Users, x: Array) -> DGCState:
        """Start at the centers x, (u, K, d)."""
        return DGCState(x=x, round=0, update=0, residual=np.full(users.m, np.inf))

    def say(self, state: DGCState) -> NeighborSum:
        """Send the centers to the neighbors (step 8)."""
        return NeighborSum(state.x)

    def hear(self, users: Users, state: DGCState, heard: HeardSum) -> DGCState:
        """Assign at the start of a round (steps 2-5), then update the centers (step 9)."""
        moved, residual = self.gradient_step(users, state.x, heard, assign=state.update == 0)
        return state.next(moved, residual if state.update == 0 else state.residual, self.B)

    def gradient_step(
        self, users: Users, x: Array, heard: HeardSum, *, assign: bool
    ) -> tuple[Array, Array]:
        """Return the centers after one update, (u, K, d), and the residuals before it, (u,)."""
        if assign:
            users.assign(x)
        moved, size = buffers.empty(x.shape), np.empty(users.m)
        degree = heard.degree.reshape(-1)
        step = float(self.rho), self.alpha, self.consensus_factor
        if self.B == 1 and users.all_small is not None:
            users.all_small.gradient_step(
                x, users.labels, heard.total, degree, *step, out=moved, size=size
            )
        else:
            s0, s1 = users.gradient_terms(x)
            flat = [each.reshape(users.m, -1) for each in (x, s1, heard.total, moved)]

            def loop(first: int, last: int) -> None:
                kernels.gradient_step(
                    flat[0], s0, *flat[1:3], degree, first, last, *step, flat[3], size
                )

            parallel_for(loop, users.m, x.size)
        return moved, self.rho * size


SPEC = penalized_spec("dgc", "Algorithm 1 of the paper: gradient descent on J_rho", DGC)
