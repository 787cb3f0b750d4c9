"""How good the users' centers are, found by the users themselves: no onlooker sees them all.

1. One exchange of centers x: each user i finds its gradient g_i of J_rho, its cost, and its share
   of the penalty, c/2 <x_i, sum_j [x_i - x_j]>.
2. An average (see `agree`) of centers and costs: all know the mean centers and the cost.
3. Each user finds its pull and its cost at the mean centers, and the network averages those: all
   know the gradient and the cost of the pooled problem.
4. A maximum: of ||g_i||, of how far each center is from the mean one, and of all averages, so that
   every user holds the same bits.

What leaves a user: its centers, which its neighbors know, its cost, its pull at the mean centers
and its cost there. Neighbors hear the latter in the first exchange of each average, from which they
could conclude on means of its rows near each center, as with `moments`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from peerclust.programs.protocol import HeardMax, HeardSum, NeighborSum, NetworkMax
from peerclust.types import Array
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class CertifyState:
    """The users' centers x, what is being averaged, (u, 1, w), and what each user found, (u, f)."""

    x: Array
    held: Array
    found: Array
    round: int = 0
    update: int = 0

    @property
    def residual(self) -> Array:
        """No residual: a certificate takes as many rounds as it does, always."""
        return np.full(len(self.x), np.inf)


@dataclass(frozen=True, eq=False)
class Found:
    """What all users have found, in the units of J.

    Attributes
    ----------
    gradient : float
        rho times the largest ||grad_ik J_rho|| of a user and center.
    cost : float
        J_rho, or the sum of the users' costs if there is no rho.
    pooled_cost, pooled_gradient : float
        The cost of all rows at the mean centers, and the largest norm of its gradient in a center.
    radius : (K,) array
        How far the farthest user's center is from the mean one.
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
    """Find the certificate of centers.

    Parameters
    ----------
    factors : tuple of float
        Of the graph (`Graph.averaging_factors`).
    m : int
        How many users there are.
    rho, c : float
        Of J_rho; no rho leaves out the penalty.
    D : int
        The diameter, for peers, who spread the maximum themselves.

    Examples
    --------
    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator
    >>> users, graph = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2])), path(2)
    >>> program = Certify(graph.averaging_factors, m=2, rho=1.0, c=1.0)
    >>> x = np.array([[[0.5]], [[1.5]]])
    >>> run = Simulator(graph).run(program, users, x, rounds=program.rounds)
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
        """One exchange, two averages, a maximum."""
        return 2 + 2 * len(self.factors)

    def start(self, users: Users, x: Array) -> CertifyState:
        """Begin at the centers x, (u, K, d)."""
        return CertifyState(x, np.zeros((users.m, 1, 0)), np.zeros((users.m, 0)))

    def say(self, state: CertifyState) -> NeighborSum | NetworkMax:
        """Tell the centers, then what is averaged, in the end what was found."""
        if state.round == 0:
            return NeighborSum(state.x)
        return (
            NetworkMax(state.found) if state.round == self.rounds - 1 else NeighborSum(state.held)
        )

    def hear(self, users: Users, state: CertifyState, heard: HeardSum | HeardMax) -> CertifyState:
        """Go on with the average, or with what follows it."""
        q, x = len(self.factors), state.x
        if isinstance(heard, HeardMax):
            found = np.repeat(heard.v[None], users.m, axis=0)
            return replace(state, found=found, round=state.round + 1)
        if state.round == 0:
            held, found = self._look(users, x, heard)
            state = replace(state, held=held, found=found)
        else:
            factor = self.factors[(state.round - 1) % q]
            held = state.held - factor * (heard.degree * state.held - heard.total)
            state = replace(state, held=held)
        if state.round == q:
            state = self._look_at_mean(users, state)
        if state.round == 2 * q:
            state = self._finish(state)
        return replace(state, round=state.round + 1)

    def read(self, state: CertifyState) -> Found:
        """Give what the users found."""
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

    def _look(self, users: Users, x: Array, heard: HeardSum) -> tuple[Array, Array]:
        users.assign(x)
        apart = heard.degree * x - heard.total
        cost, gradient = users.cost(x), users.gradient(x)
        if self.rho is not None:
            cost = cost / self.rho + 0.5 * self.c * (x * apart).sum(axis=2).sum(axis=1)
            gradient = gradient + self.rho * self.c * apart
        held = np.concatenate([x.reshape(users.m, -1), cost[:, None]], axis=1)[:, None]
        return held, np.sqrt((gradient * gradient).sum(axis=2)).max(axis=1)[:, None]

    def _look_at_mean(self, users: Users, state: CertifyState) -> CertifyState:
        """Keep how far the centers are from the mean ones, and average what users find there."""
        x, average = state.x, state.held[:, 0]
        mean = np.ascontiguousarray(average[:, :-1]).reshape(x.shape)
        off = ((x - mean) * (x - mean)).sum(axis=2)
        far = np.sqrt(np.concatenate([off.sum(axis=1)[:, None], off], axis=1))
        cost = self.m * average[:, -1:]
        users.assign(mean)
        pull = users.gradient(mean).reshape(users.m, -1)
        held = np.concatenate([pull, users.cost(mean)[:, None]], axis=1)[:, None]
        return replace(state, held=held, found=np.concatenate([state.found, far, cost], axis=1))

    def _finish(self, state: CertifyState) -> CertifyState:
        average = self.m * state.held[:, 0]
        pull = average[:, :-1].reshape(state.x.shape)
        steep = np.sqrt((pull * pull).sum(axis=2)).max(axis=1)
        gradient, stacked, radius, cost = np.split(state.found, [1, 2, -1], axis=1)
        columns = [gradient, stacked, cost, average[:, -1:], steep[:, None], radius]
        return replace(state, found=np.concatenate(columns, axis=1))
