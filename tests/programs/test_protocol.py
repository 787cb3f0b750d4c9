"""States: counters, and assignments that a checkpoint does not have."""

from __future__ import annotations

import pytest

from instances import random_block
from peerclust import graphs
from peerclust.programs.dgc import DGC
from peerclust.programs.lossy import Lossy
from peerclust.programs.protocol import State
from peerclust.runtimes import Simulator
from peerclust.runtimes.protocol import Said
from peerclust.users import Assignment, Users
from reference_impl import same

SIZES = [5, 0, 40, 600]


def make():
    rows, offsets, x = random_block(SIZES, 2, 3)
    return Users(rows, offsets), x


def advance(program, users, state, exchanges):
    runtime = Simulator(graphs.complete(len(SIZES)))
    for _ in range(exchanges):
        delivered = runtime.deliver(Said([program.say(state)], [], [state]))
        state = program.hear(users, state, delivered.messages[0])
    return state


def test_an_assignment_as_read_from_a_checkpoint_is_usable_once_attached():
    users, x = make()
    state = State(x=x + 1.0, round=7, assignment=Assignment.at(x))
    with pytest.raises(ValueError, match="has no labels"):
        _ = state.assignment.labels
    attached = state.attach(users)
    expected = users.assign(x)
    assert attached.assignment.x is x
    same(attached.assignment.labels, expected.labels)
    same(users.gradient(attached.assignment, x), users.gradient(expected, x))
    assert (attached.x is state.x, attached.round) == (True, 7)


def test_a_state_without_an_assignment_is_attached_as_it_is():
    users, x = make()
    assert State(x=x).attach(users).assignment is None


@pytest.mark.parametrize("exchanges", [1, 2, 3, 4])
def test_an_attached_state_continues_to_the_same_bits(exchanges):
    users, x = make()
    inner = DGC(rho=9.0, alpha=1e-3, B=3)
    for program in (inner, Lossy(inner, "float32", seed=0)):
        state = advance(program, users, program.start(users, x), exchanges)
        whole = advance(program, users, state, 5)
        other, _ = make()
        resumed = advance(program, other, state.attach(other), 5)
        same(resumed.x, whole.x)
        same(resumed.assignment.labels, whole.assignment.labels)
        assert resumed.assignment.changed == whole.assignment.changed


def test_the_program_within_a_lossy_one_is_attached_too():
    users, x = make()
    program = Lossy(DGC(rho=9.0, alpha=1e-3), "float32", seed=0)
    state = advance(program, users, program.start(users, x), 1).attach(users)
    assert state.assignment is state.inner.assignment
    same(state.assignment.labels, users.assign(x).labels)


def test_at_round_is_the_start_of_that_round():
    users, x = make()
    inner = DGC(rho=9.0, alpha=1e-3, B=3)
    for program in (inner, Lossy(inner, "float32", seed=0)):
        state = advance(program, users, program.start(users, x), 2)
        assert (state.round, state.update) == (0, 2)
        later = state.at_round(5)
        assert (later.round, later.update) == (5, 0)
        assert later.x is state.x
        moved = advance(program, users, later, 3)
        assert (moved.round, moved.update) == (6, 0)


def test_a_new_state_has_completed_nothing():
    state = State(x=make()[1])
    assert (state.round, state.update, state.assignment) == (0, 0, None)
