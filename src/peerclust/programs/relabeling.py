"""How users of an exact method put off new labels, so that they do not chase each other's.

Between two assignments the exact methods (`admm`, `group_lasso`) solve a convex problem and come
closer to agreement by a fixed factor a round. A row that changes its cluster disturbs that; with
many users, someone's row may always be changing, as centers that do not agree yet label rows
differently at each of them. So a user whose rows changed in an assignment waits longer for the
next: each time half a round more. Labels change ever more rarely while they change at all, the
centers agree better and better in between, and as the clusters of agreed centers are those of
Lloyd's method, whose cost falls each time, in the end they stay. A user whose rows stay waits no
longer than it did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peerclust.types import Array
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class RelabelSchedule:
    """Where each user of a block last assigned its rows, and how patient it is.

    Attributes
    ----------
    x : (u, K, d) array
        The centers of the last assignment.
    wait, left : (u,) arrays
        How many rounds a user waits between two assignments, and until the next.
    changed : (u,) bool array
        Whether labels changed in the present round.
    """

    x: Array
    wait: Array
    left: Array
    changed: NDArray[np.bool_]


def begin(x: Array) -> RelabelSchedule:
    """Begin to assign in every round."""
    u = len(x)
    return RelabelSchedule(x, np.ones(u), np.zeros(u), np.ones(u, bool))


def assign(users: Users, patience: RelabelSchedule, x: Array, backoff: float) -> RelabelSchedule:
    """Assign the rows of users whose turn it is to the centers x; wait `backoff` where labels changed.

    >>> users = Users(np.array([[0.0], [4.0]]), np.array([0, 2]))
    >>> first = begin(np.array([[[0.0], [9.0]]]))
    >>> then = assign(users, first, np.array([[[0.0], [5.0]]]), backoff=1.0)
    >>> then.wait.tolist(), then.left.tolist(), users.labels.tolist()
    ([2.0], [1.0], [0, 1])
    >>> assign(users, then, np.array([[[0.0], [9.0]]]), backoff=1.0).left, users.labels.tolist()
    (array([0.]), [0, 1])
    """
    due = patience.left <= 0
    anchor = np.where(due[:, None, None], x, patience.x)
    # From the last centers, so that a run which is taken up finds the labels that it had.
    users.assign(patience.x)
    before = users.labels.copy()
    users.assign(anchor)
    moved = np.concatenate([[0], np.cumsum(users.labels != before)])
    changed = np.diff(moved[users.offsets]) > 0
    wait = np.where(changed, patience.wait + backoff, patience.wait)
    left = np.where(due, np.floor(wait), patience.left) - 1.0
    return RelabelSchedule(anchor, wait, left, changed)
