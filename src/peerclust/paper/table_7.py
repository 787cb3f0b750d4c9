"""Table 7: the effect of B on accuracy, on Iris with rho = 10 and T = 500."""

from __future__ import annotations

from peerclust.paper.method_jobs import sweep
from peerclust.paper.published import BY_UPDATES

EXPERIMENT = sweep("table-7", "effect of B on accuracy", "B", BY_UPDATES, rho=10, rounds=500)
