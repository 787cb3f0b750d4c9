"""The certificate of a clustering, computed by the users themselves: nobody sees all centers.

1. One exchange of centers x. Each user i computes its gradient g_i of J_rho, its cost, and its part
   of the penalty, c/2 <x_i, sum_j [x_i - x_j]>.
2. An average (see `consensus`) of centers and costs. All users then know the mean centers and the
   cost.
3. Each user computes the gradient of its local cost, and the cost, at the mean centers; the network
   averages both. All users then know the gradient and the cost of the pooled problem.
4. A maximum: of ||g_i||, of the distance of each center from the mean one, and of all averages, so
   that every user holds the same bits.

What leaves a user: its centers, which its neighbors know; its cost; its gradient and its cost at
the mean centers. Neighbors hear the latter in the first exchange of each average. From these they
could infer means of its rows near each center, as they can from the moments of scaling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    HeardSum,
    Message,
    NeighborSum,
    NetworkMax,
    State,
)
from peerclust.users import Users


@dataclass(frozen=True, eq=False, kw_only=True)
class CertifyState(State):
    """The users' centers x, the values being averaged, (u, 1, w), and the results, (u, f)."""

    values: Array
    found: Array


@dataclass(frozen=True, eq=False)
class Found:
    """The numbers of a certificate, in the units of J.

    Attributes
    ----------
    gradient : float
        rho times the largest ||grad_ik J_rho|| of a user and center.
    cost : float
        J_rho, or the sum of the users' costs if there is no rho.
    pooled_cost, pooled_gradient : float
        The cost of all rows at the mean centers, and the largest norm of its gradient in a center.
    radius : (K,) array
        The largest distance of a user's center from the mean one.
    radius_stacked : float
        The largest ||x_i - mean||.
    """

    gradient: float
    cost: float
    pooled_cost: float
    pooled_gradient: float
    radius: Array
    radius_stacked: float


@dataclass(frozen=True)
class Certify:
    """Compute the certificate of the users' centers.

    Parameters
    ----------
    factors : tuple of float
        The averaging factors of the graph (`Graph.averaging_factors`).
    m : int
        The number of users.
    rho, c : float
        The parameters of J_rho; without rho there is no penalty.
    D : int
        The diameter, for peers, which spread the maximum themselves.

    Examples
    --------
    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator, run_program
    >>> users, graph = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2])), path(2)
    >>> program = Certify(graph.averaging_factors, m=2, rho=1.0, c=1.0)
    >>> x = np.array([[[0.5]], [[1.5]]])
    >>> run = run_program(Simulator(graph), program, users, x, rounds=program.rounds)
    >>> found = program.read(run.states[0])
    >>> found.cost, found.pooled_cost, found.gradient, found.radius.tolist()
    (0.75, 1.0, 0.5, [0.5])
    """

    factors: tuple[float, ...]
    m: int
    rho: float | None = None
    c: float = 1.0
    D: int = 0

    @property
    def rounds(self) -> int:
        """The number of rounds: one exchange, two averages, one maximum."""
        return 2 + 2 * len(self.factors)

    def start(self, users: Users, x: Array) -> CertifyState:
        """Start at the centers x, (u, K, d)."""
        u = users.m
        return CertifyState(x=x, values=np.zeros((u, 1, 0)), found=np.zeros((u, 0)))

    def say(self, state: CertifyState) -> Message[Heard]:
        """Send the centers, then the values that are averaged, and finally the results."""
        if state.round == self.rounds - 1:
            return NetworkMax(state.found)
        return NeighborSum(state.x if state.round == 0 else state.values)

    def hear(self, users: Users, state: CertifyState, heard: HeardSum | HeardMax) -> CertifyState:
        """Continue the average, or start what follows it."""
        q = len(self.factors)
        if isinstance(heard, HeardMax):
            found = np.repeat(heard.v[None], users.m, axis=0)
            return replace(state, found=found, round=state.round + 1)
        if state.round == 0:
            state = self._evaluate(users, state, heard)
        else:
            factor = self.factors[(state.round - 1) % q]
            values = state.values - factor * (heard.degree * state.values - heard.total)
            state = replace(state, values=values)
        if state.round == q:
            state = self._evaluate_at_mean(users, state)
        if state.round == 2 * q:
            state = self._finish(state)
        return replace(state, round=state.round + 1)

    def read(self, state: CertifyState) -> Found:
        """Return the numbers that the users computed."""
        values = state.found[0]
        gradient, stacked, cost, pooled_cost, pooled_gradient = values[:5]
        return Found(
            gradient=float(gradient),
            cost=float(cost),
            pooled_cost=float(pooled_cost),
            pooled_gradient=float(pooled_gradient),
            radius=values[5:],
            radius_stacked=float(stacked),
        )

    def _evaluate(self, users: Users, state: CertifyState, heard: HeardSum) -> CertifyState:
        """Store the largest gradients; average centers and costs next."""
        x = state.x
        assignment = users.assign(x)
        disagreement = heard.degree * x - heard.total
        cost, gradient = users.cost(assignment, x), users.gradient(assignment, x)
        if self.rho is not None:
            cost = cost / self.rho + 0.5 * self.c * (x * disagreement).sum(axis=2).sum(axis=1)
            gradient = gradient + self.rho * self.c * disagreement
        values = np.concatenate([x.reshape(users.m, -1), cost[:, None]], axis=1)[:, None]
        largest = np.sqrt((gradient * gradient).sum(axis=2)).max(axis=1)[:, None]
        return replace(state, values=values, found=largest, assignment=assignment)

    def _evaluate_at_mean(self, users: Users, state: CertifyState) -> CertifyState:
        """Store the distances from the mean centers; average gradients and costs there next."""
        x, average = state.x, state.values[:, 0]
        mean = np.ascontiguousarray(average[:, :-1]).reshape(x.shape)
        off = ((x - mean) * (x - mean)).sum(axis=2)
        far = np.sqrt(np.concatenate([off.sum(axis=1)[:, None], off], axis=1))
        cost = self.m * average[:, -1:]
        assignment = users.assign(mean, state.assignment)
        gradient = users.gradient(assignment, mean).reshape(users.m, -1)
        costs = users.cost(assignment, mean)[:, None]
        values = np.concatenate([gradient, costs], axis=1)[:, None]
        return replace(state, values=values, found=np.concatenate([state.found, far, cost], axis=1))

    def _finish(self, state: CertifyState) -> CertifyState:
        total = self.m * state.values[:, 0]
        pooled = total[:, :-1].reshape(state.x.shape)
        largest = np.sqrt((pooled * pooled).sum(axis=2)).max(axis=1)
        gradient, stacked, radius, cost = np.split(state.found, [1, 2, -1], axis=1)
        columns = [gradient, stacked, cost, total[:, -1:], largest[:, None], radius]
        return replace(state, found=np.concatenate(columns, axis=1))
