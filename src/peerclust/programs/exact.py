"""The pooled step at every user: gradients and curvatures are summed exactly over the network.

All users hold the same centers x. Each computes, of its own rows,

    H_i(k) = a bound on the curvature (`users.curvature`; for K-means the weight of C_i(k)),
    g_i(k) = the gradient of its local cost.

The network sums both (`NetworkSum`), and every user takes the step x(k) <- x(k) - g(k) / H(k) of
the totals. For K-means that is Lloyd's step on all rows. For Huber it minimizes the majorizer that
`admm` describes. With a Mahalanobis distance, g(k) is divided by A and times lambda_max(A), which H
has as a factor: it is the step of rows in the coordinates in which A is the identity. In the first
two rounds users agree on bounds of what they will sum, and average their starts, so that these may
differ; a single user leaves out these rounds.

A round is one sum: twice the height of the graph's breadth-first tree in exchanges. On an
Erdos-Renyi graph of 50 users with p = 0.2 that is 4 or 6 exchanges, on a ring of 10 it is 10.

| symbol    | here                                                              |
|-----------|-------------------------------------------------------------------|
| x         | `state.x[i]`, the same for all i                                  |
| H, g      | `state.sums[..., 0]`, `state.sums[..., 1:]`                       |

**What leaves a user: not only centers.** Its parent in the tree hears the sums of its subtree; for
a leaf, these are its own gradients and curvatures, from which its sums and counts follow. A cluster
in which a leaf has one row reveals that row. Use `admm` where that is not acceptable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from peerclust import theory
from peerclust.arrays import Array
from peerclust.errors import DataError, DivergedError
from peerclust.losses import curvature_ratio
from peerclust.programs.fixed_point import FixedPoint
from peerclust.programs.limits import ROUNDING, Limits, claims, largest_curvature
from peerclust.programs.protocol import (
    UNKNOWN,
    Heard,
    HeardMax,
    HeardTotal,
    Message,
    NetworkMax,
    State,
)
from peerclust.programs.solver_spec import SolverSpec, stays_in_box
from peerclust.users import Users

# Numbers may be this much larger than the last total of the curvatures suggests, and this much
# larger than beta W, before users find that the scale of the integers is too small. Then the scale
# grows by the third factor, and the sum is taken again.
_ROOM = 2.0**8
_MAX_ROOM = 2.0**10
_GROWTH = 2.0**20


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactState(State):
    """The users' centers, what they sum next, (u, K, 1 + d), and the scale of these numbers.

    Attributes
    ----------
    ranges : (1 + 2 d,) array, or (u, 1 + 2 d) before users have agreed on them
        beta times the largest weight of a user, and the maxima of the rows and starts and of their
        negatives. If the box of the rows is public, it is that instead of the rows'.
    largest : (K,) array
        The bound on a user's curvature in each center.
    present : float
        The number of users that take part.
    limits : Limits, optional
        What a user's ranges or sums can be.
    """

    sums: Array
    ranges: Array
    largest: Array
    present: float = 0.0
    limits: Limits | None = None


@dataclass(frozen=True)
class Exact:
    """Lloyd's method, or a majorized one, on all users' rows.

    Parameters
    ----------
    m : int
        The number of users.
    curvature : float, or tuple of K floats
        An estimate of the sum of all users' curvatures in each center; it sets the first scale of
        the integers. The default is what beta and the weights permit.

    Examples
    --------
    >>> from peerclust.graphs import path
    >>> from peerclust.runtimes import Simulator, run_program
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> start = np.array([[[0.0]], [[1.0]]])
    >>> run_program(Simulator(path(2)), Exact(m=2), users, start, rounds=3).x.tolist()
    [[[1.0]], [[1.0]]]
    """

    m: int
    curvature: float | tuple[float, ...] = np.inf

    def start(self, users: Users, x: Array) -> ExactState:
        """Start by averaging the centers x, (u, K, d); a single user has nothing to average."""
        first = ExactState(
            x=x,
            sums=np.concatenate([np.ones((*x.shape[:2], 1)), x], axis=2),
            ranges=_ranges(users, x),
            limits=_range_limits(users),
            largest=np.full(x.shape[1], np.inf),
            residual=np.full(users.m, UNKNOWN),
            stiffness=np.ones(x.shape[:2]),
        )
        if self.m > 1:
            return first
        return self._sum_rows(users, replace(first, ranges=first.ranges[0], present=1.0), x[0])

    def say(self, state: ExactState) -> Message[Heard]:
        """Send the ranges, and then what is summed, to all."""
        # Not in round 0 if peers resume.
        if state.ranges.ndim == 2:
            return NetworkMax(state.ranges, state.limits)
        # The first number counts the users whose numbers do not fit.
        values = np.zeros((len(state.sums), 1 + state.sums[0].size))
        values[:, 1:] = state.sums.reshape(len(values), -1)
        numbers = self._numbers(state)
        fits = numbers.fits(values)
        if not fits.all():
            values[~fits] = 0.0
            values[~fits, 0] = 1.0
        return numbers.message(values, state.limits)

    def hear(self, users: Users, state: ExactState, heard: HeardMax | HeardTotal) -> ExactState:
        """Take the step of the totals, then sum the rows again."""
        now = state.round + 1
        if isinstance(heard, HeardMax):
            limits = _center_limits(users, state.x.shape[1])
            return replace(state, ranges=heard.v, limits=limits, round=now)
        total = self._numbers(state).decode(heard.v)
        if total[0] > 0:
            if self._is_widest(state, state.largest):
                raise DivergedError("A gradient is larger than the rows permit: the run diverged.")
            largest = self._limit(state, _GROWTH * state.largest)
            limits = state.limits
            if state.present > 0:
                limits = _sum_limits(users, len(largest), fits=self._is_widest(state, largest))
            return replace(state, largest=largest, limits=limits, round=now)
        total = total[1:].reshape(state.x.shape[1], -1)
        if state.present == 0:
            present = float(total[0, 0])
            state = replace(state, present=present, round=now)
            return self._sum_rows(users, state, total[:, 1:] / present)
        H, gradient = total[:, :1], total[:, 1:]
        length = np.linalg.norm(gradient, axis=1)
        residual = (length / state.present / state.stiffness).max(axis=1)
        # A cluster without rows keeps its center.
        step = users.geometry.precondition(gradient)
        x = state.x[0] - np.divide(step, H, out=np.zeros_like(step), where=H > 0)
        _check_centers(users, x)
        largest = theory.replace_zeros(H[:, 0])
        return self._sum_rows(users, replace(state, residual=residual, round=now), x, largest)

    def _sum_rows(
        self, users: Users, state: ExactState, x: Array, largest: Array | None = None
    ) -> ExactState:
        """Return the state in which all users have the centers x, (K, d), and sum their rows.

        `largest` is about the curvature in each center; by default, what the program began with.
        """
        if largest is None:
            largest = np.broadcast_to(np.asarray(self.curvature), len(x))
        largest = self._limit(state, _ROOM * largest)
        everywhere = users.broadcast_centers(x)
        assignment = users.assign(everywhere, state.assignment)
        H = users.curvature(assignment, everywhere)[..., None]
        return replace(
            state,
            x=everywhere,
            sums=np.concatenate([H, users.gradient(assignment, everywhere)], axis=2),
            largest=largest,
            limits=_sum_limits(users, len(x), fits=self._is_widest(state, largest)),
            assignment=assignment,
        )

    def _limit(self, state: ExactState, largest: Array) -> Array:
        """Return the bound on curvatures, which is at most a multiple of beta W."""
        return np.asarray(np.minimum(largest, _MAX_ROOM * state.ranges[0]))

    def _is_widest(self, state: ExactState, largest: Array) -> bool:
        """Return whether the bound on curvatures is so large that all rows' numbers fit."""
        return bool((largest >= _MAX_ROOM * state.ranges[0]).all())

    def _numbers(self, state: ExactState) -> FixedPoint:
        """Return the integers for a count of users and what is summed in this round."""
        K, d = state.x.shape[1:]
        if self.m == 1:
            return FixedPoint.for_bound(np.empty(0), 1)
        high, low = state.ranges[1 : 1 + d], state.ranges[1 + d :]
        bounds = np.ones(1 + K * (1 + d))
        each = bounds[1:].reshape(K, 1 + d)
        if state.present == 0:
            each[:, 1:] = np.maximum(np.abs(high), np.abs(low))
        else:
            # No row is further from a center than the box is wide.
            each[:, 1:] = math.sqrt(((high + low) ** 2).sum())
            each *= state.largest[:, None]
        return FixedPoint.for_bound(bounds, self.m)


