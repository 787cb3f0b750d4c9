"""Conformance suites: what every loss, program and runtime must pass, a user's own too.

    from peerclust.testing import check_loss, check_program, check_runtime

Each raises AssertionError with the case that failed. "Equal" means equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import graphs
from peerclust.bregman import squared_mahalanobis
from peerclust.distances import Distance, Euclidean, Mahalanobis
from peerclust.graphs import Graph
from peerclust.losses import Fair, Huber, KMeans, Logistic, Loss
from peerclust.programs.dgc import DGC
from peerclust.programs.draw import Draw
from peerclust.programs.protocol import Program
from peerclust.runtimes.loopback import Loopback
from peerclust.runtimes.simulator import Simulator
from peerclust.theory import safe_step, smoothness
from peerclust.users import Users

Array = NDArray[np.float64]

_ROUNDS = 12


@dataclass(frozen=True)
class Case:
    """A small problem: 13 users of unequal size, two of them empty, on some graph."""

    name: str
    graph: Graph
    loss: Any
    distance: Distance
    weighted: bool

    def users(self) -> Users:
        """Make the users afresh, so that nothing is carried over from an earlier run."""
        rng = np.random.default_rng(7)
        sizes = np.array([5, 0, 1, 9, 2, 40, 3, 0, 70, 6, 1, 4, 129])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        rows = rng.normal(size=(offsets[-1], 3)) + 4.0 * rng.integers(0, 3, (offsets[-1], 1))
        weights = rng.uniform(0.1, 2.0, len(rows)) if self.weighted else 1.0
        return Users(rows, offsets, weights=weights, loss=self.loss, distance=self.distance)

    def start(self) -> Array:
        """Give each user centers of its own, (13, 4, 3)."""
        return np.random.default_rng(8).normal(size=(self.graph.m, 4, 3)) * 3.0

    def step(self, rho: float) -> float:
        """Give a safe step."""
        return safe_step(
            beta=smoothness(self.loss, self.distance),
            W=float(self.users().total_weights.max()),
            rho=rho,
            lambda_max=self.graph.lambda_max.value,
        )


def cases() -> Iterator[Case]:
    """Yield every loss with every distance on a ring, and every graph with K-means and Huber."""
    A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
    losses = (KMeans(), Huber(0.7), Logistic(), Fair(0.5), _Own())
    for loss in losses:
        for distance in (Euclidean(), Mahalanobis(A)):
            name = f"{loss}, {type(distance).__name__}, ring(13)"
            yield Case(name, graphs.ring(13), loss, distance, weighted=True)
    yield Case("Bregman, ring(13)", graphs.ring(13), squared_mahalanobis(A), Euclidean(), True)
    for graph in (
        graphs.path(13),
        graphs.star(13),
        graphs.complete(13),
        graphs.erdos_renyi(13, 0.3, random_state=0),
        graphs.geometric(13, 0.45, random_state=0),
    ):
        yield Case(f"KMeans, {graph.name}", graph, KMeans(), Euclidean(), weighted=False)
        yield Case(f"Huber, {graph.name}", graph, Huber(0.7), Euclidean(), weighted=True)


@dataclass(frozen=True)
class _Own:
    """A loss that is not built in: h(r) = sqrt(1 + r^2) - 1."""

    smoothness: float = 1.0

    def value(self, r2: Array) -> Array:
        return np.asarray(np.sqrt(1.0 + r2) - 1.0)

    def gamma(self, r2: Array) -> Array:
        return np.asarray(1.0 / np.sqrt(1.0 + r2))


MakeProgram = Callable[[Case], Program]

# The programs that every runtime must drive alike; a new program joins by a line.
PROGRAMS: dict[str, MakeProgram] = {
    "dgc": lambda case: DGC(rho=20.0, alpha=case.step(20.0)),
    "dgc, B = 3": lambda case: DGC(rho=20.0, alpha=case.step(20.0), B=3),
    "draw": lambda _: Draw(seed=3, step=1, n=5),
    "draw of distances": lambda _: Draw(seed=3, step=1, n=50, tell="distance"),
}


def check_loss(loss: Loss) -> None:
    """Check that a loss is convex and increasing, that gamma is its slope and smoothness its bound.

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


def check_program(make: MakeProgram) -> None:
    """Check a program on the simulator and on loopback, and that all it needs is in its state.

    >>> check_program(lambda case: DGC(rho=5.0, alpha=case.step(5.0), B=2))
    """
    for case in cases():
        program = make(case)
        x = _begin(program, case)
        kept = x.copy()
        _same(case, program, _end(Loopback, program, case), _end(Simulator, program, case))
        assert np.array_equal(kept, x), f"{program} wrote to its start ({case.name})"
        _check_resume(program, case)


def check_runtime(runtime: Callable[[Graph], Any]) -> None:
    """Check that a runtime ends every program of `PROGRAMS` as loopback does, stopping included.

    >>> check_runtime(Simulator)
    """
    for case in cases():
        for make in PROGRAMS.values():
            program = make(case)
            _same(case, program, _end(Loopback, program, case), _end(runtime, program, case))


def _begin(program: Program, case: Case) -> Array:
    # A draw starts from centers that are common to all users.
    return case.start()[0, :2] if isinstance(program, Draw) else case.start()


def _end(runtime: Callable[[Graph], Any], program: Program, case: Case) -> dict[str, Any]:
    """Give everything by which two ends are compared."""
    seen: list[tuple[int, int]] = []

    def watch(states: Any, blocks: Any) -> None:
        seen.append((states[0].round, sum(block.changed for block in blocks)))

    x = _begin(program, case)
    drawing = isinstance(program, Draw)
    run = runtime(case.graph).run(
        program,
        case.users(),
        x,
        rounds=2 if drawing else 150,
        # Above the rounding of any case, and met by some cases before the rounds run out.
        threshold=-1.0 if drawing else 8.0,
        watch=watch,
    )
    states = run.states
    arrays = [state.drawn for state in states] if drawing else [run.x]
    arrays.append(np.concatenate([state.residual for state in states]))
    return {
        "arrays": [arrays[0], arrays[-1]],
        "agreed": all(np.array_equal(a, arrays[0], equal_nan=True) for a in arrays[:-1]),
        "rounds": run.rounds,
        "stopped": run.stopped,
        "traffic": run.traffic,
        "seen": seen,
    }


def _same(case: Case, program: Program, reference: dict[str, Any], end: dict[str, Any]) -> None:
    where = f"{program}, {case.name}"
    assert end["agreed"], f"users hold different draws: {where}"
    for name in ("rounds", "stopped", "traffic", "seen"):
        assert end[name] == reference[name], f"{name} differ: {where}"
    for ours, theirs in zip(end["arrays"], reference["arrays"], strict=True):
        assert ours.tobytes() == theirs.tobytes(), f"the last bits differ: {where}"


def _check_resume(program: Program, case: Case) -> None:
    """Check that a run taken up from a state, by users who remember nothing, ends the same."""
    simulator = Simulator(case.graph)

    def go(users: Users, state: Any, rounds: int) -> Any:
        while state.round < rounds:
            state = program.hear(users, state, simulator.deliver(program.say(state))[0])
        return state

    rounds = 2 if isinstance(program, Draw) else _ROUNDS
    users = case.users()
    state = program.start(users, _begin(program, case))
    whole = go(users, state, rounds)
    half = go(case.users(), go(case.users(), state, rounds // 2), rounds)
    assert whole.x.tobytes() == half.x.tobytes(), (
        f"{program} keeps more than its state: {case.name}"
    )
