"""What a solution records of its run: status, certificate and trace.

The files `status`, `certificate` and `trace` compute them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array
from peerclust.doors import Door
from peerclust.text import count


@dataclass(frozen=True)
class Status:
    """How a run ended, and what to do about it.

    `name` is "converged" or "ran out of rounds"; peers have more. `advice` is a sentence, with
    names of parameters in backticks.

    >>> Status("converged", "Every residual was below tol.").converged
    True
    """

    name: str
    advice: str

    @property
    def converged(self) -> bool:
        """Whether the users stopped by themselves with every residual below tol."""
        return self.name == "converged"

    def __str__(self) -> str:
        return f"{self.name}: {self.advice}"

    def renamed(self, door: Door) -> Status:
        """Return the status with the names that parameters have at an entry point.

        >>> from peerclust.doors import FIT
        >>> from peerclust.text import mention
        >>> Status("ran out of rounds", "Allow more " + mention("rounds")).renamed(FIT).advice
        'Allow more --rounds'
        """
        return replace(self, advice=str(door.translate(self.advice)))


@dataclass(frozen=True, repr=False)
class Certificate:
    """The numbers that show how good a result is; in scaled units if the rows were scaled.

    Attributes
    ----------
    residual : float
        An estimate of how far a center still has to go, as a fraction of the RMS spread s of the
        joint data: the largest rho ||grad_ik J_rho|| / (s min(Hm(k), H_i(k) + f(k) rho c lambda_2))
        over users i and centers k. H_i(k) is the curvature of user i's cost there, Hm(k) its mean
        over users, and f(k) how even it is (docs/theory.md). For solvers that end in consensus it
        is the pooled residual or the largest disagreement in a center over s, whichever is larger.
    pooled_residual : float
        The same for the pooled problem, with all rows at one user, at the mean centers: the largest
        norm of the gradient of all rows over s m Hm(k).
    disagreement, disagreement_stacked : float
        Mean over k of the largest ||x_i(k) - x_j(k)||, and the largest ||x_i - x_j||.
    disagreement_exact : bool
        Whether these are exact, or upper bounds (more than 2000 users, and peers).
    cost : float
        J_rho at the users' centers, each row assigned to its nearest; for solvers that end in
        consensus the sum of the users' costs.
    pooled_cost : float
        The clustering cost of all rows at the mean centers.
    rounds, messages, bytes : int
        What the first run took; a message is from one user to one neighbor.
    setup_rounds, setup_messages, setup_bytes : int
        What scaling, initialization, other restarts, the choice of delta and rho, and certificates
        took in addition; the rounds are those of the choice of rho only.
    search_rounds, search_messages, search_bytes, moves, moves_kept : int
        What came after the first run took: the moves of a search, and the last run to `tol`, which
        follows also if there was no move. The number of moves, and of those that lowered the cost.
    spread : float
        s.
    largest_weight : float
        W.
    """

    residual: float
    pooled_residual: float
    disagreement: float
    disagreement_stacked: float
    disagreement_exact: bool
    cost: float
    pooled_cost: float
    rounds: int
    messages: int
    bytes: int
    setup_rounds: int
    setup_messages: int
    setup_bytes: int
    search_rounds: int
    search_messages: int
    search_bytes: int
    moves: int
    moves_kept: int
    spread: float
    largest_weight: float

    def __repr__(self) -> str:
        from peerclust.clustering import display

        return display.certificate_text(self)

    def _repr_html_(self) -> str:
        from peerclust.clustering import display

        return display.certificate_html(self)


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """One row per round: after round t, with the labels that the round used.

    The rounds of a search follow those of the first run, also those of moves that were not kept.
    If the best run had a residual below `tol` already, no last run follows the moves, and the last
    rows may be those of a move that was not kept. The certificate is always that of the result.

    `cost`, `disagreement` and `disagreement_stacked` are as in the certificate. `changed` is the
    number of labels that differ from those of the row before, also if another run begins; in the
    first round with labels, it is the number of all rows. `residual` is the largest user residual
    at the start of the round, NaN if one is unknown. In scaled units if the rows were scaled.
    """

    cost: Array
    disagreement: Array
    disagreement_stacked: Array
    changed: NDArray[np.int64]
    residual: Array

    def __len__(self) -> int:
        return len(self.cost)

    def __repr__(self) -> str:
        return f"<Trace: {count(len(self), 'round')}>"
