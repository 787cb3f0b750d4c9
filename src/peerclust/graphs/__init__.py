"""Communication graphs: connected, undirected, unweighted graphs of users, and their spectra.

`graph` has the class `Graph` and its measures, `tree` breadth-first trees, along which users add
numbers; `named` and `read` build graphs.
"""

from __future__ import annotations

from peerclust.graphs.graph import Graph, Known, Measure
from peerclust.graphs.named import (
    NAMED,
    auto,
    complete,
    erdos_renyi,
    exponential,
    geometric,
    grid,
    path,
    resolve,
    ring,
    star,
)
from peerclust.graphs.read import from_edges, from_file, from_networkx
from peerclust.graphs.tree import Tree

__all__ = [
    "NAMED",
    "Graph",
    "Known",
    "Measure",
    "Tree",
    "auto",
    "complete",
    "erdos_renyi",
    "exponential",
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
