"""What a loss, a program and a runtime must pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust.graphs import Graph
from peerclust.losses import Loss
from peerclust.programs.protocol import State
from peerclust.runtimes.loopback import Loopback
from peerclust.runtimes.protocol import Run, distribution_of
from peerclust.runtimes.simulator import Simulator
from peerclust.testing.cases import Case, cases as every_case
from peerclust.testing.programs import PROGRAMS, Trial
from peerclust.types import Array
from peerclust.users import Users


def check_loss(loss: Loss) -> None:
    """Check that a loss is convex and increasing, that gamma is its slope and smoothness its bound.

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
    assert (np.diff(h) > 0).all(), f"value of {loss} must rise with the distance"
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
    """Check a program on the simulator and on loopback, and that all it needs is in its state.

    On all cases of `testing.cases`, or on these.

    >>> from peerclust.programs.dgc import DGC
    >>> check_program(Trial(lambda case: DGC(rho=5.0, alpha=case.step(5.0), B=2), rounds=20))
    """
    for case in every_case() if cases is None else cases:
        x = trial.start(case)
        kept = x.copy()
        ends = [_end(runtime, trial, case, x) for runtime in (Loopback, Simulator)]
        assert np.array_equal(kept, x), f"the program wrote to its start: {case.name}"
        _check_same(case.name, *ends)
        _check_resume(trial, case)


def check_runtime(
    runtime: Callable[[Graph], Any],
    reference: Callable[[Graph], Any] = Loopback,
    *,
    programs: Collection[str] | None = None,
    cases: Iterable[Case] | None = None,
) -> None:
    """Check that a runtime ends the programs of `PROGRAMS` as the reference, stopping included.

    All of them, or those of these names, on all cases or on these. If the runtime shares users
    among processes, all of them call this, and share the reference's work.

    >>> check_runtime(Simulator, programs=["dgc", "maximum"])
    """
    names = PROGRAMS if programs is None else programs
    tried = every_case() if cases is None else cases
    trials = [(case, name) for case in tried for name in names]
    for i, (case, name) in enumerate(trials):
        trial = PROGRAMS[name]
        x, group = trial.start(case), distribution_of(runtime(case.graph)).group
        ends = [_end(runtime, trial, case, x)]
        if name in ("dgc", "accelerated"):
            # Where nobody looks between rounds, a runtime may do many at once.
            ends.append(ends[0] | _end(runtime, trial, case, x, watched=False))
        if i % group.size == group.rank:
            expected = _end(reference, trial, case, x)
            for end in ends:
                _check_same(f"{name}, {case.name}", expected, end)


def _end(
    runtime: Callable[[Graph], Any], trial: Trial, case: Case, x: Array, *, watched: bool = True
) -> dict[str, Any]:
    """Give everything by which two ends are compared; labels changed only if `watched`."""
    changes: list[int] = []
    made = runtime(case.graph)
    share = distribution_of(made)

    def on_round(_: Sequence[State], blocks: Sequence[Users]) -> None:
        changes.append(sum(block.changed for block in blocks))

    run: Run = made.run(
        trial.make(case),
        case.users(share.local.tolist()),
        # The start itself where it is all of it, which a program must not write to.
        x if len(share.local) == len(x) else x[share.local],
        rounds=trial.most_rounds(case),
        threshold=trial.threshold,
        on_round=on_round if watched else None,
    )
    everyone = [state for states in share.group.allgather(run.states) for state in states]
    told = {"rounds": run.rounds, "stopped": run.stopped, "traffic": run.traffic}
    if watched:
        told["labels changed"] = np.sum(share.group.allgather(changes), axis=0).tolist()
    return told | _join(everyone, np.concatenate(share.members), case.graph)


def _join(states: Sequence[Any], numbers: NDArray[np.int64], graph: Graph) -> dict[str, Any]:
    """Give every field of the blocks' states, arrays as bytes; what is all users' must agree.

    An array is its users' if it has as many rows as the block has users, or its links' if the state
    names it `by_link`; those are put in order of the users' `numbers`.
    """
    joined: dict[str, Any] = {}
    by_link = getattr(states[0], "by_link", ())
    owner = np.repeat(numbers, np.diff(graph.indptr)[numbers])
    for each in fields(states[0]):
        values = [getattr(state, each.name) for state in states]
        if is_dataclass(values[0]):
            inner = _join(values, numbers, graph)
            joined |= {f"{each.name}.{name}": value for name, value in inner.items()}
            continue
        whose = None
        if values[0] is not None and each.name in by_link:
            whose = owner
        elif isinstance(values[0], np.ndarray) and len(values[0]) == len(states[0].x):
            whose = numbers
        if whose is not None:
            held = np.concatenate(values)[np.argsort(whose, kind="stable")]
            joined[each.name] = held.tobytes()
            continue
        plain = [v.tobytes() if isinstance(v, np.ndarray) else v for v in values]
        assert all(value == plain[0] for value in plain), f"users differ in {each.name}"
        joined[each.name] = plain[0]
    return joined


def _check_same(where: str, reference: dict[str, Any], end: dict[str, Any]) -> None:
    for name, value in reference.items():
        assert end[name] == value, f"{name} differs, if only in the last bits: {where}"


def _check_resume(trial: Trial, case: Case) -> None:
    """Check that a run taken up from a state, by users who remember nothing, ends the same."""
    program = trial.make(case)
    simulator = Simulator(case.graph)

    def go(users: Users, state: Any, rounds: int) -> Any:
        while state.round < rounds:
            state = program.hear(users, state, simulator.deliver(program.say(state))[0])
        return state

    rounds = min(trial.most_rounds(case), 12)
    users = case.users()
    state = program.start(users, trial.start(case))
    whole = go(users, state, rounds)
    half = go(case.users(), go(case.users(), state, rounds // 2), rounds)
    where = f"taken up half way, {case.name}"
    everyone = np.arange(case.graph.m), case.graph
    _check_same(where, _join([whole], *everyone), _join([half], *everyone))
