"""The checks of losses, programs and runtimes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.graphs import Graph
from peerclust.losses import Loss
from peerclust.programs.protocol import State
from peerclust.runtimes.loop import run_program
from peerclust.runtimes.loopback import Loopback
from peerclust.runtimes.protocol import Runtime, Snapshot, Traffic
from peerclust.runtimes.simulator import Simulator
from peerclust.runtimes.stopping import first_vote
from peerclust.testing.cases import Case, cases as every_case
from peerclust.testing.programs import PROGRAMS, Trial
from peerclust.users import Assignment, Users


def check_loss(loss: Loss) -> None:
    """Check that a loss is convex and increasing, gamma is h'(r) / r and smoothness bounds h''.

    >>> from peerclust import Huber
    >>> check_loss(Huber(2.0))
    """
    r = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 4001)])
    with np.errstate(all="raise", under="ignore"):
        h, gamma = np.asarray(loss.value(r * r)), np.asarray(loss.gamma(r * r))
        for r2 in (0.0, 1e-300, 1e-12, 1.0, 1e12, 1e300):
            here = np.array([r2])
            finite = np.isfinite(loss.value(here)).all() and np.isfinite(loss.gamma(here)).all()
            assert finite, f"{loss} is not finite at r2 = {r2:g}"
    assert h.shape == r.shape, f"value of {loss} must work elementwise"
    assert gamma.shape == r.shape, f"gamma of {loss} must work elementwise"
    assert (np.diff(h) > 0).all(), f"value of {loss} must increase with the distance"
    slope = gamma * r
    assert (gamma >= 0).all(), f"gamma of {loss} must not be negative"
    assert (np.diff(slope) >= -1e-9 * slope[1:]).all(), f"{loss} must be convex"
    # The mean of h' between two grid points lies between its values at them.
    secant = np.diff(h) / np.diff(r)
    slack = 1e-6 * slope[1:] + 1e-9
    between = (secant >= slope[:-1] - slack) & (secant <= slope[1:] + slack)
    assert between.all(), f"gamma of {loss} must be h'(r) / r"
    curvature = np.diff(slope) / np.diff(r)
    bound = loss.smoothness * (1 + 1e-6)
    assert curvature.max() <= bound, f"smoothness of {loss} is below {curvature.max():g}"


def check_program(trial: Trial, *, cases: Iterable[Case] | None = None) -> None:
    """Check that a program ends the same on simulator and loopback, and when it is resumed.

    On all cases of `testing.cases`, or on the given `cases`.

    >>> from peerclust.programs.dgc import DGC
    >>> check_program(Trial(lambda case: DGC(rho=5.0, alpha=case.step(5.0), B=2), rounds=20))
    """
    for case in every_case() if cases is None else cases:
        x = trial.start(case)
        before = x.copy()
        ends = [_end(runtime, trial, case, x) for runtime in (Loopback, Simulator)]
        assert np.array_equal(before, x), f"the program wrote to its start: {case.name}"
        _check_same(case.name, *ends)
        _check_resume(trial, case)


def check_runtime(
    runtime: Callable[[Graph], Runtime],
    reference: Callable[[Graph], Runtime] = Loopback,
    *,
    programs: Collection[str] | None = None,
    cases: Iterable[Case] | None = None,
) -> None:
    """Check that a runtime ends the programs of `PROGRAMS` like the reference, stopping included.

    All of them, or those named in `programs`, on all cases or on the given `cases`. If the runtime
    distributes users over processes, all of them call this, and divide the work of the reference.

    >>> check_runtime(Simulator, programs=["dgc", "maximum"])
    """
    names = PROGRAMS if programs is None else programs
    chosen = every_case() if cases is None else cases
    trials = [(case, name) for case in chosen for name in names]
    for i, (case, name) in enumerate(trials):
        trial = PROGRAMS[name]
        x, group = trial.start(case), runtime(case.graph).distribution.group
        end = _end(runtime, trial, case, x)
        if i % group.size == group.rank:
            _check_same(f"{name}, {case.name}", _end(reference, trial, case, x), end)


def _end(runtime: Callable[[Graph], Runtime], trial: Trial, case: Case, x: Array) -> dict[str, Any]:
    """Return everything that must be equal at the end."""
    changes: list[int] = []
    made = runtime(case.graph)
    distribution = made.distribution

    def on_round(states: Sequence[State], _: Sequence[Users]) -> None:
        changes.append(sum(state.assignment.changed for state in states if state.assignment))

    run = run_program(
        made,
        trial.make(case),
        case.users(distribution.local.tolist()),
        # Not a copy if all users are local: a program must not write to its start.
        x if len(distribution.local) == len(x) else x[distribution.local],
        rounds=trial.max_rounds(case),
        threshold=trial.threshold,
        on_round=on_round,
    )
    own = [_describe(state) for state in run.states]
    described = [each for rank in distribution.group.allgather(own) for each in rank]
    end = {"rounds": run.rounds, "stopped": run.stopped, "traffic": run.traffic}
    end["labels changed"] = np.sum(distribution.group.allgather(changes), axis=0).tolist()
    return end | _join(described, np.concatenate(distribution.members), case.graph)


def _describe(state: Any, at: str = "") -> dict[str, Any]:
    """Return every field of a state and of nested ones, each with what its rows belong to.

    An array has one row per "user", or per "link" if the state lists it in `by_link`; other fields
    are common to "all", or add up over each "block".
    """
    found: dict[str, Any] = {}
    by_link = state.by_link if isinstance(state, State) else ()
    for each in fields(state):
        name, value = f"{at}{each.name}", getattr(state, each.name)
        if isinstance(value, Assignment):
            found[f"{name}.x"] = "user", value.x
            found[f"{name}.changed"] = "block", value.changed
        elif is_dataclass(value):
            found |= _describe(value, f"{name}.")
        elif isinstance(value, np.ndarray):
            found[name] = "link" if each.name in by_link else "user", value
        else:
            found[name] = "all", value
    return found


def _join(
    states: Sequence[dict[str, Any]], numbers: NDArray[np.int64], graph: Graph
) -> dict[str, Any]:
    """Return the blocks' states as one, by the users' `numbers`; common fields must be equal."""
    owner = np.repeat(numbers, np.diff(graph.indptr)[numbers])
    joined: dict[str, Any] = {}
    for name, (kind, _) in states[0].items():
        values = [state[name][1] for state in states]
        if kind == "block":
            joined[name] = sum(values)
            continue
        rows_of = {"user": numbers, "link": owner}.get(kind)
        if rows_of is not None and sum(map(len, values)) == len(rows_of):
            ordered = np.concatenate(values)[np.argsort(rows_of, kind="stable")]
            joined[name] = ordered.tobytes()
            continue
        plain = [v.tobytes() if isinstance(v, np.ndarray) else v for v in values]
        assert all(value == plain[0] for value in plain), f"users differ in {name}"
        joined[name] = plain[0]
    return joined


def _check_same(where: str, reference: dict[str, Any], end: dict[str, Any]) -> None:
    for name, value in reference.items():
        assert end[name] == value, f"{name} differs, perhaps only in the last bits: {where}"


def _check_resume(trial: Trial, case: Case) -> None:
    """Check that a run resumed from a state, by users without caches, ends the same."""
    program, x, simulator = trial.make(case), trial.start(case), Simulator(case.graph)
    rounds = min(trial.max_rounds(case), 12)

    def run(until: int, start: Snapshot[State] | None = None) -> Sequence[State]:
        users = case.users()
        return run_program(simulator, program, users, x, rounds=until, resume_from=start).states

    def pause(states: Sequence[State]) -> Snapshot[State]:
        return Snapshot(states, [first_vote(case.graph.m)], Traffic())

    # Resumed twice: before the first round, and half way.
    half = pause(run(rounds // 2, pause([program.start(case.users(), x)])))
    ends = [
        _join([_describe(state) for state in states], np.arange(case.graph.m), case.graph)
        for states in (run(rounds), run(rounds, half))
    ]
    _check_same(f"resumed half way, {case.name}", *ends)
