"""Communication graphs: connected, undirected, unweighted graphs of users, and their spectra.

`graph` has the class `Graph` and its measures, `averaging` the steps by which users compute an
average; `named` and `read` build graphs.
"""

from __future__ import annotations

import reprlib
from typing import Any

from peerclust.errors import GraphError, ParameterError
from peerclust.graphs.graph import Graph, Known, Measure
from peerclust.graphs.named import NAMED, complete, erdos_renyi, geometric, grid, path, ring, star
from peerclust.graphs.read import build_from_networkx, from_edges, from_file, from_networkx
from peerclust.text import parameter
from peerclust.validation import check_name

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


def resolve(graph: Graph | str | Any, m: int) -> Graph:
    """Return the graph of m users for `cluster(graph=...)`: a Graph, a name or a networkx graph.

    >>> resolve("grid", 12)
    <Graph grid(3, 4): m=12, edges=17>
    """
    if isinstance(graph, str):
        return NAMED[check_name(graph, NAMED, "graph", "cluster")](m)
    subject = parameter("graph", "cluster")
    if not (hasattr(graph, "nodes") or isinstance(graph, Graph)):
        must = f"be a Graph, a networkx graph or one of {', '.join(map(repr, NAMED))}"
        raise ParameterError(subject + f" must {must}. Got {reprlib.repr(graph)}.")
    if not isinstance(graph, Graph):
        graph = build_from_networkx(graph, subject, "from_networkx(...)")
    graph.check_connected(subject)
    if graph.m != m:
        must = "have as many users as there are parts"
        got = f"{graph.m} users in {graph.name} and {m} parts"
        raise GraphError(subject + f" must {must}. Got {got}.")
    return graph
