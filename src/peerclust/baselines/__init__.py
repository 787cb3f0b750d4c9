"""The methods that the paper's tables compare, by the names used there.

| name | what it is |
|---|---|
| SKL-KM | scikit-learn's K-means on all rows |
| CGC-KM, CGC-HL, CGC-LL, CGC-FL | centralized gradient clustering: K-means, Huber, logistic, fair |
| LGC-KM, LGC-HL, LGC-LL, LGC-FL | each user alone |
| DGC-KM, DGC-HL, DGC-LL, DGC-FL | distributed gradient clustering, the paper's methods |
| ADMM-KM | Forero, Cano and Giannakis 2011 |
| NK-MEANS | Kar and Swenson 2019 |
| LSP2P-KM | Datta, Giannella and Kargupta 2009, from the pooled start |
| CORESET-KM, CORESET-MED | Balcan, Ehrlich and Liang 2013: K-means, K-median |

Huber has delta = 5 and fair has eta = 1, as in the paper. `register` adds your own method.
"""

from __future__ import annotations

from peerclust.baselines.centralized import CGC, LGC, SklearnKMeans
from peerclust.baselines.coreset import Coreset
from peerclust.baselines.decentralized import OverNetwork
from peerclust.baselines.protocol import Method, Outcome, Task, make_outcome
from peerclust.baselines.registry import (
    LOSSES,
    METHODS,
    get,
    load,
    register,
    registered,
    shared,
    unregister,
)

__all__ = ["CGC", "LGC", "LOSSES", "METHODS", "Coreset", "Method", "Outcome", "OverNetwork"]
__all__ += ["SklearnKMeans", "Task", "get", "load", "make_outcome", "register", "registered"]
__all__ += ["shared", "unregister"]
