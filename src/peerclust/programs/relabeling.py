"""Relabeling backoff: users whose labels keep changing assign their rows more and more rarely.

Between two assignments the exact methods (`admm`, `group_lasso`) solve a convex problem, and
disagreement shrinks by a constant factor per round. A row that changes its cluster disturbs that.
Among many users some row may always be changing, because centers that do not agree yet label rows
differently at each user. So a user whose labels changed waits longer before its next assignment, by
half a round more each time. Relabelings become ever rarer, and centers agree better in between.
With centers in agreement a relabeling is a Lloyd step, whose cost decreases, so the changes end.
The interval of a user whose labels did not change stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class RelabelSchedule:
    """The centers at which each user of a block last assigned its rows, and when it does so next.

    Attributes
    ----------
    x : (u, K, d) array
        The centers of the last assignment.
    interval, rounds_left : (u,) arrays
        The number of rounds between two assignments, and until the next one.
    changed : (u,) bool array
        Whether labels changed in the present round.
    """

    x: Array
    interval: Array
    rounds_left: Array
    changed: NDArray[np.bool_]


def start(x: Array) -> RelabelSchedule:
    """Return the initial schedule: an assignment in every round."""
    u = len(x)
    return RelabelSchedule(x, np.ones(u), np.zeros(u), np.ones(u, bool))


def assign(users: Users, schedule: RelabelSchedule, x: Array, backoff: float) -> RelabelSchedule:
    """Assign the rows of users that are due to the centers x, and return the next schedule.

    Where labels changed, the interval grows by `backoff`.

    >>> users = Users(np.array([[0.0], [4.0]]), np.array([0, 2]))
    >>> first = start(np.array([[[0.0], [9.0]]]))
    >>> then = assign(users, first, np.array([[[0.0], [5.0]]]), backoff=1.0)
    >>> then.interval.tolist(), then.rounds_left.tolist(), users.labels.tolist()
    ([2.0], [1.0], [0, 1])
    >>> last = assign(users, then, np.array([[[0.0], [9.0]]]), backoff=1.0)
    >>> last.rounds_left, users.labels.tolist()
    (array([0.]), [0, 1])
    """
    due = schedule.rounds_left <= 0
    anchor = np.where(due[:, None, None], x, schedule.x)
    # From the last centers, so that a resumed run has the same labels.
    users.assign(schedule.x)
    before = users.labels.copy()
    users.assign(anchor)
    moved = np.concatenate([[0], np.cumsum(users.labels != before)])
    changed = np.diff(moved[users.offsets]) > 0
    interval = np.where(changed, schedule.interval + backoff, schedule.interval)
    rounds_left = np.where(due, np.floor(interval), schedule.rounds_left) - 1.0
    return RelabelSchedule(anchor, interval, rounds_left, changed)
