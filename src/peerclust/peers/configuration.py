"""What sites run after the setup: the program, its certificate, and the checks of messages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from peerclust.arrays import Array
from peerclust.graphs import Graph
from peerclust.peers.setup import agreed_scales
from peerclust.programs.certificate import Certify
from peerclust.programs.lossy import Lossy
from peerclust.programs.protocol import AnyProgram, State
from peerclust.programs.solver_spec import SumSender, Tuning
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.rounds import Box
from peerclust.runtimes.network.setup import active_graph

# Centers may leave the box of the data by this fraction of its width, for rounding.
_ROUNDING = 1e-6


def make_program(contract: Contract, agreed: Agreed) -> AnyProgram:
    """Return the program that all sites run."""
    program = contract.spec.make(
        Tuning(
            make_graph=lambda: _agreed_graph(contract, agreed),
            K=contract.n_clusters,
            scales=agreed_scales(contract, agreed),
            tol=contract.tol,
            rho=agreed.rho,
            alpha=agreed.alpha,
            B=contract.B,
            agreed_penalty=agreed.penalty,
        )
    )
    if contract.exchange == "float64":
        return program
    return Lossy(program, dtype=contract.exchange, seed=contract.seed)


def make_certify(contract: Contract, agreed: Agreed) -> Certify:
    """Return the program with which the sites compute their joint certificate."""
    graph = _agreed_graph(contract, agreed)
    rho = agreed.rho if contract.spec.penalized else None
    D = int(graph.diameter.value)
    return Certify(graph.averaging_factors, m=graph.m, rho=rho, D=D)


def agreed_degree(contract: Contract, agreed: Agreed, number: int) -> int:
    """Return the number of neighbors of a site during the setup; 0 if it joined later."""
    if number not in agreed.members:
        return 0
    graph = _agreed_graph(contract, agreed)
    return int(graph.degree[agreed.members.index(number)])


def _agreed_graph(contract: Contract, agreed: Agreed) -> Graph:
    return active_graph(contract.graph, tuple(agreed.members), agreed.lost)


def make_guard(
    contract: Contract, program: AnyProgram, agreed: Agreed, box: Box
) -> Callable[[State], Callable[[Array], str]]:
    """Return the check of neighbors' arrays.

    It maps a state of the program to a function that returns why an array is rejected, or "".
    """
    if not contract.spec.sends_sums:
        return lambda _: box.refuse
    if not isinstance(program, SumSender):
        raise TypeError(f"the solver {contract.solver} sends sums, but its program has no `growth`")
    degree = float(_agreed_graph(contract, agreed).degree.max())
    beta = agreed_scales(contract, agreed).beta
    far = float(np.maximum(np.abs(box.low), np.abs(box.high)).max())

    def allow(state: State) -> Callable[[Array], str]:
        # Curvatures, or the 1 of the first average; sums are at most that times a point in the box.
        limit = program.growth(state, degree) * max(1.0, beta * agreed.W) * (1.0 + _ROUNDING)
        bounds = np.array([limit, *[limit * far] * len(box.low)])
        return lambda sums: "" if (np.abs(sums) <= bounds).all() else "sums larger than possible"

    return allow


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
