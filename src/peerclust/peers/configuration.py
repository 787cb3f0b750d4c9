"""What sites run after the setup: the program, its certificate, and the checks of messages."""

from __future__ import annotations

import numpy as np

from peerclust.peers.setup import agreed_graph, make_bounds
from peerclust.programs.certificate import Certify
from peerclust.programs.lossy import Lossy
from peerclust.programs.protocol import AnyProgram
from peerclust.programs.solver_spec import Tuning
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed
from peerclust.users.public_bounds import PublicBounds


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


def make_box(contract: Contract, agreed: Agreed) -> PublicBounds:
    """Return the bounds with the box that what the solver sends stays in."""
    return make_bounds(contract, np.array(agreed.low), np.array(agreed.high), agreed.W)
