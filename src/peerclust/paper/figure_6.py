"""Figure 6: the normalized cost J_rho^t - J_rho^T for different rho, B = 1, on Iris."""

from __future__ import annotations

from peerclust.paper.cost_curves import cost_sweep

EXPERIMENT = cost_sweep(
    "figure-6",
    "normalized cost for different rho",
    rho=(1, 10, 100, 1000),
    rounds=1000,
    normalized=True,
)
