"""What the paper proves, as numbers: smoothness, safe steps, and how large rho should be.

Each function names its equation. Where the paper's constants assume weights that sum to 1, the
general form is given: W is the largest total weight of a user.
"""

from __future__ import annotations

import math
from typing import Any

from peerclust.bregman import Bregman
from peerclust.distances import Distance
from peerclust.errors import ParameterError
from peerclust.validation import check_number

# alpha="auto" is this share of the bound that lm:decr asks alpha to stay below.
SAFETY = 0.99

# rho="auto" aims at a disagreement of this fraction of the joint data's RMS spread.
AIMED_DISAGREEMENT = 0.01


def smoothness(loss: Any, distance: Distance) -> float:
    """Give beta of the loss under the distance: Mahalanobis multiplies it by lambda_max(A).

    >>> from peerclust import Huber, Mahalanobis
    >>> smoothness(Huber(1.0), Mahalanobis([[4.0, 0.0], [0.0, 1.0]]))
    4.0
    """
    return float(loss.smoothness) * distance.largest


def gradient_smoothness(
    *, beta: float, W: float, rho: float, lambda_max: float, consensus_factor: float = 1.0
) -> float:
    """Give beta W / rho + c lambda_max(L), the smoothness of J_rho (lm:J_rho-co-coerc).

    >>> gradient_smoothness(beta=1.0, W=15.0, rho=10.0, lambda_max=4.0)
    5.5
    """
    return beta * W / rho + consensus_factor * lambda_max


def safe_step(
    *, beta: float, W: float, rho: float, lambda_max: float, consensus_factor: float = 1.0
) -> float:
    """Give alpha="auto": 0.99 / (beta W / rho + c lambda_max(L)), within thm:convergence.

    >>> round(safe_step(beta=1.0, W=15.0, rho=10.0, lambda_max=4.0), 6)
    0.18
    """
    bound = gradient_smoothness(
        beta=beta, W=W, rho=rho, lambda_max=lambda_max, consensus_factor=consensus_factor
    )
    # Only users without rows and without neighbors have nothing that could move them.
    return SAFETY / bound if bound > 0 else 1.0


def paper_step(*, m: int, largest: int, rho: float, lambda_max: float) -> float:
    """Give alpha="paper": 1 / (2 m |D_max| / rho + lambda_max(L) + 1), the experiments' step.

    `largest` is the number of rows of the largest user. The step is not inside the safe bound for
    every loss: the fair loss with m = 2 is a counterexample.

    >>> round(paper_step(m=10, largest=15, rho=10.0, lambda_max=4.0), 6)
    0.028571
    """
    return 1.0 / (2.0 * m * largest / rho + lambda_max + 1.0)


def consensus_factor(value: float | str, rho: float) -> float:
    """Give the factor c of the consensus term: a constant > 0, or 1 - 1/rho (the paper's remark).

    >>> consensus_factor("1-1/rho", 10.0)
    0.9
    """
    if isinstance(value, str):
        if value.replace(" ", "") != "1-1/rho":
            raise ParameterError(
                f"`consensus_factor` of cluster must be a number > 0 or '1-1/rho'. Got {value!r}."
            )
        return 1.0 - 1.0 / rho
    return check_number(value, "consensus_factor", "cluster", above=0)


def rho_for_gradient(*, eps: float, beta: float, radius: float, W_total: float = 1.0) -> float:
    """Give rho_0 = 2 beta R_0 W / eps, beyond which ||L x_rho|| <= eps at a fixed point.

    R_0 is the largest norm of a row or a start (agreed by a maximum over users). This is the
    appendix's bound with its fraction the right way up.

    >>> rho_for_gradient(eps=0.1, beta=1.0, radius=5.0)
    100.0
    """
    return 2.0 * beta * radius * W_total / eps


def disagreement_bound(
    *, rho: float, beta: float, radius: float, W_total: float, lambda_2: float
) -> float:
    """Give 2 beta R_0 W_total / (rho lambda_2(L)), a bound on ||x - mean x|| at a fixed point.

    True, but usually far too large to choose rho by; `scaled_rho` is a better guide.

    >>> disagreement_bound(rho=100.0, beta=1.0, radius=5.0, W_total=1.0, lambda_2=2.0)
    0.05
    """
    return 2.0 * beta * radius * W_total / (rho * lambda_2)


def rho_of(penalty: float, factor: float | str) -> float:
    """Give the rho >= 1 for which rho c, what weighs consensus against the rows, is `penalty`.

    rho (1 - 1/rho) is rho - 1.

    >>> rho_of(30.0, 1.0), rho_of(30.0, 0.5), rho_of(30.0, "1-1/rho")
    (30.0, 60.0, 31.0)
    """
    return max(1.0, penalty + 1.0 if isinstance(factor, str) else penalty / factor)


def pilot_rho(*, beta: float, W: float, lambda_2: float, factor: float | str = 1.0) -> float:
    """Give the small rho at which rho="auto" measures: where neighbors pull as hard as rows.

    beta W / rho = c lambda_2(L): below it a user's own rows win, and disagreement does not yet
    fall like 1 / rho.

    >>> pilot_rho(beta=1.0, W=15.0, lambda_2=0.5)
    30.0
    """
    return rho_of(beta * W / lambda_2, factor) if lambda_2 > 0 else 1.0


def scaled_rho(*, pilot: float, measured: float, aimed: float, factor: float | str = 1.0) -> float:
    """Give the rho whose disagreement is `aimed`, from one measured at a pilot rho (thm:cons-conv).

    Disagreement falls like 1 / (rho c), so rho c = pilot c x measured / aimed, never below the
    pilot's.

    >>> scaled_rho(pilot=30.0, measured=0.5, aimed=0.25)
    60.0
    """
    if not (measured > aimed > 0 and math.isfinite(measured / aimed)):
        return pilot
    penalty = pilot * consensus_factor(factor, pilot)
    return rho_of(penalty * (measured / aimed), factor)


def in_theory(loss: Any) -> bool:
    """Tell whether the theory covers the loss: all radial ones, and Bregman ones that say so.

    >>> from peerclust import KMeans
    >>> in_theory(KMeans())
    True
    """
    return loss.in_theory if isinstance(loss, Bregman) else True
