"""Accelerated DGC: Algorithm 1 with Nesterov's momentum, which each user restarts by itself.

With g the gradient of J_rho at the centers y that users send to their neighbors (see `dgc`),

    x+ = y - alpha g,    y+ = x+ + (t - 1) / t+ (x+ - x),    t+ = (1 + sqrt(1 + 4 t^2)) / 2,

where alpha is one for all, or each user and center has its own,

    alpha_i(k) = 1 / (H_i(k) / rho + 2 c |N_i|).                                        (default)

H_i(k) bounds the curvature that user i's cost has where its centers are (`users.curvature`). J_rho
lies below the quadratic with these curvatures that touches it at y, as ||u - v||^2 <= 2 ||u||^2 +
2 ||v||^2 for every link; so the step needs no knowledge of other users or of the whole graph.

t starts at 1 (Y. Nesterov, "A method of solving a convex programming problem with convergence
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
| y - alpha g | `DGC.descend`, from y; alpha is `Step.alpha`, (u, K)    |
| y+          | `extrapolate`                                           |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from peerclust import kernels
from peerclust.arrays import Array
from peerclust.kernels import buffers
from peerclust.kernels.threads import parallel_for
from peerclust.programs.dgc import DGC
from peerclust.programs.protocol import HeardSum, NeighborSum, State
from peerclust.programs.solver_spec import penalized_spec
from peerclust.users import Users


@dataclass(frozen=True, eq=False, kw_only=True)
class AcceleratedState(State):
    """The centers of the block's users, where their last steps ended, and their momentum."""

    stepped: Array
    t: Array


@dataclass(frozen=True)
class Accelerated:
    """DGC with momentum: penalty rho, step size alpha and B updates per round.

    With an alpha of 0, the default, each user and center has a step size of its own.

    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = Accelerated(rho=1.0, alpha=0.25)
    >>> state = program.start(users, np.array([[[0.0]], [[1.0]]]))
    >>> heard = HeardSum(total=np.array([[[1.0]], [[0.0]]]), degree=np.ones((2, 1, 1)))
    >>> program.hear(users, state, heard).x.tolist()
    [[[0.25]], [[1.0]]]
    """

    rho: float
    alpha: float = 0.0
    B: int = 1
    consensus_factor: float = 1.0

    def start(self, users: Users, x: Array) -> AcceleratedState:  # noqa: ARG002
        """Start at the centers x, (u, K, d), without momentum."""
        ones = np.ones(x.shape[:2])
        return AcceleratedState(x=x, stepped=x, t=ones, stiffness=ones)

    def say(self, state: AcceleratedState) -> NeighborSum:
        """Send the centers to the neighbors."""
        return NeighborSum(state.x)

    def hear(self, users: Users, state: AcceleratedState, heard: HeardSum) -> AcceleratedState:
        """Assign at the start of a round, take the gradient step, then extrapolate."""
        assignment, (stepped, residual, alpha) = self._plain.descend(users, state, heard)
        # With momentum a small gradient does not imply a fixed point, so motion counts, too: where
        # the gradient vanishes, a center that oscillates by A moves by A sqrt(alpha h) per step,
        # with h its stiffness over rho.
        h = alpha * state.stiffness / self.rho
        softness = np.divide(1.0, np.sqrt(h), out=np.zeros_like(h), where=h > 0)
        ahead, t, moved = extrapolate(state.x, stepped, state.stepped, state.t, softness)
        if not users.geometry.contains(ahead):
            # Extrapolation may leave the domain of a loss; the gradient step alone stays in it.
            inside = users.geometry.inside(ahead)
            ahead, t = np.where(inside[..., None], ahead, stepped), np.where(inside, t, 1.0)
        first = state.update == 0
        last = state.update + 1 == self.B
        return AcceleratedState(
            x=ahead,
            stepped=stepped,
            t=t,
            assignment=assignment,
            residual=np.maximum(residual, moved) if first else state.residual,
            stiffness=state.stiffness,
            round=state.round + last,
            update=0 if last else state.update + 1,
        )

    @cached_property
    def _plain(self) -> DGC:
        return DGC(self.rho, self.alpha, self.B, self.consensus_factor)


def extrapolate(
    y: Array, stepped: Array, x: Array, t: Array, softness: Array
) -> tuple[Array, Array, Array]:
    """Return y+, t+ and the largest softness(k) ||y+(k) - x+(k)|| of a user, (u,); x+ is `stepped`.

    >>> y, stepped, x = np.array([[[4.0]]]), np.array([[[3.0]]]), np.array([[[5.0]]])
    >>> extrapolate(y, stepped, x, np.array([[2.0]]), np.ones((1, 1)))[0].round(4).tolist()
    [[[2.2192]]]
    """
    ahead, t_next, moved = buffers.empty(y.shape), np.empty_like(t), np.empty(len(y))
    into = ahead, t_next, moved
    parallel_for(kernels.nesterov_extrapolate, len(y), y.size, y, stepped, x, t, softness, *into)
    return ahead, t_next, moved


SPEC = penalized_spec(
    "accelerated",
    "gradient descent on J_rho with momentum",
    Accelerated,
    own_steps=True,
)
