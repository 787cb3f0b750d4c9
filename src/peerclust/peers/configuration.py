"""What sites run after the setup: the program, its certificate, and the checks of messages."""

from __future__ import annotations

import numpy as np

from peerclust.peers.setup import agreed_graph
from peerclust.programs.certificate import Certify
from peerclust.programs.lossy import Lossy
from peerclust.programs.protocol import AnyProgram
from peerclust.programs.solver_spec import Tuning
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.rounds import Box

# Centers may leave the box of the data by this fraction of its width, for rounding.
_ROUNDING = 1e-6


def make_program(contract: Contract, agreed: Agreed) -> AnyProgram:
    """Return the program that all sites run."""
    program = contract.spec.make(
        Tuning(
            make_graph=lambda: agreed_graph(contract, agreed),
            curvature=np.array(agreed.curvature),
            rho=agreed.rho,
            alpha=agreed.alpha,
            B=contract.B,
        )
    )
    if contract.exchange == "float64":
        return program
    return Lossy(program, dtype=contract.exchange, seed=contract.seed)


def make_certify(contract: Contract, agreed: Agreed) -> Certify:
    """Return the program with which the sites compute their joint certificate."""
    rho = agreed.rho if contract.spec.penalized else None
    # Sites that were not there at the start may join.
    return Certify(contract.graph.m, rho=rho, lambda_2=agreed.lambda_2)


def make_box(contract: Contract, agreed: Agreed) -> Box:
    """Return the box that what the solver sends stays in."""
    low, high = np.array(agreed.low), np.array(agreed.high)
    # If all rows have the same value, its magnitude is the unit.
    width = np.maximum(high - low, 1e-3 * np.maximum(np.abs(low), np.abs(high)))
    condition = 1.0 if contract.matrix is None else float(np.linalg.cond(contract.matrix))
    # Dither and rounding carry numbers a little further than centers go; one width is generous.
    lossy = contract.exchange != "float64"
    slack = (contract.spec.max_overshoot(condition) + lossy + _ROUNDING) * width
    return Box(low - slack, high + slack)
