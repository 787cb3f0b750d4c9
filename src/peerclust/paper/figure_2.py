"""Figure 2: J_rho round by round for different rho, B = 1, on Iris."""

from __future__ import annotations

from peerclust.paper.cost_curves import cost_sweep

EXPERIMENT = cost_sweep("figure-2", "J_rho for different rho", rho=(1, 10, 100, 1000), rounds=500)
