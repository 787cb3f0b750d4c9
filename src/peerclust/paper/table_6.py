"""Table 6: the effect of rho on accuracy, on Iris with B = 1 and T = 500."""

from __future__ import annotations

from peerclust.paper.method_jobs import sweep
from peerclust.paper.published import BY_RHO

EXPERIMENT = sweep("table-6", "effect of rho on accuracy", "rho", BY_RHO, rounds=500)
