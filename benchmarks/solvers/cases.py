"""The problems on which solvers are compared, and the solvers' programs for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from peerclust import graphs, initialize, losses, partition
from peerclust.arrays import Array, Classes
from peerclust.clustering import solvers
from peerclust.clustering.problem import Problem, prepare
from peerclust.clustering.solvers import SolverRequest, TunedSolver, choose
from peerclust.datasets import gaussians, iris
from peerclust.distances import Euclidean
from peerclust.graphs import Graph
from peerclust.programs.solvers import SOLVERS

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


def tune(problem: Problem, solver: str, *, rho: float = RHO, alpha: str = "auto") -> TunedSolver:
    """Return a solver with its parameters; only penalized ones use `rho` and `alpha`."""
    spec = SOLVERS[solver]
    request = SolverRequest(solver, rho if spec.penalized else "auto", alpha, 1, 1.0)
    found = solvers.choose_rho(problem, spec, request)
    assert found is not None
    return solvers.tune(problem, spec, request, *found)
