"""ADMM: the joint clustering, with exact consensus, by the alternating direction method.

P. Forero, A. Cano and G. Giannakis, "Distributed clustering using wireless sensor networks",
IEEE Journal of Selected Topics in Signal Processing 5(4), 2011, with hard clusters, for every loss,
over-relaxed, and with an adaptive penalty. Users minimize sum_i J_i(x_i) subject to x_i = x_j over
every link, with one multiplier p_i per user. From the neighbors' centers x_j a round computes

    p_i' = p_i + c sum_{j in N_i} [x_i - x_j],                      (in the first round p_i' = p_i)
    x_i' = x_i - (g_i + p_i' + c sum_{j in N_i} [x_i - x_j]) / (H_i + 2 c |N_i|),
    (x_i, p_i) <- (x_i, p_i) + a (x_i' - x_i, p_i' - p_i),

where g_i is the gradient of J_i at x_i. With a = 1 and the K-means loss this is ADMM-KM of the
paper that `dgc` is from; a = 1.5 to 1.8 is the customary over-relaxation (J. Eckstein and
D. Bertsekas, "On the Douglas-Rachford splitting method", Mathematical Programming 55, 1992).

**The majorizer.** J_i is replaced by the quadratic that touches it at x_i with curvature H_i(k)
(`users.curvature`). For K-means it is J_i itself. For Huber, H is the sum of w gamma: the loss is
concave in r^2 and so below its tangent there. So for these losses and the current labels x_i'
minimizes a bound on the augmented Lagrangian. For the logistic and the fair loss, whose gamma grows
with r, H bounds the curvature at x_i. A Mahalanobis distance multiplies H by lambda_max(A).

**The penalty** c starts at `c`, which `theory.admm_penalty` computes for each center from the
curvature on which users have agreed, and from the graph. It is then adapted to balance the users'
disagreement and the centers' motion
(B. He, H. Yang and S. Wang, "Alternating direction method with self-adaptive penalty parameters",
Journal of Optimization Theory and Applications 106, 2000). At checks that become ever rarer, the
largest of each over all users spreads with the messages within D rounds, D the diameter. Where one
is more than `balance` times the other, all users change c alike.

Users whose labels keep changing assign their rows more rarely: see `relabeling`. For fixed labels,
a fixed penalty and a convex loss, convergence is a theorem. With a penalty that adapts and labels
that change it is not proved; every result has its certificate.

| symbol            | here                                                       |
|-------------------|------------------------------------------------------------|
| c, a              | `state.penalty.c`, (u, K); `relaxation`                    |
| x, p              | `state.x`, `state.p`, (u, K, d)                            |
| H, g              | `users.curvature`, `users.gradient`                        |
| sum_j [x_i - x_j] | `heard.degree * x - heard.total`                           |

What leaves a user: its centers and, for D rounds after a check, two numbers per center. These are
the largest disagreement between neighbors and the largest motion that it has heard of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from peerclust.arrays import Array
from peerclust.programs import relabeling
from peerclust.programs.protocol import UNKNOWN, HeardSum, NeighborSum, State
from peerclust.programs.relabeling import RelabelSchedule
from peerclust.programs.solver_spec import SolverSpec, Tuning
from peerclust.users import Users

# The penalty is first checked after this many rounds, or D if that is more.
_FIRST_CHECK = 5

# Each interval between two checks is this many times the one before.
_INTERVAL_GROWTH = 1.5

# The largest factor by which the penalty changes in one check, and in all checks together.
_MAX_CHANGE = 3.0
_MAX_TOTAL_CHANGE = 1e4

# How much a unit of disagreement counts, compared with a unit of motion.
_DISAGREEMENT = 2.0


@dataclass(frozen=True, eq=False)
class Penalty:
    """The penalties c of the block's users and centers, (u, K), and when they are checked.

    `max_seen`, (u, 2 K), is the largest disagreement and motion of each center that users have
    heard of. `next_check` is the round of the current or the next check, and `check_interval` the
    number of rounds between two checks.
    """

    c: Array
    max_seen: Array
    next_check: int
    check_interval: int


@dataclass(frozen=True, eq=False, kw_only=True)
class ADMMState(State):
    """Centers, multipliers and penalties of the block's users, and when rows are assigned."""

    p: Array
    penalty: Penalty
    relabel_schedule: RelabelSchedule

    def at_round(self, round_: int) -> Self:
        """Return the state as of the start of a round; checks are as far away as before."""
        check = self.penalty.next_check + round_ - self.round
        return replace(
            self, round=round_, update=0, penalty=replace(self.penalty, next_check=check)
        )


