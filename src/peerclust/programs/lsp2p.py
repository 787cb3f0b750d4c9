"""LSP2P K-means: each user's next centers are the averages of its own and its neighbors' clusters.

S. Datta, C. Giannella and H. Kargupta, "Approximate distributed K-means clustering over a
peer-to-peer network", IEEE Transactions on Knowledge and Data Engineering 21(10), 2009, on a graph
that does not change, in lockstep, and with all neighbors. Round t assigns each row to the nearest
of its user's centers, then

    x_i(k) <- sum_j S1_j(k) / sum_j S0_j(k),    j over i and its neighbors N_i,

with S0_j(k) and S1_j(k) the number and the sum of the rows of C_j(k). This is the average of the
clusters' means, weighted by their counts. A center whose counts are all 0 stays. On a complete
graph and from a common start this is Lloyd's algorithm on all rows. For another loss S0 is a bound
on the curvature (`users.curvature`), and the step is a majorized one.

| symbol        | here                                                           |
|---------------|----------------------------------------------------------------|
| x_i(k)        | `state.x[i, k]`                                                |
| C_i(k)        | `state.assignment.labels`                                      |
| S0_i(k)       | `users.curvature`, stored in `state.sums[i, k, -1]`            |
| S1_i(k)       | S0 x - `users.gradient`, stored in `state.sums[i, k, :-1]`     |
| sum_j         | `state.sums + heard.total`                                     |

The users stop by the rule that all programs share (see `runtimes.stopping`), not by the paper's
bound on how far a user's centers moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.protocol import HeardSum, NeighborSum, State
from peerclust.users import Assignment, Users


@dataclass(frozen=True, eq=False, kw_only=True)
class LSP2PState(State):
    """The centers of the block's users, and the sums S1 and S0 at them, (u, K, d + 1)."""

    sums: Array


@dataclass(frozen=True)
class LSP2P:
    """Locally synchronized K-means; it has no parameters.

    >>> users = Users(np.array([[0.0], [2.0], [10.0]]), np.array([0, 2, 3]))
    >>> program = LSP2P()
    >>> state = program.start(users, np.array([[[0.0], [9.0]], [[0.0], [9.0]]]))
    >>> said = program.say(state).x
    >>> said.tolist()
    [[[2.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [10.0, 1.0]]]
    >>> program.hear(users, state, HeardSum(said[::-1], np.ones((2, 1, 1)))).x.tolist()
    [[[1.0], [10.0]], [[1.0], [10.0]]]
    """

    def start(self, users: Users, x: Array) -> LSP2PState:
        """Start at the centers x, (u, K, d), and assign."""
        assignment = users.assign(x)
        return LSP2PState(x=x, sums=_sums(users, assignment), assignment=assignment)

    def say(self, state: LSP2PState) -> NeighborSum:
        """Send the sum and the number of each cluster's rows to the neighbors."""
        return NeighborSum(state.sums)

    def hear(self, users: Users, state: LSP2PState, heard: HeardSum) -> LSP2PState:
        """Move the centers to the averages, then assign."""
        total = state.sums + heard.total
        S1, S0 = total[..., :-1], total[..., -1:]
        off = S0 * state.x - S1
        x = np.divide(S1, S0, out=state.x.copy(), where=S0 > 0)
        residual = np.sqrt((off * off).sum(axis=2)).max(axis=1)
        assignment = users.assign(x, state.assignment)
        return LSP2PState(
            x=x,
            sums=_sums(users, assignment),
            assignment=assignment,
            round=state.round + 1,
            residual=residual,
        )


def _sums(users: Users, assignment: Assignment) -> Array:
    """Return S1 and S0 at the centers of an assignment, side by side, (u, K, d + 1)."""
    x = assignment.x
    S0 = users.curvature(assignment, x)[..., None]
    return np.concatenate([S0 * x - users.gradient(assignment, x), S0], axis=2)
