"""Exact consensus at a finite rho: the group-lasso penalty, by a primal-dual method.

The squares in J_rho leave the users' centers different at every finite rho. A norm does not:

    minimize  1/rho sum_i J_i(x_i) + sum over links {i, j} and centers k of ||x_i(k) - x_j(k)||

has, from some finite rho on, solutions in which all users agree, and these are the stationary
points of the pooled problem. Below that rho some users keep centers of their own. The paper names
this penalty as future work; D. Hallac, J. Leskovec and S. Boyd, "Network Lasso: Clustering and
Optimization in Large Graphs", KDD 2015, study it. With a multiplier p_ij = -p_ji for each link, in
the units of J, and g_i the gradient of J_i,

    p_ij(k) <- the point nearest to p_ij(k) + c [x_i(k) - x_j(k)] in the ball of radius rho,
    x_i     <- x_i - (g_i + sum_j [2 p_ij - last p_ij]) / (H_i + 2 c |N_i|).

This is the primal-dual method of L. Condat, "A primal-dual splitting method for convex
optimization", Journal of Optimization Theory and Applications 158, 2013, and B. Vu, "A splitting
algorithm for dual monotone inclusions", Advances in Computational Mathematics 38, 2013. Each user
and center has its own step size (T. Pock and A. Chambolle, ICCV 2011), and H_i is the curvature of
the majorizer that `admm` describes. Both updates are over-relaxed by the factor a. With an infinite
rho and starts that agree it is `admm` with a fixed penalty.

| symbol   | here                                                          |
|----------|---------------------------------------------------------------|
| rho, c   | `rho`, `c`                                                    |
| x_i      | `state.x[i]`, (K, d)                                          |
| p_ij     | `state.p`, (links, K, d), links in the order of `HeardValues` |
| x_j      | `heard.values`                                                |
| H, g     | `users.curvature`, `users.gradient`                           |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from peerclust import theory
from peerclust.arrays import Array
from peerclust.programs import relabeling
from peerclust.programs.protocol import UNKNOWN, HeardValues, NeighborValues, State
from peerclust.programs.relabeling import RelabelSchedule
from peerclust.programs.solver_spec import RhoFormula, SolverSpec, Tuning
from peerclust.users import Users


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupLassoState(State):
    """Centers of the block's users, multipliers of their links, and when rows are assigned.

    `p` is None until the first messages arrive, as only they show how many links there are.
    """

    by_link: ClassVar[tuple[str, ...]] = ("p",)

    p: Array | None
    relabel_schedule: RelabelSchedule


@dataclass(frozen=True)
class GroupLasso:
    """The group-lasso penalty with weight rho, and the step size c of the multipliers.

    c is one number for all centers, or one for each. As for `admm`, convergence is proved for fixed
    labels only.

    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = GroupLasso(rho=10.0, c=0.5)
    >>> state = program.start(users, np.array([[[0.0]], [[2.0]]]))
    >>> near, offsets = np.array([[[2.0]], [[0.0]]]), np.array([0, 1, 2])
    >>> heard = HeardValues(near, np.ones((2, 1, 1)), values=near, offsets=offsets)
    >>> program.hear(users, state, heard).p.ravel().tolist()
    [-1.5, 1.5]
    """

    rho: float
    c: float | tuple[float, ...]
    relaxation: float = 1.5
    backoff: float = 0.5
    disagreement_weight: float = 1.0

    def start(self, users: Users, x: Array) -> GroupLassoState:  # noqa: ARG002
        """Start at the centers x, (u, K, d), with multipliers of zero."""
        stiffness = np.ones(x.shape[:2])
        schedule = relabeling.start(len(x))
        return GroupLassoState(x=x, p=None, relabel_schedule=schedule, stiffness=stiffness)

    def say(self, state: GroupLassoState) -> NeighborValues:
        """Send the centers to the neighbors."""
        return NeighborValues(state.x)

    def hear(self, users: Users, state: GroupLassoState, heard: HeardValues) -> GroupLassoState:
        """Update the multipliers, assign, then update the centers."""
        x, near, offsets, a = state.x, heard.values, heard.offsets, self.relaxation
        before = state.p
        if before is None or len(before) != len(near):
            before = np.zeros_like(near)
        c = np.asarray(self.c)[..., None]
        p = before + c * (np.repeat(x, np.diff(offsets), axis=0) - near)
        size = np.sqrt((p * p).sum(axis=2, keepdims=True))
        p *= np.divide(self.rho, size, out=np.ones_like(size), where=size > self.rho)
        assignment, schedule = relabeling.assign(users, state, state.relabel_schedule, self.backoff)
        stiff = users.curvature(assignment, x)[..., None] + 2.0 * c * heard.degree
        balance, motion = _by_user(p, offsets), _by_user(p - before, offsets)
        local = users.gradient(assignment, x) + balance
        step = np.divide(local + motion, stiff, out=np.zeros_like(x), where=stiff > 0)
        # motion / c is the change of the projected multipliers, in the units of the centers.
        off = self.disagreement_weight * np.linalg.norm(motion, axis=2) / np.asarray(self.c)
        far = np.maximum(np.linalg.norm(local, axis=2) / state.stiffness, off).max(axis=1)
        return GroupLassoState(
            x=x - a * step,
            p=before + a * (p - before),
            relabel_schedule=schedule,
            assignment=assignment,
            round=state.round + 1,
            residual=np.where(schedule.changed, UNKNOWN, far),
            stiffness=state.stiffness,
        )


def _by_user(links: Array, offsets: NDArray[np.int64]) -> Array:
    """Return the sums over each user's links, (u, K, d), of (links, K, d); a user may have none."""
    total = np.zeros((len(offsets) - 1, *links.shape[1:]))
    some = np.diff(offsets) > 0
    if len(links):
        total[some] = np.add.reduceat(links, offsets[:-1][some], axis=0)
    return total


def _make(t: Tuning) -> GroupLasso:
    return GroupLasso(rho=t.rho, c=t.penalties, disagreement_weight=t.disagreement_weight)


SPEC = SolverSpec(
    name="group-lasso",
    summary="J_rho with norms instead of squares: exact consensus above a finite rho",
    make=_make,
    parameters=("rho",),
    rho_formula=RhoFormula(
        lambda scales: theory.group_lasso_rho(
            beta=scales.beta, W_total=scales.W_total, spread=scales.spread
        ),
        "about the largest gradient of all rows together, beta W_total s",
    ),
)