@dataclass(frozen=True)
class ADMM:
    """ADMM with the initial penalty c.

    Parameters
    ----------
    c : float, or tuple of K floats
        The initial penalty of all centers, or of each.
    D : int
        The diameter of the graph, or an upper bound on it.
    relaxation : float
        The factor a. Below 2 for K-means, where x' is an exact minimum; for other losses the theory
        of linearized methods covers it below 1.5.
    backoff : float
        By how many rounds the relabeling interval of a user grows when its labels changed.
    balance : float
        The ratio beyond which the penalty is adapted; with infinity it stays fixed.
    disagreement_weight : float
        What a residual multiplies the disagreement with the neighbors by, ||sum_j [x_i - x_j]||;
        with 1 / lambda_2(L) it is about the distance from the mean.

    Examples
    --------
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = ADMM.plain(c=0.5)
    >>> state = program.start(users, np.array([[[0.0]], [[2.0]]]))
    >>> heard = HeardSum(np.array([[[2.0]], [[0.0]]]), np.ones((2, 1, 1)))
    >>> program.hear(users, state, heard).x.tolist()
    [[[0.5]], [[1.5]]]
    """

    c: float | tuple[float, ...]
    D: int
    relaxation: float = 1.5
    backoff: float = 0.5
    balance: float = 5.0
    disagreement_weight: float = 1.0

    @classmethod
    def plain(cls, c: float) -> ADMM:
        """Return ADMM-KM as published: fixed penalty c, no relaxation, no relabeling backoff."""
        return cls(c=c, D=0, relaxation=1.0, backoff=0.0, balance=np.inf, disagreement_weight=c)

    def start(self, users: Users, x: Array) -> ADMMState:  # noqa: ARG002
        """Start at the centers x, (u, K, d), with multipliers of zero."""
        u, K = x.shape[:2]
        first = max(self.D, _FIRST_CHECK)
        c = np.broadcast_to(np.asarray(self.c, dtype=np.float64), (u, K)).copy()
        return ADMMState(
            x=x,
            p=np.zeros_like(x),
            penalty=Penalty(c, np.zeros((u, 2 * K)), first, first),
            relabel_schedule=relabeling.start(u),
            stiffness=np.ones((u, K)),
        )

    def say(self, state: ADMMState) -> NeighborSum:
        """Send the centers to the neighbors; for D rounds after a check, the maxima as well."""
        check = state.penalty.next_check
        spreading = check < state.round <= check + self.D and np.isfinite(self.balance)
        return NeighborSum(state.x, extra_max=state.penalty.max_seen if spreading else None)

    def hear(self, users: Users, state: ADMMState, heard: HeardSum) -> ADMMState:
        """Update the multipliers, assign, then update the centers."""
        x, p, a = state.x, state.p, self.relaxation
        c = state.penalty.c[..., None]
        assignment, schedule = relabeling.assign(users, state, state.relabel_schedule, self.backoff)
        disagreement = heard.degree * x - heard.total
        force = c * disagreement
        # In the first round the disagreement is that of the starts: no multiplier accumulates it.
        p_change = force if state.assignment is not None else np.zeros_like(force)
        local = users.gradient(assignment, x) + p + p_change
        stiff = users.curvature(assignment, x)[..., None] + 2.0 * c * heard.degree
        # A user without neighbors keeps the center of an empty cluster.
        step = np.divide(local + force, stiff, out=np.zeros_like(x), where=stiff > 0)
        # At rest a user's rows and multipliers balance, and its neighbors agree with it.
        off = self.disagreement_weight * np.linalg.norm(disagreement, axis=2)
        residual = np.maximum(np.linalg.norm(local, axis=2) / state.stiffness, off).max(axis=1)
        return ADMMState(
            x=x - a * step,
            p=p + a * p_change,
            penalty=self._adapt(state, heard, disagreement, 2.0 * heard.degree * step),
            relabel_schedule=schedule,
            assignment=assignment,
            round=state.round + 1,
            residual=np.where(schedule.changed & (self.backoff > 0), UNKNOWN, residual),
            stiffness=state.stiffness,
        )

    def _adapt(
        self, state: ADMMState, heard: HeardSum, disagreement: Array, motion: Array
    ) -> Penalty:
        """Return the penalties of the next round."""
        now = state.penalty
        if not np.isfinite(self.balance) or state.round < now.next_check:
            return now
        if heard.extra_max is None:
            far, moved = (np.linalg.norm(each, axis=2) for each in (disagreement, motion))
            max_seen = np.concatenate([_DISAGREEMENT * far, moved], axis=1)
        else:
            max_seen = np.maximum(now.max_seen, heard.extra_max)
        if state.round < now.next_check + self.D:
            return replace(now, max_seen=max_seen)
        far, moved = np.split(max_seen, 2, axis=1)
        known = (far > 0) & (moved > 0)
        ratio = np.divide(far, moved, out=np.ones_like(far), where=known)
        change = np.clip(np.sqrt(ratio), 1.0 / _MAX_CHANGE, _MAX_CHANGE)
        change[(ratio < self.balance) & (ratio > 1.0 / self.balance)] = 1.0
        first = np.asarray(self.c)
        c = np.clip(now.c * change, first / _MAX_TOTAL_CHANGE, first * _MAX_TOTAL_CHANGE)
        interval = max(self.D + 1, int(_INTERVAL_GROWTH * now.check_interval) + 1)
        return Penalty(c, max_seen, now.next_check + interval, interval)


def _make(t: Tuning) -> ADMM:
    return ADMM(
        c=t.penalties, D=int(t.graph.diameter.value), disagreement_weight=t.disagreement_weight
    )


SPEC = SolverSpec(
    name="admm", summary="the pooled problem by multipliers; rounds send centers only", make=_make
)
