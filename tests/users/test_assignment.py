"""An assignment is a value: later assignments of the same users do not change what it says."""

from __future__ import annotations

import numpy as np
import pytest
from cached_blocks import check_against_fresh, fresh_block

from all_pairs import by_pairs
from instances import OBJECTIVES, WEIGHTS, random_block
from peerclust import graphs
from peerclust.programs.admm import ADMM
from peerclust.programs.dgc import DGC
from peerclust.programs.lsp2p import LSP2P
from peerclust.runtimes import Simulator
from peerclust.runtimes.protocol import Said
from peerclust.users import Assignment, Users, assigners, cached
from reference_impl import same

# Users' numbers of rows, features d and centers K.
BLOCKS = {
    "small, bounded and boxed": ([5, 0, 40, 600, 1], 2, 4),
    "all small": ([3, 0, 7, 15] * 5, 3, 3),
    "a bound per center": ([40, 41], 17, 5),
}
# The number of assignments up to the one that is looked at. The first caches nothing, the second
# fills the cache, and the third uses it.
ASSIGNED = [1, 2, 3]
one_of_each_kind = pytest.mark.parametrize(
    "objective", [OBJECTIVES[0], OBJECTIVES[3], OBJECTIVES[-2]], ids=repr
)
blocks = pytest.mark.parametrize("block", BLOCKS)


def make(block, objective):
    """Return users and a path of eight centers, each near the one before."""
    sizes, d, K = BLOCKS[block]
    rows, offsets, x = random_block(sizes, d, K)
    users = Users(rows, offsets, weights=WEIGHTS[-1](len(rows)), **objective(d))
    steps = np.random.default_rng(1).uniform(0.0, 0.2, size=(8, *x.shape))
    return users, x + np.cumsum(steps, axis=0)


def follow(users, path, last=None):
    """Assign one center of the path after the other; return the last assignment."""
    for x in path:
        last = users.assign(x, last)
    return last


def consequences(users, assignment):
    """Return all that follows from an assignment, at its centers and at others."""
    found = {"labels": assignment.labels.copy()}
    for at, x in (("", assignment.x), (", moved", assignment.x + 0.05)):
        found[f"gradient{at}"] = users.gradient(assignment, x)
        found[f"cost{at}"] = users.cost(assignment, x)
        found[f"curvature{at}"] = users.curvature(assignment, x)
        s0, s1 = users.gradient_terms(assignment, x)
        found[f"s0{at}"], found[f"s1{at}"] = s0.copy(), s1.copy()
    return found


def check_consequences(users, assignment):
    """Compare all that follows from an assignment with what a new block finds."""
    fresh = fresh_block(users)
    expected = consequences(fresh, fresh.assign(assignment.x))
    for name, value in consequences(users, assignment).items():
        same(value, expected[name])


@by_pairs(objective=OBJECTIVES, block=BLOCKS, assigned=ASSIGNED, read_before=[False, True])
def test_it_stays_what_it_was_when_users_are_assigned_elsewhere(
    objective, block, assigned, read_before
):
    users, path = make(block, objective)
    assignment = follow(users, path[:assigned])
    if read_before:
        check_consequences(users, assignment)
    last = follow(users, path[assigned:], assignment)
    check_consequences(users, assignment)
    check_consequences(users, last)
    users.assign(path[0][:, ::-1].copy())
    check_consequences(users, assignment)
    check_consequences(users, last)


@by_pairs(objective=OBJECTIVES, block=BLOCKS, assigned=ASSIGNED)
def test_its_counts_stay_what_they_were(objective, block, assigned):
    users, path = make(block, objective)
    assignment = follow(users, path[:assigned])
    twin, _ = make(block, objective)
    at_once = follow(twin, path[:assigned])
    counts = at_once.changed, at_once.rows_scanned
    last = follow(users, path[assigned:], assignment)
    users.assign(last.x[:, ::-1].copy(), last)
    assert (assignment.changed, assignment.rows_scanned) == counts


@by_pairs(objective=OBJECTIVES, block=BLOCKS, assigned=ASSIGNED, between=[0, 1, 3])
def test_changes_are_counted_from_last_whatever_was_assigned_in_between(
    objective, block, assigned, between
):
    users, path = make(block, objective)
    assignment = follow(users, path[:assigned])
    follow(users, path[::-1][:between])
    fresh = fresh_block(users)
    before, after = (fresh.assign(x).labels for x in (path[assigned - 1], path[-1]))
    found = users.assign(path[-1], assignment)
    assert found.changed == np.count_nonzero(after != before) > 0
    same(found.labels, after)
    assert users.assign(path[-1]).changed == len(users.rows)


