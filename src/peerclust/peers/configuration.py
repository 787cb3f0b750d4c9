"""What follows from the network file and from what the sites agreed on.

Scale, bounds, graph and curvature, and the programs that all sites run after the set-up.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from peerclust.arrays import Array
from peerclust.clustering.scaling import Scale
from peerclust.graphs import Graph
from peerclust.graphs.graph import Known
from peerclust.programs.certificate import Certify
from peerclust.programs.lossy import Lossy
from peerclust.programs.protocol import AnyProgram
from peerclust.programs.solver_spec import Tuning
from peerclust.runtimes.network.collectives import active_graph
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed
from peerclust.theory import Curvature
from peerclust.users.public_bounds import PublicBounds

# Centers may leave the box of the data by this fraction of its width, for rounding.
_BOX_ROUNDING = 1e-6


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


def make_scale(contract: Contract, agreed: Agreed) -> Scale | None:
    """Return the agreed scale, None without scaling."""
    if contract.scale == "none":
        return None
    return Scale(np.array(agreed.mean), np.array(agreed.deviation))


def make_bounds(contract: Contract, low: Array, high: Array, W: float = np.inf) -> PublicBounds:
    """Return the bounds of rows in the box from low to high, by which claims are checked.

    `W` is the largest total weight of a site, once all have agreed on it.
    """
    condition = 1.0 if contract.matrix is None else float(np.linalg.cond(contract.matrix))
    # Dither and rounding carry numbers a little further than centers go; one width is generous.
    lossy = contract.exchange != "float64"
    overshoot = contract.spec.max_overshoot(condition) + lossy + _BOX_ROUNDING
    return PublicBounds(low, high, min(contract.max_weight, W), overshoot)


def make_box(contract: Contract, agreed: Agreed) -> PublicBounds:
    """Return the bounds with the box that what the solver sends stays in."""
    return make_bounds(contract, np.array(agreed.low), np.array(agreed.high), agreed.W)


def public_box(contract: Contract, scale: Scale | None = None) -> tuple[Array, Array]:
    """Return the public ranges, in a scale; infinite without any."""
    if contract.ranges is None:
        infinite = np.full(len(contract.features), np.inf)
        return -infinite, infinite
    low, high = np.array(contract.ranges).T
    return (low, high) if scale is None else (scale.forward(low), scale.forward(high))


def with_eigenvalues(graph: Graph, lambda_max: float, lambda_2: float) -> Graph:
    """Return the graph with these eigenvalues: other machines may compute others."""
    return replace(graph, known=Known(lambda_max, lambda_2, int(graph.diameter.value)))


def agreed_graph(contract: Contract, agreed: Agreed) -> Graph:
    """Return the graph of the sites that agreed, with the eigenvalues that they agreed on."""
    graph = active_graph(contract.graph, tuple(agreed.members), agreed.lost)
    return with_eigenvalues(graph, agreed.lambda_max, agreed.lambda_2)


def agreed_curvature(agreed: Agreed) -> Curvature:
    """Return the curvature that all sites agreed on, without a site's own."""
    mean = np.array(agreed.curvature)
    return Curvature(np.empty((0, len(mean))), mean, np.array(agreed.evenness))
