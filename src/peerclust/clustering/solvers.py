"""The choice of a solver for `cluster`, and its tuning to a problem; `programs.solvers` has all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from peerclust import theory
from peerclust.arrays import Array
from peerclust.clustering.problem import Problem
from peerclust.distances import Distance, Geometry
from peerclust.errors import ParameterError
from peerclust.losses import Loss, geometry_of
from peerclust.programs.certificate import Certify
from peerclust.programs.protocol import AnyProgram, Program
from peerclust.programs.solver_spec import (
    PARAMETERS,
    ProgramFactory,
    SolverSpec,
    Tuning,
    penalized_spec,
)
from peerclust.programs.solvers import CONSENSUS_DEFAULT, PENALIZED_DEFAULT, SOLVERS
from peerclust.text import parameter, show
from peerclust.validation import check_name


@dataclass(frozen=True)
class SolverRequest:
    """The solver and the parameters that the caller requested; see `cluster`."""

    solver: str | SolverSpec | ProgramFactory
    rho: float | str
    alpha: float | str
    B: int
    consensus_factor: float | str

    @property
    def parameters(self) -> dict[str, object]:
        """The values of `PARAMETERS`."""
        return {
            "rho": self.rho,
            "alpha": self.alpha,
            "B": self.B,
            "consensus_factor": self.consensus_factor,
        }


@dataclass(frozen=True)
class SolverChoice:
    """The chosen solver, and why."""

    spec: SolverSpec
    why: str


@dataclass(frozen=True)
class TunedSolver:
    """A program with its tuned parameters, None for those that it does not have."""

    spec: SolverSpec
    program: AnyProgram
    rho: float | None
    c: float
    alpha: float | None
    why: dict[str, str]

    @cached_property
    def penalty_rho(self) -> float | None:
        """The rho of J_rho; None if the program does not minimize it."""
        return self.rho if self.spec.penalized else None

    def make_certify(self, m: int, lambda_2: float) -> Certify:
        """Return the program that checks a result of this solver, for m users of a graph."""
        return Certify(m, rho=self.penalty_rho, c=self.c, lambda_2=lambda_2)


def choose(
    request: SolverRequest, loss: Loss, distance: Distance, *, full_precision: bool = True
) -> SolverChoice:
    """Return the requested solver; "auto" is the one that suits the request.

    `full_precision` is whether messages are float64, without noise.

    >>> from peerclust import Euclidean, KMeans
    >>> f, metric = KMeans(), Euclidean()
    >>> choose(SolverRequest("auto", "auto", "auto", 1, 1.0), f, metric).spec.name
    'exact'
    >>> choose(SolverRequest("auto", 100.0, "auto", 1, 1.0), f, metric).spec.name
    'accelerated'
    """
    solver = request.solver
    if isinstance(solver, SolverSpec):
        solver.check_options(request.parameters, "cluster")
        return SolverChoice(solver, "given")
    if not isinstance(solver, str):
        if not callable(solver):
            raise ParameterError(
                parameter("solver", "cluster")
                + " must be a name, a SolverSpec, or a callable (rho, alpha, B,"
                f" consensus_factor) that returns a program. Got {show(solver)}."
            )
        # A custom program is assumed to minimize J_rho.
        own = getattr(solver, "__name__", type(solver).__name__)
        return SolverChoice(penalized_spec(own, "a custom program", solver), "given")
    name = check_name(solver, ("auto", *SOLVERS), "solver", "cluster")
    if name == "auto":
        return _choose_automatically(request, geometry_of(loss, distance), full_precision)
    SOLVERS[name].check_options(request.parameters, "cluster")
    return SolverChoice(SOLVERS[name], "requested")


def _choose_automatically(
    request: SolverRequest, geometry: Geometry, full_precision: bool
) -> SolverChoice:
    words = {
        "rho": "a given rho",
        "alpha": "a given alpha",
        "B": "several updates per round",
        "consensus_factor": "a consensus factor",
    }
    reasons = [
        words[name]
        for name, value in request.parameters.items()
        if value != PARAMETERS[name] and not CONSENSUS_DEFAULT.takes(name)
    ]
    if not full_precision and CONSENSUS_DEFAULT.full_precision:
        reasons.append("an exchange format")
    if geometry.divergence is not None and not CONSENSUS_DEFAULT.bregman:
        reasons.append("a Bregman loss")
    if reasons:
        why = f"{reasons[0]} requires DGC, and momentum makes it fast"
        return SolverChoice(PENALIZED_DEFAULT, why)
    why = "the joint clustering in few rounds, by exact sums over all users"
    return SolverChoice(CONSENSUS_DEFAULT, why)


def choose_rho(
    problem: Problem, spec: SolverSpec, request: SolverRequest
) -> tuple[float | None, str] | None:
    """Return rho and how it was chosen; None if that takes pilot runs (`auto_rho`).

    A solver that takes no rho has None as its rho.
    """
    if not spec.takes("rho"):
        return None, ""
    rho = spec.find_rho(request.rho, problem.scales)
    if rho is not None:
        formula = spec.rho_formula if isinstance(request.rho, str) else None
        return rho, "given" if formula is None else formula.why
    if problem.graph.m == 1:
        return 1.0, "a single user has no neighbors to disagree with"
    return None


def tune(
    problem: Problem,
    spec: SolverSpec,
    request: SolverRequest,
    curvature: Array,
    rho: float | None = None,
    why: str = "",
) -> TunedSolver:
    """Return the solver tuned for the problem, with a rho that was chosen for the reason `why`.

    `curvature`, (K,), is the mean of the users' curvatures at the start.
    """
    reasons: dict[str, str] = {}
    alpha, some_rho = None, 1.0 if rho is None else rho
    c = theory.compute_c(request.consensus_factor, some_rho)
    if spec.own_steps and request.alpha == "auto":
        outside = "" if problem.users.geometry.in_theory else "; outside the theory"
        reasons["alpha"] = f"1 / (H / rho + 2 c |N_i|) for each user and center{outside}"
    elif spec.takes("alpha"):
        alpha, reasons["alpha"] = problem.choose_alpha(request.alpha, some_rho, c)
    if rho is not None:
        reasons["rho"] = why
    tuning = Tuning(
        make_graph=lambda: problem.graph,
        curvature=curvature,
        rho=some_rho,
        alpha=0.0 if alpha is None else alpha,
        B=request.B,
        consensus_factor=c,
    )
    program = spec.make(tuning)
    if not isinstance(program, Program):
        raise ParameterError(
            parameter("solver", "cluster") + " must make a program, with start(users, x),"
            f" say(state) and hear(users, state, heard). Got one that made {show(program)}."
        )
    return TunedSolver(spec, program, rho, c, alpha, reasons)