@by_pairs(objective=OBJECTIVES, block=BLOCKS)
def test_two_paths_of_assignments_do_not_disturb_each_other(objective, block):
    users, path = make(block, objective)
    twin, _ = make(block, objective)
    one = other = alone = None
    for x, y in zip(path, path[::-1], strict=True):
        one, other, alone = users.assign(x, one), users.assign(y, other), twin.assign(x, alone)
        assert one.changed == alone.changed
        check_consequences(users, one)
        check_consequences(users, other)


@blocks
@one_of_each_kind
@pytest.mark.parametrize(
    "program",
    [DGC(rho=9.0, alpha=1e-3, B=2), ADMM(c=30.0, D=1), LSP2P()],
    ids=lambda program: type(program).__name__,
)
def test_two_interleaved_runs_end_as_each_does_alone(objective, block, program):
    users, path = make(block, objective)
    runtime = Simulator(graphs.complete(users.m))

    def advance(users, state):
        delivered = runtime.deliver(Said([program.say(state)], [], [state]))
        return program.hear(users, state, delivered.messages[0])

    both = [program.start(users, x) for x in (path[0], path[-1])]
    alone = list(both)
    blocks = [fresh_block(users) for _ in both]
    for _ in range(8):
        both = [advance(users, state) for state in both]
        alone = [advance(*each) for each in zip(blocks, alone, strict=True)]
        for state, expected in zip(both, alone, strict=True):
            same(state.x, expected.x)
            same(state.residual, expected.residual)
            assert state.assignment.changed == expected.assignment.changed
    for state in both:
        fresh = fresh_block(users)
        same(state.assignment.labels, fresh.assign(state.assignment.x).labels)


@by_pairs(objective=OBJECTIVES, block=BLOCKS, assigned=ASSIGNED)
def test_assign_writes_neither_to_its_centers_nor_to_the_last_assignment(
    objective, block, assigned
):
    users, path = make(block, objective)
    last, x = follow(users, path[:assigned]), path[-1].copy()
    kept = {"rows": users.rows, "x": x, "last.x": last.x, "last.labels": last.labels}
    before = {name: each.copy() for name, each in kept.items()}
    follow(users, path[::-1], users.assign(x, last))
    for name, each in kept.items():
        same(each, before[name])


def test_labels_cannot_be_written_to():
    users, path = make("small, bounded and boxed", OBJECTIVES[0])
    last = None
    for x in path:
        last = users.assign(x, last)
        same(last.labels, fresh_block(users).assign(x).labels)
        with pytest.raises(ValueError, match="read-only"):
            last.labels[:] = 0


class Interrupted(BaseException):
    """As KeyboardInterrupt, which may come at any moment."""


def interrupt(patch, call):
    """Have the loops over rows of one call stop after their first chunk, and count all calls."""
    calls, run = [], assigners.parallel_for

    def parallel_for(loop, ends, work, *arguments):
        calls.append(ends)
        if len(calls) == call:
            loop(0, 1, *arguments)
            raise Interrupted
        return run(loop, ends, work, *arguments)

    for module in (assigners, cached):
        patch.setattr(module, "parallel_for", parallel_for)
    return calls


@blocks
@one_of_each_kind
@pytest.mark.parametrize("assigned", ASSIGNED)
def test_an_interrupted_assignment_leaves_earlier_ones_usable(
    objective, block, assigned, monkeypatch
):
    twin, path = make(block, objective)
    with monkeypatch.context() as patch:
        calls = interrupt(patch, 0)
        last = follow(twin, path[:assigned])
        calls.clear()
        twin.assign(path[-1], last)
    assert calls
    for call in range(1, len(calls) + 1):
        users, _ = make(block, objective)
        first = users.assign(path[0])
        last = follow(users, path[1:assigned], first)
        with monkeypatch.context() as patch:
            interrupt(patch, call)
            with pytest.raises(Interrupted):
                users.assign(path[-1], last)
        check_consequences(users, last)
        check_consequences(users, first)
        again = check_against_fresh(users, path[-1], last)
        assert again.rows_scanned == len(users.rows)


def test_without_users_it_has_centers_but_no_labels():
    _, (x, *_) = make("all small", OBJECTIVES[0])
    assignment = Assignment.at(x)
    assert assignment.x is x
    assert (assignment.changed, assignment.rows_scanned) == (0, 0)
    with pytest.raises(ValueError, match="has no labels"):
        _ = assignment.labels


def test_changes_are_counted_from_centers_whose_users_are_not_known_yet():
    users, (x, *_) = make("all small", OBJECTIVES[0])
    before = users.assign(x).labels
    after = users.assign(x[:, ::-1].copy(), Assignment.at(x))
    assert after.changed == np.count_nonzero(after.labels != before) > 0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_users_compute_with_centers_whose_users_are_not_known_yet(objective):
    users, (x, *_) = make("all small", objective)
    for method in (users.gradient, users.cost, users.curvature):
        same(method(Assignment.at(x), x), method(users.assign(x), x))
