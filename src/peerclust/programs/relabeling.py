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
from peerclust.programs.protocol import State
from peerclust.users import Assignment, Users


@dataclass(frozen=True, eq=False)
class RelabelSchedule:
    """When each user of a block assigns its rows next.

    Attributes
    ----------
    interval, rounds_left : (u,) arrays
        The number of rounds between two assignments, and until the next one.
    changed : (u,) bool array
        Whether labels changed in the present round.
    """

    interval: Array
    rounds_left: Array
    changed: NDArray[np.bool_]


def start(u: int) -> RelabelSchedule:
    """Return the initial schedule of u users: an assignment in every round."""
    return RelabelSchedule(np.ones(u), np.zeros(u), np.ones(u, bool))


def assign(
    users: Users, state: State, schedule: RelabelSchedule, backoff: float
) -> tuple[Assignment, RelabelSchedule]:
    """Assign the rows of users that are due to the centers state.x; return the next schedule.

    Other users keep their assignment. Where labels changed, the interval grows by `backoff`.

    >>> users = Users(np.array([[0.0], [4.0]]), np.array([0, 2]))
    >>> far, near = np.array([[[0.0], [9.0]]]), np.array([[[0.0], [5.0]]])
    >>> first = State(x=near, assignment=users.assign(far))
    >>> assignment, then = assign(users, first, start(1), backoff=1.0)
    >>> then.interval.tolist(), then.rounds_left.tolist(), assignment.labels.tolist()
    ([2.0], [1.0], [0, 1])
    >>> assignment, last = assign(users, State(x=far, assignment=assignment), then, backoff=1.0)
    >>> last.rounds_left, assignment.labels.tolist()
    (array([0.]), [0, 1])
    """
    due, last = schedule.rounds_left <= 0, state.assignment
    x = np.where(due[:, None, None], state.x, state.x if last is None else last.x)
    last = users.assign(x) if last is None else last
    before = last.labels
    assignment = users.assign(x, last)
    moved = np.concatenate([[0], np.cumsum(assignment.labels != before)])
    changed = np.diff(moved[users.offsets]) > 0
    interval = np.where(changed, schedule.interval + backoff, schedule.interval)
    rounds_left = np.where(due, np.floor(interval), schedule.rounds_left) - 1.0
    return assignment, RelabelSchedule(interval, rounds_left, changed)
