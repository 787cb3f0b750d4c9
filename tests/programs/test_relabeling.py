"""Users whose labels keep changing assign ever more rarely; the others do so in every round."""

import numpy as np

from peerclust.programs import relabeling
from peerclust.programs.protocol import State
from peerclust.users import Users


def test_only_users_whose_labels_changed_wait():
    rows = np.array([[0.0], [4.0], [0.0], [10.0]])
    users = Users(rows, np.array([0, 2, 4, 4]))
    centers = [np.array([[[0.0], [at]]] * 3) for at in (9.0, 5.0)]
    schedule, last = relabeling.start(3), users.assign(centers[0])
    assigned = []
    side = np.random.default_rng(0).integers(0, 2, 40)
    for t in range(40):
        # The second center goes to and fro: the first user's second row follows it.
        state = State(x=centers[side[t]], assignment=last)
        last, schedule = relabeling.assign(users, state, schedule, backoff=0.5)
        assigned.append(schedule.rounds_left.copy())
        assert last.labels[2:].tolist() == [0, 1]
    assert schedule.interval[0] > 3.0
    assert schedule.interval[1:].tolist() == [1.0, 1.0]
    assert (np.array(assigned)[:, 1:] == 0.0).all()


def test_a_user_that_waits_keeps_its_labels():
    users = Users(np.array([[0.0], [4.0]]), np.array([0, 2]))
    far, near = np.array([[[0.0], [9.0]]]), np.array([[[0.0], [5.0]]])
    state = State(x=near, assignment=users.assign(far))
    last, schedule = relabeling.assign(users, state, relabeling.start(1), backoff=2.0)
    assert (schedule.interval[0], schedule.rounds_left[0], last.labels.tolist()) == (
        3.0,
        2.0,
        [0, 1],
    )
    for left in (1.0, 0.0):
        state = State(x=far, assignment=last)
        last, schedule = relabeling.assign(users, state, schedule, backoff=2.0)
        assert (schedule.rounds_left[0], schedule.changed[0], last.labels.tolist()) == (
            left,
            False,
            [0, 1],
        )
    state = State(x=far, assignment=last)
    last, schedule = relabeling.assign(users, state, schedule, backoff=2.0)
    assert (schedule.changed[0], last.labels.tolist()) == (True, [0, 0])


def test_users_without_rows_never_wait():
    users = Users(np.zeros((0, 2)), np.array([0, 0, 0]))
    schedule, last = relabeling.start(2), None
    for _ in range(5):
        state = State(x=np.zeros((2, 3, 2)), assignment=last)
        last, schedule = relabeling.assign(users, state, schedule, backoff=0.5)
    assert schedule.interval.tolist() == [1.0, 1.0]
