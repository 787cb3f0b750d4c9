"""The certificate of a clustering, computed by the users themselves: nobody sees all centers.

1. One exchange of centers x. Each user i computes its gradient g_i of J_rho, its cost, and weight
   and curvature of its rows in each cluster.
2. A sum over the network (see `consensus`) of centers, weights and curvatures. All users then know
   the mean centers and the mean curvatures, from which the stiffness of their own centers follows
   (`theory.Curvature`).
3. Each user computes its part of the penalty, c/2 <x_i - mean, sum_j [x_i - x_j]>, and the gradient
   of its local cost, and the cost, at the mean centers; the network sums all of it. All users then
   know J_rho, and the gradient and the cost of the pooled problem.
4. A maximum: of rho ||g_i|| / stiffness, and of the distance of each center from the mean one.

What leaves a user: its centers, and the order of magnitude of what it sums, to its neighbors; and
to its parent in the tree the sums over its subtree, of cost, weights, curvatures, and of gradient
and cost at the mean centers. For a leaf of the tree the subtree is the user itself. From these its
parent could infer means of its rows near each center, as it can from the moments of scaling.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from peerclust import theory
from peerclust.arrays import Array
from peerclust.programs.fixed_point import FixedPoint, order_of_magnitude
from peerclust.programs.limits import Limits, claims, largest_cost, largest_curvature
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    HeardSum,
    HeardTotal,
    Message,
    NeighborSum,
    NetworkMax,
    State,
)
from peerclust.theory import Curvature
from peerclust.users import Users


@dataclass(frozen=True, eq=False, kw_only=True)
class CertifyState(State):
    """The users' centers x, what is summed or compared, (u, w), and what was found so far.

    `bound` is that of a sum, and `limits` are those of a user's values. Each user's own are
    `curvature`, (u, K), the norms of its gradients of J_rho times rho, `gradient`, (u, K),
    sum_j [x_i - x_j], `difference`, and its local `cost`. `totals` and `pooled`, (w,), are the two
    sums, and `maxima` the last maximum, the same for all users.
    """

    values: Array = field(default_factory=partial(np.empty, (0, 0)))
    limits: Limits | None = None
    bound: Array = field(default_factory=partial(np.empty, 0))
    curvature: Array = field(default_factory=partial(np.empty, (0, 0)))
    gradient: Array = field(default_factory=partial(np.empty, (0, 0)))
    difference: Array = field(default_factory=partial(np.empty, (0, 0, 0)))
    cost: Array = field(default_factory=partial(np.empty, 0))
    totals: Array = field(default_factory=partial(np.empty, 0))
    pooled: Array = field(default_factory=partial(np.empty, 0))
    maxima: Array = field(default_factory=partial(np.empty, 0))


class _Totals(NamedTuple):
    """The number of users, and of `Found` weights, curvature and mean."""

    present: float
    weights: Array
    curvature: Curvature
    mean: Array


@dataclass(frozen=True, eq=False)
class Found:
    """The numbers of a certificate; lengths are in the units of the rows.

    Attributes
    ----------
    residual : float
        The largest rho ||grad_ik J_rho|| / stiffness of a user and center, a length. Without a rho,
        the larger of the pooled residual and twice the largest radius.
    pooled_residual : float
        The largest norm of the pooled gradient in a center over the sum of all curvatures there.
    cost : float
        J_rho, or the sum of the users' costs if there is no rho.
    pooled_cost : float
        The cost of all rows at the mean centers.
    radius : (K,) array
        The largest distance of a user's center from the mean one.
    radius_stacked : float
        The largest ||x_i - mean||.
    weights : (K,) array
        The weight of all rows in each cluster; 0 if it is empty.
    curvature, evenness : (K,) arrays
        The mean over users of their curvatures, Hm, and how even they are (`theory.Curvature`).
    mean : (K, d) array
        The mean centers.
    """

    residual: float
    pooled_residual: float
    cost: float
    pooled_cost: float
    radius: Array
    radius_stacked: float
    weights: Array
    curvature: Array
    evenness: Array
    mean: Array

    @property
    def disagreement(self) -> float:
        """An upper bound on the mean over k of the largest ||x_i(k) - x_j(k)||.

        By the triangle inequality: the distance from one user's center to the mean plus the
        distance from the mean to another's.
        """
        return 2.0 * float(self.radius.mean())


@dataclass(frozen=True)
class Certify:
    """Compute the certificate of the users' centers.

    Parameters
    ----------
    m : int
        The number of users, or an upper bound on it.
    rho, c : float
        The parameters of J_rho; without rho there is no penalty.
    lambda_2 : float
        The second smallest eigenvalue of the graph's Laplacian, or a lower bound on it.

    Examples
    --------
    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator, run_program
    >>> users, graph = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2])), path(2)
    >>> program = Certify(m=2, rho=1.0, c=1.0, lambda_2=2.0)
    >>> x = np.array([[[0.5]], [[1.5]]])
    >>> run = run_program(Simulator(graph), program, users, x, rounds=program.rounds)
    >>> found = program.read(run.states[0])
    >>> found.cost, found.pooled_cost, found.residual, found.radius.tolist()
    (0.75, 1.0, 0.5, [0.5])
    """

    m: int
    rho: float | None = None
    c: float = 1.0
    lambda_2: float = 0.0

    @property
    def penalty_curvature(self) -> float | None:
        """The least curvature of the penalty where users' centers differ: rho c lambda_2(L)."""
        return None if self.rho is None else self.rho * self.c * self.lambda_2

    @property
    def rounds(self) -> int:
        """The number of rounds: one exchange, two sums with their bounds, one maximum."""
        return 6

    def start(self, users: Users, x: Array) -> CertifyState:  # noqa: ARG002
        """Start at the centers x, (u, K, d)."""
        return CertifyState(x=x)

    def say(self, state: CertifyState) -> Message[Heard]:
        """Send the centers to the neighbors; then bounds, sums and results to all."""
        if state.round == 0:
            return NeighborSum(state.x)
        if state.round in (2, 4):
            return self._numbers(state).message(state.values, state.limits)
        limits = state.limits and state.limits.magnitudes()
        last = state.round == 5
        return NetworkMax(state.values if last else order_of_magnitude(state.values), limits)

    def hear(
        self, users: Users, state: CertifyState, heard: HeardSum | HeardMax | HeardTotal
    ) -> CertifyState:
        """Compute what is summed next from what was heard."""
        if isinstance(heard, HeardSum):
            state = self._evaluate(users, state, heard)
        elif isinstance(heard, HeardMax):
            last = state.round == 5
            state = replace(state, maxima=heard.v) if last else replace(state, bound=heard.v)
        else:
            total = self._numbers(state).decode(heard.v)
            state = (
                self._evaluate_at_mean(users, replace(state, totals=total))
                if state.round == 2
                else self._compare(users, replace(state, pooled=total))
            )
        # A single user's sums need no bounds.
        skipped = self.m == 1 and state.round in (0, 2)
        return replace(state, round=state.round + 1 + skipped)

    def read(self, state: CertifyState) -> Found:
        """Return the numbers that the users computed."""
        first = self._read_totals(state)
        residual, stacked, *radius = state.maxima
        gradient, (pooled_cost, cost) = state.pooled[:-2], state.pooled[-2:]
        gradient = gradient.reshape(first.mean.shape)
        total = first.present * first.curvature.mean
        pooled = float((np.linalg.norm(gradient, axis=1) / theory.replace_zeros(total)).max())
        found = Found(
            residual=float(residual),
            pooled_residual=pooled,
            cost=float(cost),
            pooled_cost=float(pooled_cost),
            radius=np.array(radius),
            radius_stacked=float(stacked),
            weights=first.weights,
            curvature=first.curvature.mean,
            evenness=first.curvature.evenness,
            mean=first.mean,
        )
        if self.rho is None:
            found = replace(found, residual=max(pooled, 2.0 * float(found.radius.max())))
        return found

    def _numbers(self, state: CertifyState) -> FixedPoint:
        return FixedPoint.for_bound(state.bound, self.m)

    def _read_totals(self, state: CertifyState) -> _Totals:
        """Return what the users know from the first sum."""
        K, present = state.x.shape[1], float(state.totals[0])
        weights, H, squares = state.totals[1 : 1 + 3 * K].reshape(3, K)
        curvature = Curvature.of(state.curvature, H / present, squares / present)
        mean = (state.totals[1 + 3 * K :] / present).reshape(state.x.shape[1:])
        return _Totals(present, weights, curvature, mean)

    def _evaluate(self, users: Users, state: CertifyState, heard: HeardSum) -> CertifyState:
        """Store each user's gradients and cost; sum weights, curvatures and centers next."""
        x, (u, K) = state.x, state.x.shape[:2]
        assignment = users.assign(x)
        difference = heard.degree * x - heard.total
        gradient = users.gradient(assignment, x)
        if self.rho is not None:
            gradient = gradient + self.rho * self.c * difference
        weights, H = users.label_weights(assignment, K), users.local_curvature(assignment, x)
        return replace(
            state,
            values=np.column_stack([np.ones(u), weights, H, H * H, x.reshape(u, -1)]),
            limits=_first_limits(users, K),
            gradient=np.linalg.norm(gradient, axis=2),
            difference=difference,
            cost=users.cost(assignment, x),
            curvature=H,
            assignment=assignment,
        )

    def _evaluate_at_mean(self, users: Users, state: CertifyState) -> CertifyState:
        """Store the stiffness; sum costs, and gradients and costs at the mean centers, next."""
        _, _, curvature, mean = self._read_totals(state)
        cost = state.cost
        if self.rho is not None:
            # sum_i <x_i, (L x)_i> is the same for x minus any common point. Far from the origin
            # it would cancel without that.
            part = ((state.x - mean) * state.difference).sum(axis=2).sum(axis=1)
            cost = cost / self.rho + 0.5 * self.c * part
        everywhere = users.broadcast_centers(mean)
        assignment, cost_at_mean = state.assignment, state.cost
        assert assignment is not None
        if not np.array_equal(everywhere, state.x):
            assignment = users.assign(everywhere, assignment)
            cost_at_mean = users.cost(assignment, everywhere)
        gradient = users.gradient(assignment, assignment.x).reshape(users.m, -1)
        return replace(
            state,
            stiffness=curvature.stiffness(self.penalty_curvature),
            values=np.column_stack([gradient, cost_at_mean, cost]),
            limits=self._second_limits(users, len(mean)),
        )

    def _second_limits(self, users: Users, K: int) -> Limits | None:
        """Return the limits of gradients and cost at the mean centers, and of a part of J_rho."""
        if (bounds := claims(users)) is None:
            return None
        g, cost = largest_curvature(users, bounds) * bounds.reach, largest_cost(users, bounds)
        # The penalty: the mean and at most m - 1 neighbors are as far away as can be.
        rho, part = self.rho or 1.0, 0.5 * self.c * self.m * K * bounds.center_reach**2
        return Limits.of(
            ("gradient", K * users.d, -g, g),
            ("cost", 1, 0.0, cost),
            ("part of the cost", 1, -part, cost / rho + part),
        )

    def _compare(self, users: Users, state: CertifyState) -> CertifyState:
        """Compute each user's residual and its distances from the mean centers."""
        off = state.x - self._read_totals(state).mean
        squares = (off * off).sum(axis=2)
        residual = (state.gradient / state.stiffness).max(axis=1)
        far = np.sqrt(np.column_stack([squares.sum(axis=1), squares]))
        limits, K = None, far.shape[1] - 1
        if (bounds := claims(users)) is not None:
            reach = bounds.center_reach
            most = np.concatenate([[np.sqrt(K)], np.ones(K)]) * reach
            limits = Limits.of(("residual", 1, 0.0, np.inf), ("distance", 1 + K, 0.0, most))
        return replace(state, values=np.column_stack([residual, far]), limits=limits)


def _first_limits(users: Users, K: int) -> Limits | None:
    """Return the limits of a count, weights, curvatures, their squares, and centers."""
    if (bounds := claims(users)) is None:
        return None
    H, (low, high) = largest_curvature(users, bounds), bounds.center_box
    assert bounds.weight is not None
    return Limits.of(
        ("count", 1, 1.0, 1.0),
        ("weight of a cluster", K, 0.0, bounds.weight),
        ("curvature", K, 0.0, H),
        ("square of a curvature", K, 0.0, H * H),
        ("center", K * users.d, np.tile(low, K), np.tile(high, K)),
    )
