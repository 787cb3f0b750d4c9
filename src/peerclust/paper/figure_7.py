"""Figure 7: J_rho round by round for different B, rho = 10, on Iris."""

from __future__ import annotations

from peerclust.paper.cost_curves import cost_sweep

EXPERIMENT = cost_sweep("figure-7", "J_rho for different B", rho=(10,), B=(1, 10, 100), rounds=500)
