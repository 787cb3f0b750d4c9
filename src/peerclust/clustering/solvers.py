"""The solvers by name: how each is tuned to a problem, and which one `"auto"` chooses.

There are two kinds. `dgc` and `accelerated` minimize J_rho (penalized): users' centers differ a
little, less with a larger rho. `admm`, `group-lasso` and `exact` end where all users have the same
centers, a stationary point of the pooled problem (exact consensus).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peerclust import theory
from peerclust.bregman import Bregman
from peerclust.clustering.problem import Problem
from peerclust.errors import ParameterError
from peerclust.graphs import Graph
from peerclust.programs.accelerated import Accelerated
from peerclust.programs.admm import ADMM
from peerclust.programs.dgc import DGC
from peerclust.programs.exact import Exact
from peerclust.programs.group_lasso import GroupLasso
from peerclust.programs.protocol import Program
from peerclust.text import parameter, show
from peerclust.validation import check_name

PENALIZED: dict[str, Callable[..., Program]] = {"dgc": DGC, "accelerated": Accelerated}
EXACT = ("admm", "group-lasso", "exact")
SOLVERS = ("auto", *PENALIZED, *EXACT)


@dataclass(frozen=True)
class SolverRequest:
    """The solver and the parameters that the caller requested; see `cluster`."""

    solver: str | Callable[..., Program]
    rho: float | str
    alpha: float | str
    B: int
    consensus_factor: float | str
    tol: float = 0.0


@dataclass(frozen=True)
class SolverChoice:
    """The chosen solver: its name, why, and how to make the program if it is penalized."""

    name: str
    why: str
    make: Callable[..., Program] | None = None

    @property
    def penalized(self) -> bool:
        """Whether the solver minimizes J_rho; a custom program is assumed to."""
        return self.make is not None


@dataclass(frozen=True)
class TunedSolver:
    """A program with its tuned parameters, None for those that it does not have."""

    program: Program
    rho: float | None
    c: float
    alpha: float | None
    why: dict[str, str]

    @property
    def penalized(self) -> bool:
        """Whether the program minimizes J_rho."""
        return self.alpha is not None


def choose(request: SolverRequest, loss: Any) -> SolverChoice:
    """Return the requested solver; "auto" is the one that suits the request.

    >>> from peerclust import KMeans
    >>> choose(SolverRequest("auto", "auto", "auto", 1, 1.0), KMeans()).name
    'admm'
    >>> choose(SolverRequest("auto", 100.0, "auto", 1, 1.0), KMeans()).name
    'accelerated'
    """
    solver = request.solver
    if not isinstance(solver, str):
        if not callable(solver):
            raise ParameterError(
                parameter("solver", "cluster") + " must be a name, or a callable (rho, alpha, B,"
                f" consensus_factor) that returns a program. Got {show(solver)}."
            )
        return SolverChoice(getattr(solver, "__name__", type(solver).__name__), "given", solver)
    name = check_name(solver, SOLVERS, "solver", "cluster")
    why = "requested or default"
    if name == "auto":
        name, why = _choose_automatically(request, loss)
    if name in PENALIZED:
        return SolverChoice(name, why, PENALIZED[name])
    _check_unused(name, request)
    return SolverChoice(name, why)


def _choose_automatically(request: SolverRequest, loss: Any) -> tuple[str, str]:
    for given, what in (
        (request.rho != "auto", "a given rho"),
        (request.alpha != "auto", "a given alpha"),
        (request.B != 1, "several updates per round"),
        (request.consensus_factor != 1.0, "a consensus factor"),
        (isinstance(loss, Bregman), "a Bregman loss"),
    ):
        if given:
            return "accelerated", f"{what} requires DGC, and momentum makes it fast"
    return "admm", "the joint clustering in few rounds; no sums or counts leave a user"


def _check_unused(name: str, request: SolverRequest) -> None:
    """Raise if a parameter was given that the solver does not use."""
    unused: list[tuple[str, Any, Any]] = [
        ("alpha", request.alpha, "auto"),
        ("B", request.B, 1),
        ("consensus_factor", request.consensus_factor, 1.0),
    ]
    if name != "group-lasso":
        unused.append(("rho", request.rho, "auto"))
    for unused_name, value, default in unused:
        if value != default:
            raise ParameterError(
                parameter(unused_name, "cluster")
                + f" must be left at {default!r} with the solver {name!r},"
                f" which does not use it. Got {show(value)}."
            )


def tune_penalized(
    problem: Problem, solver: SolverChoice, request: SolverRequest, rho: float
) -> TunedSolver:
    """Return a penalized solver, tuned for a rho."""
    assert solver.make is not None
    c = theory.compute_c(request.consensus_factor, rho)
    alpha, why = problem.choose_alpha(request.alpha, rho, c)
    program = solver.make(rho=rho, alpha=alpha, B=request.B, consensus_factor=c)
    return TunedSolver(program, rho, c, alpha, {"alpha": why})


def tune_exact(problem: Problem, solver: SolverChoice, request: SolverRequest) -> TunedSolver:
    """Return a solver that ends in exact consensus, tuned for the problem."""
    graph, total = problem.graph, problem.W_total
    rho, why = request.rho, {"rho": "given"}
    if isinstance(rho, str):
        rho = theory.group_lasso_rho(beta=problem.beta, W_total=total, spread=problem.spread)
        why = {"rho": "about the largest gradient of all rows together, beta W_total s"}
    program = make_exact(
        solver.name,
        graph,
        W=problem.W,
        W_total=total,
        steepness=problem.steepness,
        c=theory.admm_penalty(
            curvature=problem.beta * total / (graph.m * problem.K),
            lambda_2=graph.lambda_2.value,
            lambda_max=graph.lambda_max.value,
        ),
        rho=max(1.0, rho),
        tol=request.tol,
    )
    if isinstance(program, GroupLasso):
        return TunedSolver(program, program.rho, 0.0, None, why)
    return TunedSolver(program, None, 0.0, None, {})


def make_exact(
    name: str,
    graph: Graph,
    *,
    W: float,
    W_total: float,
    steepness: float,
    c: float,
    rho: float,
    tol: float,
) -> ADMM | GroupLasso | Exact:
    """Return the program of this name.

    W is the largest user's weight, `steepness` the factor by which the distance multiplies
    gradients, c the penalty of `admm_penalty`, and rho that of the group lasso.
    """
    if name == "exact":
        factors = graph.find_averaging_factors(theory.AVERAGING * tol)
        return Exact(factors, weight_ratio=W * graph.m / W_total)
    lambda_2 = graph.lambda_2.value
    # ||x_i - x_j|| is at most about ||L x|| / lambda_2.
    disagreement_weight = W * steepness / lambda_2 if lambda_2 > 0 else 0.0
    if name == "admm":
        return ADMM(c=c, D=int(graph.diameter.value), disagreement_weight=disagreement_weight)
    return GroupLasso(rho=rho, c=c, disagreement_weight=disagreement_weight)
