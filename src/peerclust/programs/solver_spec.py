"""`SolverSpec`: what a solver takes, sends and survives, and how its program is tuned to a problem.

A solver is a program with the choice of its parameters, by name. Its spec is in the file of its
program, and `solvers.SOLVERS` lists all specs. Everything else asks the spec and compares no names:
`cluster` and peers, the checks of options and network files, status and certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from peerclust import theory
from peerclust.arrays import Array
from peerclust.errors import ParameterError
from peerclust.programs.protocol import AnyProgram
from peerclust.text import parameter, show
from peerclust.theory import Scales

# The parameters that a solver may take, with the values that mean "not given".
PARAMETERS: dict[str, object] = {"rho": "auto", "alpha": "auto", "B": 1, "consensus_factor": 1.0}


class Measure(Protocol):
    """A number that describes a graph."""

    @property
    def value(self) -> float:
        """The number."""


class Network(Protocol):
    """The measures of a communication graph by which solvers are tuned; read only where needed."""

    @property
    def m(self) -> int:
        """The number of users."""

    @property
    def lambda_max(self) -> Measure:
        """The largest eigenvalue of the Laplacian."""

    @property
    def lambda_2(self) -> Measure:
        """The second smallest eigenvalue of the Laplacian."""

    @property
    def diameter(self) -> Measure:
        """The longest shortest path."""


@dataclass(frozen=True)
class Tuning:
    """What a program is made from; `cluster` and peers fill it in alike.

    Parameters that a solver does not take may have any value. The graph is made only for a solver
    that asks for it: a peer that joins late has not checked yet what a neighbor reported of it, and
    the measures of a large graph take long. `curvature`, (K,), is the mean over users of the
    curvatures of their costs at the start, on which they have agreed.
    """

    make_graph: Callable[[], Network]
    curvature: Array
    rho: float = 1.0
    alpha: float = 0.0
    B: int = 1
    consensus_factor: float = 1.0

    @cached_property
    def graph(self) -> Network:
        """The communication graph."""
        return self.make_graph()

    @property
    def penalties(self) -> tuple[float, ...]:
        """The penalties c of ADMM and its relatives, one per center."""
        penalties: list[float] = theory.admm_penalty(
            curvature=self.curvature,
            lambda_2=self.graph.lambda_2.value,
            lambda_max=self.graph.lambda_max.value,
        ).tolist()
        return tuple(penalties)

    @property
    def disagreement_weight(self) -> float:
        """1 / lambda_2(L): ||x_i - mean|| is at most about ||L x|| / lambda_2."""
        lambda_2 = self.graph.lambda_2.value
        return 1.0 / lambda_2 if lambda_2 > 0 else 0.0


@dataclass(frozen=True)
class RhoFormula:
    """A formula for rho="auto", and the reason that a solution gives for its value."""

    compute: Callable[[Scales], float]
    why: str


class ProgramFactory(Protocol):
    """A class of programs, or a function, that takes all `PARAMETERS`."""

    def __call__(self, *, rho: float, alpha: float, B: int, consensus_factor: float) -> AnyProgram:
        """Return the program with these parameters."""


def stays_in_box(condition: float) -> float:
    """Return the overshoot of a solver whose centers stay in the hull of rows and starts.

    With the Euclidean distance and a safe step they never leave it (lm:bdd-fix-pt). A Mahalanobis
    distance rotates gradients; the condition number of A is a generous allowance.
    """
    return condition - 1.0


def ten_widths(condition: float) -> float:
    """Return a generous overshoot, for momentum or multipliers that carry centers outside."""
    return 10.0 * condition


@dataclass(frozen=True)
class SolverSpec:
    """A solver by name: what it takes, sends and survives, and how its program is made.

    Attributes
    ----------
    name, summary : str
        The name, and one line of description.
    make : callable
        Returns the program for a `Tuning`.
    parameters : tuple of names
        Those of `PARAMETERS` that it takes; others are rejected.
    max_overshoot : callable
        Returns how far centers may leave the bounding box of rows and starts, in widths of it, for
        the condition number of the distance's matrix A (1 if it is Euclidean). Peers reject what
        is further away.
    penalized : bool
        Whether it minimizes J_rho, so that users' centers differ a little. Otherwise it ends where
        all users have the same centers, a stationary point of the pooled problem.
    own_steps : bool
        Whether alpha="auto" means a step size of its own for each user and center, and the program
        is made with an alpha of 0. Otherwise it is one safe step for all.
    rho_formula : RhoFormula or None
        What rho="auto" means. Without a formula it is found in pilot runs (`clustering.auto_rho`).
    survives_loss : bool
        Whether a run of peers may continue after the loss of one, on a changed graph.
    sends_sums : bool
        Whether sums and counts of rows leave a user, not only centers.
    full_precision : bool
        Whether messages must be float64, without noise.
    tolerates_noise : bool
        Whether noisy or lost messages leave it near its fixed point.
    bregman : bool
        Whether it suits every Bregman loss.
    """

    name: str
    summary: str
    make: Callable[[Tuning], AnyProgram]
    parameters: tuple[str, ...] = ()
    max_overshoot: Callable[[float], float] = ten_widths
    penalized: bool = False
    own_steps: bool = False
    rho_formula: RhoFormula | None = None
    survives_loss: bool = False
    sends_sums: bool = False
    full_precision: bool = False
    tolerates_noise: bool = False
    bregman: bool = False

    def takes(self, parameter: str) -> bool:
        """Return whether the solver takes this parameter."""
        return parameter in self.parameters

    def find_rho(self, rho: float | str, scales: Scales) -> float | None:
        """Return rho if it is given or has a formula; None if the entry point must choose it."""
        if not isinstance(rho, str):
            return float(rho)
        return None if self.rho_formula is None else self.rho_formula.compute(scales)

    def check_options(self, given: Mapping[str, object], of: str) -> None:
        """Raise if an option has a value that does not go with this solver.

        `given` has some of the parameters, `exchange` and `on_loss`; `of` names the whole.
        """
        needed = {
            name: (default, "which does not use it")
            for name, default in PARAMETERS.items()
            if not self.takes(name)
        }
        if self.full_precision:
            needed["exchange"] = "float64", "which needs every digit of a message"
        if not self.survives_loss:
            needed["on_loss"] = "stop", "which needs a fixed graph"
        for name, value in given.items():
            if name in needed and value != needed[name][0]:
                must, why = needed[name]
                raise ParameterError(
                    parameter(name, of)
                    + f" must be {must!r} with the solver {self.name!r}, {why}. Got {show(value)}."
                )


def penalized_spec(
    name: str,
    summary: str,
    make: ProgramFactory,
    max_overshoot: Callable[[float], float] = ten_widths,
    *,
    own_steps: bool = False,
) -> SolverSpec:
    """Return the spec of a solver that minimizes J_rho and takes all `PARAMETERS`."""
    return SolverSpec(
        name=name,
        summary=summary,
        make=lambda t: make(rho=t.rho, alpha=t.alpha, B=t.B, consensus_factor=t.consensus_factor),
        parameters=tuple(PARAMETERS),
        max_overshoot=max_overshoot,
        penalized=True,
        own_steps=own_steps,
        survives_loss=True,
        tolerates_noise=True,
        bregman=True,
    )
