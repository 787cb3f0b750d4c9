"""Conformance suites: what every loss, program and runtime must pass, a user's own too.

    from peerclust.testing import check_loss, check_program, check_runtime

Each raises AssertionError with the case that failed. "Equal" means equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import graphs
from peerclust.bregman import generalized_kl, squared_mahalanobis
from peerclust.distances import Distance, Euclidean, Mahalanobis
from peerclust.graphs import Graph
from peerclust.losses import Fair, Huber, KMeans, Logistic, Loss
from peerclust.programs.admm import ADMM
from peerclust.programs.agree import Average, Maximum
from peerclust.programs.dgc import DGC
from peerclust.programs.draw import Draw
from peerclust.programs.lsp2p import LSP2P
from peerclust.programs.nk_means import NKMeans
from peerclust.programs.protocol import Program, State
from peerclust.runtimes.loopback import Loopback
from peerclust.runtimes.protocol import Run
from peerclust.runtimes.simulator import Simulator
from peerclust.theory import safe_step, smoothness
from peerclust.users import Users

Array = NDArray[np.float64]

# Of the 13 users two are empty, and one has more rows than two segments of the kernels.
_SIZES = (5, 0, 1, 9, 2, 40, 3, 0, 70, 6, 1, 4, 129)
_LARGE = (5, 0, 1, 9, 2, 40, 3, 0, 70, 6, 1, 4, 20_000)


@dataclass(frozen=True)
class Case:
    """A small problem: 13 users of unequal size on some graph, their rows made from a seed."""

    name: str
    graph: Graph
    loss: Any = field(default_factory=KMeans)
    distance: Distance = field(default_factory=Euclidean)
    weighted: bool = True
    sizes: tuple[int, ...] = _SIZES
    dtype: type[Any] = np.float64

    def users(self) -> Users:
        """Make the users afresh, so that nothing is carried over from an earlier run."""
        rng = np.random.default_rng(7)
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        rows = rng.normal(size=(offsets[-1], 3)) + 4.0 * rng.integers(0, 3, (offsets[-1], 1))
        # Far enough above 0 for every loss's domain.
        rows = (np.abs(rows) + 1.0).astype(self.dtype)
        weights = rng.uniform(0.1, 2.0, len(rows)) if self.weighted else 1.0
        return Users(rows, offsets, weights=weights, loss=self.loss, distance=self.distance)

    def start(self) -> Array:
        """Give each user centers of its own, (13, 4, 3)."""
        return 1.0 + np.abs(np.random.default_rng(8).normal(size=(self.graph.m, 4, 3)) * 3.0)

    def step(self, rho: float) -> float:
        """Give a safe step for a consensus factor up to 1."""
        return safe_step(
            beta=smoothness(self.loss, self.distance),
            W=float(self.users().total_weights.max()),
            rho=rho,
            lambda_max=self.graph.lambda_max.value,
        )

    def relative_step(self, rho: float) -> float:
        """Give a safe step for a program that divides it by a center's own curvature.

        That curvature, weight / rho + |N_i|, is at least the least degree.
        """
        return self.step(rho) * float(self.graph.degree.min())


def cases() -> Iterator[Case]:
    """Yield every loss and distance on a ring, every graph, large users and float32 rows."""
    A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
    ring = graphs.ring(13)
    for loss in (KMeans(), Huber(0.7), Logistic(), Fair(0.5), _Own()):
        for distance in (Euclidean(), Mahalanobis(A)):
            name = f"{loss}, {type(distance).__name__}, ring(13)"
            yield Case(name, ring, loss, distance)
    for bregman in (squared_mahalanobis(A), generalized_kl(smoothness=9.0)):
        yield Case(f"{bregman.name}, ring(13)", ring, bregman)
    for graph in (
        graphs.path(13),
        graphs.star(13),
        graphs.complete(13),
        graphs.erdos_renyi(13, 0.3, random_state=0),
        graphs.geometric(13, 0.45, random_state=0),
    ):
        yield Case(f"KMeans, {graph.name}", graph, weighted=False)
        yield Case(f"Huber, {graph.name}", graph, Huber(0.7))
    for loss in (KMeans(), Huber(0.7)):
        yield Case(f"{loss}, a large user", ring, loss, sizes=_LARGE)
        yield Case(f"{loss}, float32", ring, loss, sizes=_LARGE, dtype=np.float32)


@dataclass(frozen=True)
class _Own:
    """A loss that is not built in: h(r) = sqrt(1 + r^2) - 1."""

    smoothness: float = 1.0

    def value(self, r2: Array) -> Array:
        return np.asarray(np.sqrt(1.0 + r2) - 1.0)

    def gamma(self, r2: Array) -> Array:
        return np.asarray(1.0 / np.sqrt(1.0 + r2))


@dataclass(frozen=True)
class Trial:
    """A program to try: made for each case, from users' own centers or from two common ones.

    The threshold is met by some cases before the rounds run out and not by others; below zero the
    users never stop. `rounds` may depend on the case.
    """

    make: Callable[[Case], Program]
    common_start: bool = False
    rounds: int | Callable[[Case], int] = 100
    threshold: float = 20.0

    def start(self, case: Case) -> Array:
        """Give the start, (13, k, 3)."""
        x = case.start()
        return np.repeat(x[:1, :2], len(x), axis=0) if self.common_start else x

    def most_rounds(self, case: Case) -> int:
        """Give after how many rounds the case ends at the latest."""
        return self.rounds if isinstance(self.rounds, int) else self.rounds(case)


# The programs that every runtime must drive alike; a new program joins by a line.
PROGRAMS = {
    "dgc": Trial(lambda case: DGC(rho=20.0, alpha=case.step(20.0))),
    "dgc, B = 3, c = 0.5": Trial(
        lambda case: DGC(rho=20.0, alpha=case.step(20.0), B=3, consensus_factor=0.5)
    ),
    # With a smaller c the multipliers carry centers out of the domain of the KL divergence.
    "admm": Trial(lambda _: ADMM(c=5.0)),
    "nk-means": Trial(lambda case: NKMeans(rho=20.0, alpha=case.relative_step(20.0))),
    "lsp2p": Trial(lambda _: LSP2P()),
    "draw": Trial(lambda _: Draw(seed=3, step=1, n=5), True, 2, -1.0),
    "draw of distances": Trial(
        lambda _: Draw(seed=3, step=1, n=50, tell="distance"), True, 2, -1.0
    ),
    "average": Trial(
        lambda case: Average(case.graph.averaging_factors),
        rounds=lambda case: Average(case.graph.averaging_factors).rounds,
        threshold=-1.0,
    ),
    "maximum": Trial(lambda _: Maximum(), rounds=1, threshold=-1.0),
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


def check_program(trial: Trial) -> None:
    """Check a program on the simulator and on loopback, and that all it needs is in its state.

    >>> check_program(Trial(lambda case: DGC(rho=5.0, alpha=case.step(5.0), B=2), rounds=20))
    """
    for case in cases():
        x = trial.start(case)
        kept = x.copy()
        ends = [_end(runtime, trial, case, x) for runtime in (Loopback, Simulator)]
        assert np.array_equal(kept, x), f"the program wrote to its start: {case.name}"
        _check_same(case.name, *ends)
        _check_resume(trial, case)


def check_runtime(runtime: Callable[[Graph], Any]) -> None:
    """Check that a runtime ends every program of `PROGRAMS` as loopback does, stopping included.

    >>> check_runtime(Simulator)
    """
    for case in cases():
        for name, trial in PROGRAMS.items():
            x = trial.start(case)
            ends = [_end(each, trial, case, x) for each in (Loopback, runtime)]
            _check_same(f"{name}, {case.name}", *ends)


def _end(runtime: Callable[[Graph], Any], trial: Trial, case: Case, x: Array) -> dict[str, Any]:
    """Give everything by which two ends are compared."""
    changes: list[int] = []

    def watch(_: Sequence[State], blocks: Sequence[Users]) -> None:
        changes.append(sum(block.changed for block in blocks))

    run: Run = runtime(case.graph).run(
        trial.make(case),
        case.users(),
        x,
        rounds=trial.most_rounds(case),
        threshold=trial.threshold,
        watch=watch,
    )
    told = {"rounds": run.rounds, "stopped": run.stopped, "traffic": run.traffic}
    return told | {"labels changed": changes} | _join(run.states)


def _join(states: Sequence[Any]) -> dict[str, Any]:
    """Give every field of the blocks' states, arrays as bytes; what is all users' must agree.

    An array is its users' if it has as many rows as the block has users.
    """
    joined: dict[str, Any] = {}
    for each in fields(states[0]):
        values = [getattr(state, each.name) for state in states]
        if isinstance(values[0], np.ndarray) and len(values[0]) == len(states[0].x):
            joined[each.name] = np.concatenate(values).tobytes()
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
    _check_same(where, _join([whole]), _join([half]))
