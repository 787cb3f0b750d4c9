"""The paper's theory as functions: smoothness, safe step sizes, bounds on rho, penalties.

Each function names its equation. Where the paper's constants assume weights that sum to 1, the
general form is given: W is the largest total weight of a user.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from peerclust.arrays import Array
from peerclust.distances import Distance
from peerclust.losses import Loss

# If the deviation is below this fraction of the mean's size, it is rounding and the feature is
# constant.
CONSTANT = 1e-12

# alpha="auto" is this fraction of the upper bound on alpha in lm:decr.
SAFETY = 0.99

# rho="auto" of a penalized solver is found in pilot runs (`clustering.auto_rho`). They start at
# `initial_rho`, multiply rho by at most LARGEST_STEP at a time, and aim at a disagreement of
# AIMED_DISAGREEMENT of the joint data's RMS spread. `group-lasso` has a formula, `group_lasso_rho`.
AIMED_DISAGREEMENT = 0.01
LARGEST_STEP = 10.0


def smoothness(loss: Loss, distance: Distance) -> float:
    """Return beta of the loss under the distance: Mahalanobis multiplies it by lambda_max(A).

    >>> from peerclust import Huber, Mahalanobis
    >>> smoothness(Huber(1.0), Mahalanobis([[4.0, 0.0], [0.0, 1.0]]))
    4.0
    """
    return float(loss.smoothness) * distance.largest


@dataclass(frozen=True)
class Scales:
    """The scales of the joint data, by which solvers are tuned.

    Attributes
    ----------
    W, W_total : float
        The largest total weight of a user, and the total weight of all users.
    beta : float
        The smoothness of the loss under the distance.
    spread : float
        s, the RMS distance of the joint rows from their mean; the unit of residuals.
    """

    W: float
    W_total: float
    beta: float
    spread: float


class Curvature(NamedTuple):
    """The curvature of the users' costs in each center.

    Attributes
    ----------
    own : (u, K) array
        That of the users of a block.
    mean : (K,) array
        The mean over all users, Hm.
    evenness : (K,) array
        Hm^2 over the mean of the squares: 1 if all users have the same, 1/m if one has it all.
    """

    own: Array
    mean: Array
    evenness: Array

    @classmethod
    def of(cls, own: Array, mean: Array, squares: Array) -> Curvature:
        """Return the curvature from users' own and from the means of all, and of their squares.

        >>> Curvature.of(np.array([[4.0]]), np.array([2.0]), np.array([8.0])).evenness.tolist()
        [0.5]
        """
        # Squares may underflow.
        even = np.divide(mean * mean, squares, out=np.ones_like(mean), where=squares > 0)
        return cls(own, mean, np.minimum(even, 1.0))

    def stiffness(self, penalty_curvature: float | None) -> Array:
        """Return the curvatures, (u, K), by which the gradients of centers become lengths.

        For solvers that minimize J_rho, `penalty_curvature` is rho c lambda_2(L), the least
        curvature of the penalty where users' centers differ. With H the users' own curvatures and f
        their evenness:

            min(Hm(k), H_i(k) + f(k) rho c lambda_2).

        A displacement of all users alike meets Hm; one of user i against the others meets its own
        curvature and the penalty's. Where few users have all the curvature, the others may move
        together against these, which meets less of the penalty; f accounts for that. Solvers that
        end in consensus have no penalty and take Hm. Of a cluster without curvature only the second
        term is left, or the largest Hm. docs/theory.md derives it.

        >>> even = np.ones(1)
        >>> Curvature(np.array([[0.0], [8.0]]), np.array([4.0]), even).stiffness(1.0).tolist()
        [[1.0], [4.0]]
        """
        if penalty_curvature is None:
            return np.asarray(np.broadcast_to(replace_zeros(self.mean), self.own.shape))
        own = self.own + self.evenness * penalty_curvature
        return replace_zeros(np.where(self.mean > 0, np.minimum(self.mean, own), own))


def replace_zeros(values: Array) -> Array:
    """Return nonnegative values with the largest of them in place of zeros, or 1 if all are 0.

    >>> replace_zeros(np.array([0.0, 4.0])).tolist(), replace_zeros(np.zeros(1)).tolist()
    ([4.0, 4.0], [1.0])
    """
    return np.where(values > 0, values, values.max(initial=0.0) or 1.0)


def gradient_smoothness(
    *, beta: float, W: float, rho: float, lambda_max: float, c: float = 1.0
) -> float:
    """Return beta W / rho + c lambda_max(L), the smoothness of J_rho (lm:J_rho-co-coerc).

    >>> gradient_smoothness(beta=1.0, W=15.0, rho=10.0, lambda_max=4.0)
    5.5
    """
    return beta * W / rho + c * lambda_max


def safe_step(*, beta: float, W: float, rho: float, lambda_max: float, c: float = 1.0) -> float:
    """Return alpha="auto": 0.99 / (beta W / rho + c lambda_max(L)), within thm:convergence.

    >>> round(safe_step(beta=1.0, W=15.0, rho=10.0, lambda_max=4.0), 6)
    0.18
    """
    bound = gradient_smoothness(beta=beta, W=W, rho=rho, lambda_max=lambda_max, c=c)
    # The bound is 0 only for users without rows and without neighbors, which nothing moves.
    return SAFETY / bound if bound > 0 else 1.0


def paper_step(*, m: int, largest: int, rho: float, lambda_max: float) -> float:
    """Return alpha="paper": 1 / (2 m |D_max| / rho + lambda_max(L) + 1), as in the experiments.

    `largest` is the number of rows of the largest user. The step is not within the safe bound for
    every loss: the fair loss with m = 2 is a counterexample.

    >>> round(paper_step(m=10, largest=15, rho=10.0, lambda_max=4.0), 6)
    0.028571
    """
    return 1.0 / (2.0 * m * largest / rho + lambda_max + 1.0)


def compute_c(consensus_factor: float | str, rho: float) -> float:
    """Return the number c of a consensus factor: itself, or 1 - 1/rho (the paper's remark).

    >>> compute_c("1-1/rho", 10.0)
    0.9
    """
    return 1.0 - 1.0 / rho if isinstance(consensus_factor, str) else float(consensus_factor)


def rho_for_gradient(*, eps: float, beta: float, radius: float, W_total: float = 1.0) -> float:
    """Return rho_0 = 2 beta R_0 W / eps, beyond which ||L x_rho|| <= eps at a fixed point.

    R_0 is the largest norm of a row or a start, a maximum over users. This is the appendix's bound
    with its inverted fraction corrected.

    >>> rho_for_gradient(eps=0.1, beta=1.0, radius=5.0)
    100.0
    """
    return 2.0 * beta * radius * W_total / eps


def disagreement_bound(
    *, rho: float, beta: float, radius: float, W_total: float, lambda_2: float
) -> float:
    """Return 2 beta R_0 W_total / (rho lambda_2(L)), a bound on ||x - mean x|| at a fixed point.

    The bound holds, but is usually far too large to choose rho by; `scale_rho` is a better guide.

    >>> disagreement_bound(rho=100.0, beta=1.0, radius=5.0, W_total=1.0, lambda_2=2.0)
    0.05
    """
    return 2.0 * beta * radius * W_total / (rho * lambda_2)


def solve_for_rho(rho_c: float, consensus_factor: float | str) -> float:
    """Return the rho for which rho c, the weight of consensus against the rows, is `rho_c`.

    For c = 1 - 1/rho, rho c is rho - 1.

    >>> solve_for_rho(30.0, 1.0), solve_for_rho(30.0, 0.5), solve_for_rho(30.0, "1-1/rho")
    (30.0, 60.0, 31.0)
    """
    return rho_c + 1.0 if isinstance(consensus_factor, str) else rho_c / consensus_factor


def initial_rho(
    *, curvature: float, lambda_max: float, consensus_factor: float | str = 1.0
) -> float:
    """Return the small rho at which rho="auto" starts: H / rho = c lambda_max(L).

    H is a curvature that users' costs have where their centers are. At this rho a user's rows and
    its neighbors have equal weight, and a few dozen rounds are enough.

    >>> initial_rho(curvature=16.0, lambda_max=4.0)
    4.0
    """
    return solve_for_rho(curvature / lambda_max, consensus_factor) if lambda_max > 0 else 1.0


def scale_rho(rho: float, by: float, consensus_factor: float | str = 1.0) -> float:
    """Return the rho for which rho c is `by` times as large.

    Disagreement falls like 1 / (rho c) (thm:cons-conv), so this divides it by `by`.

    >>> scale_rho(30.0, 2.0)
    60.0
    """
    return solve_for_rho(by * rho * compute_c(consensus_factor, rho), consensus_factor)


def admm_penalty(*, curvature: Array, lambda_2: float, lambda_max: float) -> Array:
    """Return the initial penalties c of `admm`, (K,): 0.8 H / sqrt(lambda_2(L) lambda_max(L)).

    H, (K,), are the means over users of the curvatures of their costs in each center; an empty
    cluster takes the largest. For quadratic costs of one curvature on a regular graph the best
    penalty is a constant times this (E. Ghadimi, A. Teixeira, I. Shames and M. Johansson, "Optimal
    parameter selection for the alternating direction method of multipliers: quadratic problems",
    IEEE Transactions on Automatic Control 60, 2015); the constant 0.8 is ours.

    >>> admm_penalty(curvature=np.array([5.0]), lambda_2=1.0, lambda_max=4.0).tolist()
    [2.0]
    """
    # Without neighbors the penalty has no effect.
    factor = 0.8 / sqrt(lambda_2 * lambda_max) if lambda_2 > 0 else 1.0
    return np.asarray(factor * replace_zeros(curvature))


def group_lasso_rho(*, beta: float, W_total: float, spread: float) -> float:
    """Return a rho of `group-lasso` that gives consensus on most data: beta W_total s.

    The multiplier of a link balances at most the gradient of the rows on one side of it. The
    gradients of rows that lie within a spread s of their center, on average, sum to at most that.

    >>> group_lasso_rho(beta=1.0, W_total=150.0, spread=2.0)
    300.0
    """
    return beta * W_total * spread


def nonzero_spread(spread: float, mean: Array) -> float:
    """Return the spread of rows with this mean, or a substitute if it is 0.

    >>> import numpy as np
    >>> nonzero_spread(2.0, np.array([5.0])), nonzero_spread(0.0, np.array([5.0]))
    (2.0, 5.0)
    """
    # The spread of equal rows is only rounding; their size serves as the unit instead.
    size = float(np.abs(mean).max())
    return spread if spread > CONSTANT * size else size or 1.0
