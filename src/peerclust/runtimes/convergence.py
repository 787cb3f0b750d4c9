"""Running a solver until it has converged: rounds, a proposed stop, a check by all users.

Users vote to stop by residuals in which the curvature of the cost is the last one that they agreed
on (`programs.certificate`). A proposed stop is checked: the users agree on it anew, with all else
that a certificate has. If the residual of the solver's own problem is then above the threshold,
the run continues, and voting begins again after a wait that doubles each time.

What is run, and in which order, is a `Plan`: a generator of tasks that is sent the run of each. So
it is the same for runtimes that run a task in a call and for peers, which await it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import numpy as np

from peerclust.arrays import Array
from peerclust.programs.certificate import Certify, CertifyState, Found
from peerclust.programs.consensus import Total
from peerclust.programs.limits import Limits, curvature_limits
from peerclust.programs.protocol import AnyProgram, State
from peerclust.runtimes.protocol import Run, Snapshot, Traffic
from peerclust.runtimes.stopping import first_vote
from peerclust.theory import Curvature
from peerclust.users import Users

# The number of rounds without votes after the first proposed stop that was too early.
FIRST_WAIT = 8

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Task:
    """A program to run: from a snapshot, or from the centers of all users of this process.

    `iterates` is whether it is a solver, whose rounds are reported, traced and written to
    checkpoints; other programs end after a few exchanges.
    """

    program: AnyProgram
    start: Snapshot[State] | Array
    rounds: int
    threshold: float = -1.0
    iterates: bool = False


Plan = Generator[Task, Run[State], T]


@dataclass(frozen=True, eq=False)
class CheckedRun:
    """The end of a run: what the users found when they checked it, and the traffic of the checks.

    `rounds` is the number of its rounds, and `curvature` that of the users' costs at the end.
    """

    run: Run[State]
    rounds: int
    found: Found
    curvature: Curvature
    checks: Traffic

    def has_converged(self, threshold: float) -> bool:
        """Return whether the users stopped it, with a residual of at most `threshold`."""
        return self.run.stopped and self.found.residual <= threshold


def converge(
    program: AnyProgram,
    certify: Certify,
    start: Snapshot[State],
    *,
    rounds: int,
    threshold: float,
) -> Plan[CheckedRun]:
    """Run a program until its certificate shows a residual of at most `threshold`.

    It ends at the latest in the round `rounds`, and with a negative threshold only there.
    """
    wait, checks, begun = FIRST_WAIT, Traffic(), start.states[0].round
    while True:
        run = yield Task(program, start, rounds, threshold, iterates=True)
        checked = yield Task(certify, run.x, certify.rounds)
        ends = cast("Sequence[CertifyState]", checked.states)
        found, checks = certify.read(ends[0]), checks + checked.traffic
        if not run.stopped or run.rounds >= rounds or found.residual <= threshold:
            own = np.concatenate([state.curvature for state in ends])
            curvature = Curvature(own, found.curvature, found.evenness)
            return CheckedRun(run, run.rounds - begun, found, curvature, checks)
        states = [
            state.with_stiffness(end.stiffness) for state, end in zip(run.states, ends, strict=True)
        ]
        votes = [first_vote(len(state.x)) for state in states]
        start = Snapshot(states, votes, run.traffic, vote_from=run.rounds + wait)
        wait *= 2


def agree_on_curvature(users: Users, x: Array, m: int) -> Plan[tuple[Curvature, Traffic]]:
    """Return the curvatures of the costs of m users at the centers x, and what that took.

    `users` are those of this process, and x, (u, K, d), their centers.
    """
    own = users.local_curvature(users.assign(x), x)
    values = np.column_stack([np.ones(users.m), own, own * own])
    total, sent = yield from add_up(values, m, curvature_limits(users, own.shape[1]))
    return Curvature.of(own, *np.split(total[1:] / total[0], 2)), sent


def add_up(values: Array, m: int, limits: Limits | None = None) -> Plan[tuple[Array, Traffic]]:
    """Return the sum over all m users, (w,), of vectors, (u, w), and the traffic that it took.

    `limits` are those of one vector.
    """
    program = Total(m, limits=limits)
    run = yield Task(program, values[:, None], program.rounds)
    total: Array = run.x[0, 0]
    return total, run.traffic


@dataclass(frozen=True, eq=False)
class Done(Generic[T]):
    """The result of a plan."""

    result: T


def next_task(plan: Plan[T], run: Run[State] | None = None) -> Task | Done[T]:
    """Send a plan the run of its last task, None at first; return its next task, or its result."""
    try:
        return plan.send(run)  # type: ignore[arg-type]  # a generator is started with None
    except StopIteration as end:
        # A StopIteration could not leave a thread or a coroutine.
        return Done(end.value)


def carry_out(plan: Plan[T], run: Callable[[Task], Run[State]]) -> T:
    """Run the tasks of a plan one after the other; return its result."""
    task = next_task(plan)
    while not isinstance(task, Done):
        task = next_task(plan, run(task))
    return task.result