def _ranges(users: Users, x: Array) -> Array:
    """Return each user's beta W, and the maxima of its rows and starts and of their negatives.

    A box that is public takes the place of the rows, so that nothing about these is sent.
    """
    bounds = users.bounds
    low, high = users.ranges if bounds is None else (bounds.low, bounds.high)
    ranges = np.maximum(high, x.max(axis=1)), np.maximum(-low, -x.min(axis=1))
    return np.column_stack([users.smoothness * users.total_weights, *ranges])


def _range_limits(users: Users) -> Limits | None:
    """Return the limits of what `_ranges` returns."""
    if (bounds := claims(users)) is None:
        return None
    low, high = bounds.center_box
    most = np.concatenate([[largest_curvature(users, bounds)], high, -low])
    return Limits.of(("weight", 1, 0.0, most[0]), ("extreme value", 2 * users.d, -np.inf, most[1:]))


def _center_limits(users: Users, K: int) -> Limits | None:
    """Return the limits of what a user sums at first: whether it fits, and a 1 and each center."""
    if (bounds := claims(users)) is None:
        return None
    each = ("count", 1, 0.0, 1.0), ("center", users.d, *bounds.center_box)
    return _with_flag(Limits.of(*each).repeat(K))


def _sum_limits(users: Users, K: int, *, fits: bool) -> Limits | None:
    """Return the limits of what a user sums: whether it fits, and each curvature and gradient.

    `fits` is whether all numbers fit, so that nobody may say otherwise.
    """
    if (bounds := claims(users)) is None:
        return None
    H = curvature_ratio(users.loss) * largest_curvature(users, bounds)
    g = largest_curvature(users, bounds) * bounds.reach
    each = ("curvature", 1, 0.0, H), ("gradient", users.d, -g, g)
    return _with_flag(Limits.of(*each).repeat(K), 0.0 if fits else 1.0)


def _with_flag(limits: Limits, most: float = 1.0) -> Limits:
    low, high = np.concatenate([[0.0], limits.low]), np.concatenate([[most], limits.high])
    return Limits(low, high, ("count of overflows", *limits.names))


def _check_centers(users: Users, x: Array) -> None:
    """Raise if sums moved a center, of x (K, d), to where no mean of rows can be."""
    if (bounds := claims(users)) is None:
        return
    low, high = bounds.center_box
    slack = ROUNDING * np.maximum(np.abs(low), np.abs(high))
    if not ((low - slack <= x) & (x <= high + slack)).all():
        raise DataError(
            "The sums over all sites move a center out of the box of the data: a site reported"
            " wrong numbers. The run cannot continue."
        )


SPEC = SolverSpec(
    name="exact",
    summary="the pooled step at every user, from exact sums of gradients and curvatures",
    make=lambda t: Exact(t.graph.m, curvature=tuple((t.graph.m * t.curvature).tolist())),
    max_overshoot=stays_in_box,
    sends_sums=True,
    full_precision=True,
)
