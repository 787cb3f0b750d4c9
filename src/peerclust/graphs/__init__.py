"""Communication graphs: connected, undirected, unweighted graphs of users, and their spectra.

`graph` has the class `Graph` and its measures, `averaging` the steps by which users compute an
average; `named` and `read` build graphs.
"""

from __future__ import annotations

from peerclust.graphs.graph import Graph, Known, Measure
from peerclust.graphs.named import (
    NAMED,
    complete,
    erdos_renyi,
    geometric,
    grid,
    path,
    resolve,
    ring,
    star,
)
from peerclust.graphs.read import from_edges, from_file, from_networkx

__all__ = [
    "NAMED",
    "Graph",
    "Known",
    "Measure",
    "complete",
    "erdos_renyi",
    "from_edges",
    "from_file",
    "from_networkx",
    "geometric",
    "grid",
    "path",
    "resolve",
    "ring",
    "star",
]
