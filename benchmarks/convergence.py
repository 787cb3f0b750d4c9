"""Whether "converged" means converged: the same runs, continued for 20 times as many rounds.

Problems are random: mixtures with and without outliers, offsets and empty users, split evenly or by
class, on several graphs, at scales from 1e-6 to 1e6. Each loss and solver gets its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import peerclust as pc
from benchmarks.measures import Measure, Progress
from peerclust.arrays import Array
from peerclust.graphs import Graph
from peerclust.losses import LOSSES
from peerclust.programs.solvers import SOLVERS

_SEEDS = 25
_TOL = 1e-6
_ROUNDS = 5000
_CONTINUED = 20

# What a center may still move, in units of the spread, and the cost may still change, in units of
# the cost of one cluster.
_MOTION = 1e-3
_COST = 1e-4

# Slow by nature at a large rho, and counted apart.
_SLOW = "dgc"


@dataclass(frozen=True, eq=False)
class Problem:
    """The rows of users on a graph, to be divided into K clusters."""

    parts: list[Array]
    K: int
    graph: Graph


@dataclass(frozen=True)
class Outcome:
    """Whether a run converged, and what a continued run changed: motion and cost, relative."""

    converged: bool
    motion: float = 0.0
    cost: float = 0.0

    @property
    def at_rest(self) -> bool:
        """Whether the continued run ended at the same centers and cost."""
        return self.motion <= _MOTION and self.cost <= _COST


def make_problem(seed: int, loss: str, solver: str) -> Problem:
    """Return a random problem."""
    place = list(LOSSES).index(loss), list(SOLVERS).index(solver)
    rng = np.random.default_rng([seed, *place])
    K, d = int(rng.integers(2, 7)), int(rng.integers(1, 6))
    n, m = int(rng.integers(100, 600)), int(rng.integers(3, 20))
    classes = rng.integers(K, size=n)
    means = rng.normal(size=(K, d)) * rng.uniform(1.5, 8.0)
    rows = means[classes] + rng.normal(size=(n, d)) * rng.uniform(0.3, 1.5, (K, 1))[classes]
    if rng.random() < 0.3:
        rows[rng.random(n) < 0.05] += rng.normal(size=d) * 30.0
    if rng.random() < 0.3:
        rows += rng.normal(size=d) * 100.0
    if rng.random() < 0.4:
        rows = rows[np.argsort(classes, kind="stable")]
    rows *= 10.0 ** rng.uniform(-6.0, 6.0)
    graphs = [
        pc.graphs.ring(m),
        pc.graphs.star(m),
        pc.graphs.complete(m),
        pc.graphs.exponential(m),
        pc.graphs.erdos_renyi(m, min(1.0, 3.0 * np.log(m) / m), random_state=seed),
    ]
    # Some users may be empty.
    parts = np.split(rows, np.sort(rng.integers(0, n, size=m - 1)))
    return Problem(parts, K, graphs[rng.integers(len(graphs))])


def measure(progress: Progress) -> Iterator[Measure]:
    """Yield how many runs converge, and how many of these are at rest."""
    outcomes: dict[str, list[Outcome]] = {solver: [] for solver in SOLVERS}
    for solver, found in outcomes.items():
        for loss in LOSSES:
            progress(f"{solver}, {loss}: {_SEEDS} problems")
            found += [_continue(seed, loss, solver) for seed in range(_SEEDS)]
    fast = [each for solver in SOLVERS if solver != _SLOW for each in outcomes[solver]]
    yield from _count("all_but_dgc", fast, at_least=0.9)
    yield from _count(_SLOW, outcomes[_SLOW], at_least=None)
    for solver in SOLVERS:
        done = sum(each.converged for each in outcomes[solver])
        yield Measure(f"{solver}_converged", done, f"of {len(outcomes[solver])} runs")


def _count(name: str, outcomes: list[Outcome], at_least: float | None) -> Iterator[Measure]:
    done = [each for each in outcomes if each.converged]
    rest = sum(each.at_rest for each in done) / max(len(done), 1)
    worst = max((each.motion for each in done), default=0.0)
    cost = max((each.cost for each in done), default=0.0)
    detail = (
        f"of {len(done)} converged runs, {_CONTINUED} times as many rounds move no center by more"
        f" than {_MOTION:g} of the spread and the cost by {_COST:g} of that of one cluster; worst"
        f" {worst:.1e} and {cost:.1e}"
    )
    yield Measure(f"{name}_at_rest", rest, detail, at_least=0.99)
    detail = f"of {len(outcomes)} runs end converged within {_ROUNDS} rounds at tol={_TOL:g}"
    yield Measure(f"{name}_converge", len(done) / len(outcomes), detail, at_least=at_least)


def _continue(seed: int, loss: str, solver: str) -> Outcome:
    """Run to convergence, and again for many more rounds."""
    problem = make_problem(seed, loss, solver)
    given: dict[str, Any] = {"graph": problem.graph, "loss": loss, "random_state": seed}
    options: dict[str, Any] = given | {"n_clusters": problem.K, "solver": solver, "search": "none"}
    if solver == _SLOW:
        options["rho"] = 10.0
    ended = pc.cluster(problem.parts, tol=_TOL, rounds=_ROUNDS, **options)
    if not ended.status.converged:
        return Outcome(converged=False)
    rounds = (1 + _CONTINUED) * ended.certificate.rounds
    continued = pc.cluster(problem.parts, tol=0, rounds=rounds, **options)
    one = pc.cluster(problem.parts, n_clusters=1, solver="exact", **given).certificate.pooled_cost
    change = abs(ended.certificate.pooled_cost - continued.certificate.pooled_cost)
    moved = np.linalg.norm(ended.centers - continued.centers, axis=2).max()
    return Outcome(True, float(moved / ended.certificate.spread), change / one)
