"""Graphs from pairs of users, from files, and from networkx."""

from __future__ import annotations

import io
import reprlib
from collections.abc import Iterable, Sequence
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from peerclust.errors import GraphError, ParameterError
from peerclust.graphs.graph import Graph, build, disconnected
from peerclust.text import parameter, sort_names
from peerclust.validation import check_count


def from_edges(edges: Iterable[Sequence[Any]], m: int | None = None) -> Graph:
    """Return the graph of these pairs of users, named by the numbers 0 to m - 1 or by strings.

    Strings become `names` in sorted order, numerically if all consist of digits; if they are
    exactly "0" to "m - 1", they are numbers. Without `m` the largest number is the last user.
    Repeated pairs count once; a pair of a user with itself adds no edge.

    >>> from_edges([("paris", "rome"), ("rome", "oslo")]).names
    ('oslo', 'paris', 'rome')
    """
    m = m if m is None else check_count(m, "m", "from_edges")
    subject, name = "`edges` of from_edges", "from_edges(...)"
    try:
        ends = [user for u, v in edges for user in (u, v)]
        used = set(ends)
    except (TypeError, ValueError):
        raise ParameterError(subject + f" must be pairs. Got {reprlib.repr(edges)}.") from None
    if all(isinstance(user, str) for user in used) and (used or m is None):
        if m not in (None, len(used)):
            raise GraphError(f"`m` of from_edges must be {len(used)}, the users named. Got {m}.")
        return _from_labels(ends, sort_names(used), subject, name)
    if not all(isinstance(user, Integral) and not isinstance(user, bool) for user in used):
        kinds = " and ".join(sorted({type(user).__name__ for user in used}))
        raise ParameterError(subject + f" must be of whole numbers or of strings. Got {kinds}.")
    low, high = min(used, default=0), max(used, default=0)
    m = m or int(max(high, 0)) + 1
    if low < 0 or high >= m:
        got = low if low < 0 else high
        raise ParameterError(subject + f" must be of users 0 to {m - 1}. Got {got}.")
    if m > max(len(used), 1):  # checked before an array is made, which could be huge
        alone = next(user for user in range(m) if user not in used)
        raise disconnected(subject, [alone], int(alone == 0))
    return _from_ends(ends, m, subject, name)


def from_file(path: str | PathLike[str]) -> Graph:
    r"""Return the graph in a file: GraphML (.graphml), GML (.gml), or text with one edge per line.

    In text, whitespace or a comma separates the two names, `#` starts a comment, and names are as
    in `from_edges`. GraphML and GML are as in `from_networkx`; labels name the nodes of GML.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "sites.txt")
    ...     _ = file.write_text("paris rome  # by cable\nrome oslo\n")
    ...     from_file(file)
    <Graph from_file('sites.txt'): m=3, edges=2>
    """
    try:
        data, kind = Path(path).read_bytes(), Path(path).suffix.lower()
    except (OSError, TypeError, ValueError) as error:
        got = f"{path}: {getattr(error, 'strerror', None) or error}"
        raise ParameterError(
            parameter("path", "from_file") + f" must be a readable file. Got {got}."
        ) from None
    subject, name = f"The graph file {Path(path)}", f"from_file({Path(path).name!r})"
    if kind in (".graphml", ".gml"):
        return build_from_networkx(_parse(data, kind, subject), subject, name)
    ends: list[str] = []
    for number, line in enumerate(data.splitlines(), start=1):
        text = line.decode("utf-8-sig", errors="replace").partition("#")[0].strip()
        pair = [word.strip() for word in text.split(",")] if "," in text else text.split()
        if len(pair) not in (0, 2) or "" in pair or "\ufffd" in text:
            must = "have two names per line in UTF-8, separated by whitespace or a comma"
            raise GraphError(subject + f" must {must}. Got {reprlib.repr(text)} in line {number}.")
        ends += pair
    return _from_labels(ends, sort_names(set(ends)), subject, name)


def from_networkx(g: Any) -> Graph:
    """Return a networkx graph without its directions, weights, loops and parallel edges.

    If its nodes are exactly 0 to m - 1, user i is node i. Else users are in the order of `g.nodes`
    and `names` are the nodes as strings.

    >>> import networkx
    >>> from_networkx(networkx.cycle_graph(5))
    <Graph from_networkx(...): m=5, edges=5>
    """
    return build_from_networkx(g, "`g` of from_networkx", "from_networkx(...)")


def build_from_networkx(g: Any, subject: str, name: str) -> Graph:
    """Return a networkx graph as `from_networkx` does; errors start with `subject`."""
    try:
        labels = [str(node) for node in g.nodes]
        ends = [str(node) for pair in g.edges() for node in pair]
    except (AttributeError, TypeError):
        got = reprlib.repr(g)
        raise ParameterError(subject + f" must be a networkx graph. Got {got}.") from None
    return _from_labels(ends, labels, subject, name)


def _parse(data: bytes, kind: str, subject: str) -> Any:
    import networkx as nx

    try:
        if kind == ".graphml":
            return nx.read_graphml(io.BytesIO(data))
        g = nx.read_gml(io.BytesIO(data), label="id")  # not every GML file has labels
        labels = nx.get_node_attributes(g, "label")
        return nx.relabel_nodes(g, labels) if len(set(labels.values())) == len(g) else g
    except (nx.NetworkXException, SyntaxError, ValueError, LookupError, TypeError) as error:
        got = str(error).rstrip(".")
        raise GraphError(subject + f" must be well-formed {kind[1:]}. Got: {got}.") from None


def _from_labels(ends: list[str], labels: list[str], subject: str, name: str) -> Graph:
    """Return the graph of the edges (ends[0], ends[1]), (ends[2], ends[3]), ... on `labels`."""
    if not labels or len(set(labels)) < len(labels):
        got = "two alike" if labels else "none"
        raise GraphError(subject + f" must name at least one user, and no two alike. Got {got}.")
    numbers, names = {str(i): i for i in range(len(labels))}, None
    if numbers.keys() != set(labels):
        numbers, names = {label: i for i, label in enumerate(labels)}, tuple(labels)
    return _from_ends([numbers[label] for label in ends], len(labels), subject, name, names)


def _from_ends(ends: list[int], m: int, subject: str, name: str, names: Any = None) -> Graph:
    graph = build(np.array(ends[::2], int), np.array(ends[1::2], int), m, name, names)
    graph.check_connected(subject)
    return graph
