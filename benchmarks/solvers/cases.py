"""The problems on which solvers are compared, and the solvers' programs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from peerclust import graphs, initialize, losses, partition
from peerclust.arrays import Array, Classes
from peerclust.clustering import solvers
from peerclust.clustering.problem import Problem, prepare
from peerclust.clustering.restarts import plan_run
from peerclust.clustering.solvers import SolverRequest, TunedSolver, choose
from peerclust.datasets import gaussians, iris
from peerclust.distances import Euclidean
from peerclust.graphs import Graph
from peerclust.programs.protocol import State
from peerclust.programs.solvers import SOLVERS
from peerclust.runtimes.convergence import agree_on_curvature
from peerclust.runtimes.protocol import OnRound, Run, Runtime
from peerclust.theory import Curvature

# For dgc and accelerated, which need one.
RHO = 1000.0


@cache
def _digits() -> tuple[Array, Classes]:
    from sklearn.datasets import load_digits

    rows, classes = load_digits(return_X_y=True)
    return np.array(rows, dtype=np.float64), np.array(classes, dtype=np.intp)


DATA: dict[str, Callable[[], tuple[Array, Classes]]] = {
    "iris": iris,
    "digits": _digits,
    "gaussians": lambda: gaussians(2000, random_state=0),
}
# From a seed, which only the random graphs use.
GRAPHS: dict[str, Callable[[int], Graph]] = {
    "ring(10)": lambda _: graphs.ring(10),
    "ring(50)": lambda _: graphs.ring(50),
    "grid(8x8)": lambda _: graphs.grid(8, 8),
    "erdos-renyi(50)": lambda seed: graphs.erdos_renyi(50, 0.2, random_state=seed),
    "geometric(40)": lambda seed: graphs.geometric(40, 0.3, random_state=seed),
}
SPLITS: dict[str, Callable[[Classes, int, int], partition.Parts]] = {
    "hom": lambda classes, m, seed: partition.homogeneous(classes, m, random_state=seed),
    "het": lambda classes, m, seed: partition.by_class(
        classes, m, per_user=(1, 2), random_state=seed
    ),
}


@dataclass(frozen=True)
class Case:
    """A data set, a graph and a split, by their names in `DATA`, `GRAPHS` and `SPLITS`."""

    data: str
    graph: str
    split: str

    def __str__(self) -> str:
        return f"{self.data} {self.graph} {self.split}"

    def draw(self, seed: int) -> tuple[list[Array], Graph, int]:
        """Return each user's rows, the graph, and the number of classes as K."""
        rows, classes = DATA[self.data]()
        graph = GRAPHS[self.graph](seed)
        parts = SPLITS[self.split](classes, graph.m, seed)
        return [rows[part] for part in parts], graph, len(np.unique(classes))

    def prepare(
        self, seed: int, *, loss: str = "kmeans", init: str = "k-means++"
    ) -> tuple[Problem, Array]:
        """Return the problem and initial centers for it, (m, K, d)."""
        parts, graph, K = self.draw(seed)
        problem = prepare(
            parts,
            n_clusters=K,
            graph=graph,
            loss=losses.resolve(loss),
            distance=Euclidean(),
            weights="unit",
            runtime="simulator",
            random_state=seed,
        )
        start = initialize.resolve(init)
        x, _ = start.centers(problem.runtime, problem.users, K, problem.seed)
        return problem, x


RING_IRIS = Case("iris", "ring(10)", "hom")


def choose_auto(loss: Any) -> str:
    """Return the name of the solver that `auto` stands for with all other options at default."""
    return choose(SolverRequest("auto", "auto", "auto", 1, 1.0), loss, Euclidean()).spec.name


def tune(
    problem: Problem, x: Array, solver: str, *, rho: float = RHO, alpha: str = "auto"
) -> TunedSolver:
    """Return a solver with its parameters for runs from the centers x, (m, K, d).

    Only penalized solvers use `rho` and `alpha`.
    """
    spec = SOLVERS[solver]
    request = SolverRequest(solver, rho if spec.penalized else "auto", alpha, 1, 1.0)
    found = solvers.choose_rho(problem, spec, request)
    assert found is not None
    return solvers.tune(problem, spec, request, _measure_curvature(problem, x).mean, *found)


def run_solver(
    problem: Problem,
    tuned: TunedSolver,
    x: Array,
    *,
    rounds: int,
    tol: float,
    on_round: OnRound | None = None,
    runtime: Runtime | None = None,
) -> Run[State]:
    """Run a solver from x as `cluster` does, on a given runtime or on the problem's own."""
    curvature = _measure_curvature(problem, x)
    problem = problem if runtime is None else replace(problem, runtime=runtime)
    plan = plan_run(problem, tuned, tuned.program, x, curvature, rounds=rounds, tol=tol)
    return problem.carry_out(plan, on_round).run


def _measure_curvature(problem: Problem, x: Array) -> Curvature:
    return problem.carry_out(agree_on_curvature(problem.users, x, problem.graph.m))[0]
