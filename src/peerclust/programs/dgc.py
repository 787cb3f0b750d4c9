"""DGC-F_rho, Algorithm 1 of the paper: distributed gradient clustering.

Round t assigns each row to the nearest of its user's centers, then updates the centers B times:

    x_i(k) <- x_i(k) - alpha ( 1/rho sum_{r in C_i(k)} w_r grad f(x_i(k), y_r)
                               + c sum_{j in N_i} [x_i(k) - x_j(k)] ),      (eq. grad_local)

which is gradient descent on J_rho(x, C) = 1/rho J(x, C) + c/2 <x, L x>   (eq. distributed-gen).

| symbol             | here                                                          |
|--------------------|---------------------------------------------------------------|
| rho, alpha, B, c   | `rho`, `alpha`, `B`, `consensus_factor`                       |
| x_i(k)             | `state.x[i, k]`                                               |
| C_i(k)             | `state.assignment.labels`                                     |
| sum w grad f       | `users.gradient(assignment, x)`                               |
| sum_j [x_i - x_j]  | `heard.degree * x - heard.total`                              |
| the update         | `users.gradient_step`: both sums and the step, in one loop    |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.protocol import HeardSum, NeighborSum, State
from peerclust.programs.solver_spec import penalized_spec, stays_in_box
from peerclust.users import Assignment, Step, Users


@dataclass(frozen=True)
class DGC:
    """Distributed gradient clustering with penalty rho, step size alpha and B updates per round.

    >>> import numpy as np
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

    def start(self, users: Users, x: Array) -> State:  # noqa: ARG002
        """Start at the centers x, (u, K, d)."""
        return State(x=x, stiffness=np.ones(x.shape[:2]))

    def say(self, state: State) -> NeighborSum:
        """Send the centers to the neighbors (step 8)."""
        return NeighborSum(state.x)

    def hear(self, users: Users, state: State, heard: HeardSum) -> State:
        """Assign at the start of a round (steps 2-5), then update the centers (step 9)."""
        assignment, step = self.descend(users, state, heard)
        last = state.update + 1 == self.B
        return State(
            x=step.x,
            assignment=assignment,
            residual=step.residual if state.update == 0 else state.residual,
            stiffness=state.stiffness,
            round=state.round + last,
            update=0 if last else state.update + 1,
        )

    def descend(self, users: Users, state: State, heard: HeardSum) -> tuple[Assignment, Step]:
        """Return the assignment, and the step that the users take from it."""
        x, assignment = state.x, state.assignment
        if state.update == 0 or assignment is None:
            assignment = users.assign(x, assignment)
        # x - alpha (1/rho sum_{r in C} w_r grad f(x, y_r) + c sum_j [x - x_j])
        return assignment, users.gradient_step(
            assignment,
            x,
            (heard.total, heard.degree),
            (self.rho, self.alpha, self.consensus_factor),
            state.stiffness,
            only=self.B == 1,
        )


SPEC = penalized_spec(
    "dgc", "Algorithm 1 of the paper: gradient descent on J_rho", DGC, max_overshoot=stays_in_box
)
