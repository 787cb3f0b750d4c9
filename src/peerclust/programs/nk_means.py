"""NK-means: networked K-means, gradient descent on J_rho with a step size per user and cluster.

S. Kar and B. Swenson, "Clustering with distributed data", arXiv:1901.00214, 2019, as the footnote
of the DGC paper gives it. Round t assigns each row to the nearest of its user's centers, then

    x_i(k) <- x_i(k) - alpha_i(k) ( 1/rho sum_{r in C_i(k)} (x_i(k) - y_r)
                                    + sum_{j in N_i} [x_i(k) - x_j(k)] ),
    alpha_i(k) = alpha / (|C_i(k)| / rho + |N_i|),
    alpha < min_i |N_i| / (max_i N_i / rho + lambda_max(L)).

It has the fixed points of DGC-F_rho with the K-means loss.

| symbol            | here                                                       |
|-------------------|------------------------------------------------------------|
| rho, alpha        | `rho`, `alpha`                                             |
| x_i(k)            | `state.x[i, k]`                                            |
| C_i(k), its size  | `state.assignment.labels`, `users.curvature`               |
| sum (x - y)       | `users.gradient`                                           |
| sum_j [x_i - x_j] | `heard.degree * x - heard.total`                           |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.protocol import HeardSum, NeighborSum, State
from peerclust.users import Users


@dataclass(frozen=True)
class NKMeans:
    """Networked K-means with penalty rho and step constant alpha.

    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = NKMeans(rho=1.0, alpha=0.5)
    >>> state = program.start(users, np.array([[[0.0]], [[1.0]]]))
    >>> heard = HeardSum(total=np.array([[[1.0]], [[0.0]]]), degree=np.ones((2, 1, 1)))
    >>> program.hear(users, state, heard).x.tolist()
    [[[0.25]], [[1.0]]]
    """

    rho: float
    alpha: float

    def start(self, users: Users, x: Array) -> State:  # noqa: ARG002
        """Start at the centers x, (u, K, d)."""
        return State(x=x)

    def say(self, state: State) -> NeighborSum:
        """Send the centers to the neighbors."""
        return NeighborSum(state.x)

    def hear(self, users: Users, state: State, heard: HeardSum) -> State:
        """Assign, then update the centers."""
        x = state.x
        assignment = users.assign(x, state.assignment)
        gradient = users.gradient(assignment, x) / self.rho + (heard.degree * x - heard.total)
        scale = users.curvature(assignment, x)[..., None] / self.rho + heard.degree
        # A user without neighbors keeps the center of an empty cluster.
        step = np.divide(self.alpha * gradient, scale, out=np.zeros_like(x), where=scale > 0)
        residual = self.rho * np.sqrt((gradient * gradient).sum(axis=2)).max(axis=1)
        return State(x=x - step, assignment=assignment, round=state.round + 1, residual=residual)
