"""Whether the state of a run that comes from outside, a file or a peer, can be that of a network.

Types are checked when a message is decoded; shapes, numbers and names are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.views import reachable_peers


def refuse_state(contract: Contract, agreed: Agreed, round_: int, centers: bytes) -> str:
    """Return what a state must have and lacks, as the end of a sentence; or ""."""
    d, K = len(contract.features), contract.n_clusters
    return (
        _refuse_agreed(contract, agreed)
        or (f"have {K} centers of {d} numbers" if len(centers) != 8 * K * d else "")
        or ("" if _are_finite(np.frombuffer(centers, "<f8")) else "have finite centers")
        or ("" if 0 <= round_ <= contract.max_round else "have a round of the run")
    )


def _refuse_agreed(contract: Contract, agreed: Agreed) -> str:
    """Return what the results of a set-up must have and lack; or ""."""
    d, K = len(contract.features), contract.n_clusters
    for values in (agreed.mean, agreed.deviation, agreed.low, agreed.high):
        if len(values) != d or not _are_finite(values):
            return f"have {d} finite numbers each"
    if any(low > high for low, high in zip(agreed.low, agreed.high, strict=True)):
        return "have a box with its lower bounds below the upper ones"
    positive = (agreed.spread, agreed.weight, agreed.W, agreed.rho, agreed.lambda_max)
    if not all(0 < value < np.inf for value in (*positive, agreed.delta, *agreed.deviation)):
        return "have positive finite numbers"
    if {len(agreed.curvature), len(agreed.evenness)} != {K}:
        return f"have {K} curvatures"
    others = (agreed.alpha, agreed.lambda_2, *agreed.curvature, *agreed.evenness)
    if not all(0 <= value < np.inf for value in others):
        return "have curvatures of at least 0"
    m, graph, members = contract.graph.m, contract.graph, agreed.members
    known = all(i < m for i in members) and all(
        max(pair) < m and pair[1] in graph.neighbors(pair[0]) for pair in agreed.lost
    )
    if not known:
        return "name peers and links of the network"
    if not members or reachable_peers(graph, agreed.lost, members[0]) != tuple(members):
        return "name members that reach each other"
    return ""


def _are_finite(values: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]) -> bool:
    return bool(np.isfinite(values).all())
