"""ADMM: the joint clustering, with exact consensus, by the alternating direction method.

P. Forero, A. Cano and G. Giannakis, "Distributed clustering using wireless sensor networks",
IEEE Journal of Selected Topics in Signal Processing 5(4), 2011, with hard clusters, for every loss,
over-relaxed, and with a penalty that adapts. Users minimize sum_i J_i(x_i) where x_i = x_j over
every link, with a multiplier p_i each. A round makes, with what neighbors told,

    p_i' = p_i + c sum_{j in N_i} [x_i - x_j],                      (in the first round p_i' = p_i)
    x_i' = x_i - (pull_i + p_i' + c sum_{j in N_i} [x_i - x_j]) / (H_i + 2 c |N_i|),
    (x_i, p_i) <- (x_i, p_i) + a (x_i' - x_i, p_i' - p_i).

With a = 1 and the K-means loss this is ADMM-KM of the paper that `dgc` is from; a = 1.5 to 1.8 is
the customary over-relaxation (J. Eckstein and D. Bertsekas, "On the Douglas-Rachford splitting
method", Mathematical Programming 55, 1992).

**The majorizer.** In place of J_i stands the quadratic that touches it at x_i with curvature H_i(k)
(`users.curvature`), which is nowhere below J_i for the labels at hand, so that x_i' minimizes a
bound on the augmented Lagrangian. For K-means it is J_i itself. For Huber H is the sum of w gamma,
as the loss is concave in r^2 and so below its tangent there; for the logistic and the fair loss,
whose gamma grows with r, H is beta times the weight, beta bounding h''. A Mahalanobis distance
multiplies H by lambda_max(A).

**The penalty** c begins at `c`, which `theory.admm_penalty` finds from the weights and the graph.
For each center it then follows the balance of the users' disagreement and the centers' motion
(B. He, H. Yang and S. Wang, "Alternating direction method with self-adaptive penalty parameters",
Journal of Optimization Theory and Applications 106, 2000): now and then, ever more rarely, the
largest of each over all users spreads with the messages within D rounds, D the diameter, and where
one is more than `balance` times the other all users change c alike.

Labels are put off where they keep changing: see `patience`.

| symbol            | here                                                       |
|-------------------|------------------------------------------------------------|
| c, a              | `state.c`, (u, K); `relaxation`                            |
| x, p              | `state.x`, `state.p`, (u, K, d)                            |
| H, pull           | `users.curvature`, `users.gradient`                            |
| sum_j [x_i - x_j] | `heard.degree * x - heard.total`                           |

What leaves a user besides centers, for D rounds now and then: two numbers a center, the largest
disagreement with neighbors and the largest motion that it has heard of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peerclust.programs import relabeling
from peerclust.programs.protocol import UNKNOWN, HeardSum, NeighborSum
from peerclust.programs.relabeling import RelabelSchedule
from peerclust.types import Array
from peerclust.users import Users

# The penalty is looked at after so many rounds, or D, then after so many times as many each time;
# it changes by one factor at most at a time, by another in all. Disagreement counts so many times
# as much as motion.
_FIRST_LOOK = 5
_RARER = 1.5
_MOST_AT_ONCE = 3.0
_MOST_IN_ALL = 1e4
_DISAGREEMENT = 2.0


@dataclass(frozen=True, eq=False)
class ADMMState:
    """Centers, multipliers and penalties of the block's users, and when rows are assigned.

    `most` is the largest disagreement and motion of each center that users have heard of, (u, 2 K);
    `next_check` is the round in which they measured it, or will; `check_interval` how long until the next time.
    """

    x: Array
    p: Array
    c: Array
    max_seen: Array
    next_check: int
    check_interval: int
    labels: RelabelSchedule
    round: int
    residual: Array
    update: int = 0


@dataclass(frozen=True)
class ADMM:
    """ADMM with a first penalty c.

    Parameters
    ----------
    c : float
        The penalty in the beginning.
    D : int
        At least the diameter of the graph.
    relaxation : float
        a. Below 2 for K-means, where x' is an exact minimum; for other losses the theory of
        linearized methods covers it below 1.5.
    more : float
        By how many rounds a user whose labels changed puts off the next assignment.
    balance : float
        Beyond which ratio the penalty changes; infinity keeps it.
    gauge : float
        What a unit of disagreement with the neighbors counts in a residual.

    Examples
    --------
    >>> users = Users(np.array([[0.0], [2.0]]), np.array([0, 1, 2]))
    >>> program = ADMM.plain(c=0.5)
    >>> state = program.start(users, np.array([[[0.0]], [[2.0]]]))
    >>> heard = HeardSum(np.array([[[2.0]], [[0.0]]]), np.ones((2, 1, 1)))
    >>> program.hear(users, state, heard).x.tolist()
    [[[0.5]], [[1.5]]]
    """

    c: float
    D: int
    relaxation: float = 1.5
    backoff: float = 0.5
    balance: float = 5.0
    disagreement_weight: float = 1.0

    @classmethod
    def plain(cls, c: float) -> ADMM:
        """Return ADMM-KM as it was published: penalty c for good, neither relaxed nor patient."""
        return cls(c=c, D=0, relaxation=1.0, backoff=0.0, balance=np.inf, disagreement_weight=c)

    def max_overshoot(self, condition: float) -> float:
        """Give how far centers may leave the box of rows and starts, in widths of it.

        Multipliers carry them out of it while they build up; ten widths is a generous allowance,
        and more for a Mahalanobis distance with the condition number of A.
        """
        return 10.0 * condition

    def start(self, users: Users, x: Array) -> ADMMState:
        """Begin at the centers x, (u, K, d), with multipliers of zero."""
        u, K = x.shape[:2]
        next_check = max(self.D, _FIRST_LOOK)
        return ADMMState(
            x=x,
            p=np.zeros_like(x),
            c=np.full((u, K), self.c),
            max_seen=np.zeros((u, 2 * K)),
            next_check=next_check,
            check_interval=next_check,
            labels=relabeling.begin(x),
            round=0,
            residual=np.full(users.m, np.inf),
        )

    def say(self, state: ADMMState) -> NeighborSum:
        """Tell the neighbors the centers; for D rounds after a look, what was largest, too."""
        spreading = state.next_check < state.round <= state.next_check + self.D
        return NeighborSum(
            state.x, extra_max=state.max_seen if spreading and np.isfinite(self.balance) else None
        )

    def hear(self, users: Users, state: ADMMState, heard: HeardSum) -> ADMMState:
        """Bring the multipliers up to date, assign, then update the centers."""
        x, degree, a = state.x, heard.degree, self.relaxation
        labels = self._assign(users, state)
        apart = degree * x - heard.total
        backoff = state.c[..., None] * apart
        # In the first round disagreement is the starts', and no multiplier remembers it.
        local = users.gradient(x) + state.p + (backoff if state.round > 0 else 0.0)
        stiff = users.curvature(x)[..., None] + 2.0 * state.c[..., None] * degree
        # A user without neighbors keeps the center of an empty cluster.
        step = np.divide(local + backoff, stiff, out=np.zeros_like(x), where=stiff > 0)
        # At rest a user's rows and multipliers balance, and its neighbors agree with it.
        residual = np.maximum(_norm(local), self.disagreement_weight * _norm(apart)).max(axis=1)
        max_seen, c, next_check, check_interval = self._balance(
            state, heard, apart, 2.0 * degree * step
        )
        return ADMMState(
            x=x - a * step,
            p=state.p + a * backoff if state.round > 0 else state.p,
            c=c,
            max_seen=max_seen,
            next_check=next_check,
            check_interval=check_interval,
            labels=labels,
            round=state.round + 1,
            residual=np.where(labels.changed & (self.backoff > 0), UNKNOWN, residual),
        )

    def _assign(self, users: Users, state: ADMMState) -> RelabelSchedule:
        if self.backoff > 0:
            return relabeling.assign(users, state.labels, state.x, self.backoff)
        users.assign(state.x)
        return state.labels

    def _balance(
        self, state: ADMMState, heard: HeardSum, apart: Array, motion: Array
    ) -> tuple[Array, Array, int, int]:
        """Give what is told next of the balance, the penalties, and when to look again."""
        max_seen, c, next_check, check_interval = (
            state.max_seen,
            state.c,
            state.next_check,
            state.check_interval,
        )
        if not np.isfinite(self.balance) or state.round < next_check:
            return max_seen, c, next_check, check_interval
        if heard.extra_max is None:
            max_seen = np.concatenate([_DISAGREEMENT * _norm(apart), _norm(motion)], axis=1)
        else:
            max_seen = np.maximum(max_seen, heard.extra_max)
        if state.round < next_check + self.D:
            return max_seen, c, next_check, check_interval
        far, moved = np.split(max_seen, 2, axis=1)
        known = (far > 0) & (moved > 0)
        ratio = np.divide(far, moved, out=np.ones_like(far), where=known)
        change = np.clip(np.sqrt(ratio), 1.0 / _MOST_AT_ONCE, _MOST_AT_ONCE)
        change[(ratio < self.balance) & (ratio > 1.0 / self.balance)] = 1.0
        c = np.clip(c * change, self.c / _MOST_IN_ALL, self.c * _MOST_IN_ALL)
        check_interval = max(self.D + 1, int(_RARER * check_interval) + 1)
        return max_seen, c, next_check + check_interval, check_interval


def _norm(vectors: Array) -> Array:
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=2)))
