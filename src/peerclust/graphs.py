"""Who talks with whom: connected, undirected, unweighted graphs of users, and how fast they agree.

Here belong the `Graph`, the functions that build one, and its three measures: the largest and the
second smallest eigenvalue of its Laplacian L = diag(degree) - A, and its diameter. What is sent
along the edges, and which steps follow from the measures, belongs elsewhere.
"""

from __future__ import annotations

import io
import math
import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components, dijkstra, shortest_path

from peerclust.errors import GraphError, ParameterError
from peerclust.validation import check_count, check_name, check_number

DENSE = 1500  # up to so many users, measures without a closed form are computed exactly
DRAWS = 1000  # a random graph is drawn at most so many times

Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Measure:
    """A number that describes a graph, whether it is exact or a bound, and how it was found."""

    value: float
    exact: bool
    how: str


class Known(NamedTuple):
    """The measures of a graph that has closed forms for them."""

    lambda_max: float
    lambda_2: float
    diameter: int


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A connected graph of the users 0 to m - 1, never changed once built.

    User i's neighbors are `indices[indptr[i]:indptr[i + 1]]`, ascending. `names[i]` is the name of
    user i; `names` is None where users have numbers only. The functions of this module build
    graphs and check what they are given; the class itself trusts.

    >>> graph = ring(10)
    >>> graph
    <Graph ring(10): m=10, edges=10>
    >>> graph.lambda_max
    Measure(value=4.0, exact=True, how='closed form')
    """

    m: int
    indptr: Ints
    indices: Ints
    name: str
    names: tuple[str, ...] | None = None
    known: Known | None = None

    def __post_init__(self) -> None:
        _lock(self.indptr)
        _lock(self.indices)

    def __repr__(self) -> str:
        return f"<Graph {self.name}: m={self.m}, edges={self.edges}>"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Graph)
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    def __hash__(self) -> int:
        return hash((self.m, self.edges))

    def __reduce__(self) -> tuple[Any, ...]:
        # Through __init__, so that the arrays of a copy cannot be written to either.
        return Graph, (self.m, self.indptr, self.indices, self.name, self.names, self.known)

    def neighbors(self, i: int) -> Ints:
        """Return the neighbors of user `i`, ascending."""
        if check_count(i, "i", "neighbors", at_least=0) >= self.m:
            raise ParameterError(f"`i` of neighbors must be a user, 0 to {self.m - 1}. Got {i}.")
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    def reordered(self, order: Sequence[int] | Ints) -> Graph:
        """Return the same graph whose user i is user `order[i]` of this one.

        >>> from_edges([("a", "b"), ("b", "c")]).reordered([2, 0, 1]).names
        ('c', 'a', 'b')
        """
        try:
            order = list(order)
            good = sorted(order) == list(range(self.m))
        except (TypeError, ValueError):
            good = False
        if not good:
            must, got = f"hold each of 0 to {self.m - 1} once", reprlib.repr(order)
            raise ParameterError(f"`order` of reordered must {must}. Got {got}.")
        place = np.argsort(order)
        rows = np.repeat(place, np.diff(self.indptr))
        names = self.names and tuple(self.names[int(i)] for i in order)
        return _build(rows, place[self.indices], self.m, self.name, names, self.known)

    @property
    def edges(self) -> int:
        """The number of edges."""
        return self.indices.size // 2

    @cached_property
    def degree(self) -> NDArray[np.float64]:
        """How many neighbors each user has, (m,)."""
        return _lock(np.diff(self.indptr).astype(np.float64))

    @cached_property
    def adjacency(self) -> csr_array:
        """The matrix A, (m, m): 1 where two users are neighbors, else 0."""
        ones = _lock(np.ones(self.indices.size))
        return csr_array((ones, self.indices, self.indptr), shape=(self.m, self.m))

    @cached_property
    def laplacian(self) -> csr_array:
        """The matrix L = diag(degree) - A, (m, m)."""
        return csr_array(diags_array(self.degree) - self.adjacency)

    def differences(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give L x, the sum over neighbors j of x_i - x_j, for x of shape (m, ...).

        >>> path(2).differences(np.array([1.0, 3.0])).tolist()
        [-2.0, 2.0]
        """
        flat = x.reshape(self.m, -1)
        total: NDArray[np.float64] = self.adjacency @ flat
        return (self.degree[:, None] * flat - total).reshape(x.shape)

    def energy(self, x: NDArray[np.float64]) -> float:
        """Give <x, L x>, the sum over edges of ||x_i - x_j||^2, for x of shape (m, ...).

        >>> path(2).energy(np.array([1.0, 3.0]))
        4.0
        """
        flat = x.reshape(self.m, -1)
        rows = np.repeat(np.arange(self.m), np.diff(self.indptr))
        total = 0.0
        # By edges, some at a time: the product x'(L x) would cancel where users agree.
        step = max(1, (1 << 22) // flat.shape[1])
        for begin in range(0, self.indices.size, step):
            here = slice(begin, begin + step)
            apart = flat[rows[here]] - flat[self.indices[here]]
            total += float((apart * apart).sum())
        return 0.5 * total  # each edge was met from both of its ends

    @cached_property
    def lambda_max(self) -> Measure:
        """The largest eigenvalue of the Laplacian, or an upper bound on it."""
        if self.known:
            return Measure(self.known.lambda_max, True, "closed form")
        if self.m <= DENSE:
            return Measure(float(self._eigenvalues[-1]), True, "dense eigenvalues")
        how = "max over edges of d_u + d_v, at most m, an upper bound"
        return Measure(_lambda_max_bound(self), False, how)

    @cached_property
    def lambda_2(self) -> Measure:
        """The second smallest eigenvalue of the Laplacian, or a lower bound on it; 0 if m = 1."""
        if self.known:
            return Measure(self.known.lambda_2, True, "closed form")
        if self.m <= DENSE:
            return Measure(float(self._eigenvalues[:2][-1]), True, "dense eigenvalues")
        # Mohar, Eigenvalues, diameter, and mean distance in graphs, 1991: lambda_2 >= 4 / (m D).
        bound = 4 / (self.m * self.diameter.value)
        return Measure(bound, False, "4 / (m diameter), a lower bound")

    @cached_property
    def diameter(self) -> Measure:
        """The most edges between any two users, by the shortest way, or an upper bound on it."""
        if self.known:
            return Measure(self.known.diameter, True, "closed form")
        if self.m <= DENSE:
            longest = shortest_path(self.adjacency, unweighted=True).max()
            return Measure(int(longest), True, "all shortest paths")
        how = "twice the eccentricity of a central user, at most m - 1, an upper bound"
        return Measure(_diameter_bound(self), False, how)

    @cached_property
    def _eigenvalues(self) -> NDArray[np.float64]:
        return np.linalg.eigvalsh(self.laplacian.toarray())


def _lambda_max_bound(graph: Graph) -> float:
    # Anderson and Morley, 1985. Every user has a neighbor, so no slice of reduceat is empty.
    most = np.maximum.reduceat(graph.degree[graph.indices], graph.indptr[:-1])
    return float(min((graph.degree + most).max(), graph.m))


def _diameter_bound(graph: Graph) -> int:
    # Two sweeps end on a long shortest path; the user in its middle is far from nobody.
    def sweep(user: int) -> Any:
        return dijkstra(graph.adjacency, indices=user, unweighted=True, return_predecessors=True)

    far, _ = sweep(int(graph.degree.argmax()))
    far, before = sweep(int(far.argmax()))
    user = int(far.argmax())
    for _ in range(int(far.max()) // 2):
        user = before[user]
    far, _ = sweep(user)
    return min(2 * int(far.max()), graph.m - 1)


def ring(m: int) -> Graph:
    """Return the ring: user i talks with i - 1 and i + 1, and the last with the first.

    Eigenvalues 2 - 2 cos(2 pi k / m), k = 0, ..., m - 1.

    >>> ring(5).neighbors(0).tolist()
    [1, 4]
    """
    m = check_count(m, "m", "ring")
    users = np.arange(m)
    known = Known(_wave(m // 2, m), _wave(1, m), m // 2) if m > 2 else _known_path(m)
    return _build(users, (users + 1) % m, m, f"ring({m})", known=known)


def path(m: int) -> Graph:
    """Return the path: a ring without the edge from the last user to the first.

    Eigenvalues 2 - 2 cos(pi k / m), k = 0, ..., m - 1.

    >>> path(5).neighbors(0).tolist()
    [1]
    """
    m = check_count(m, "m", "path")
    users = np.arange(m)
    return _build(users[:-1], users[1:], m, f"path({m})", known=_known_path(m))


def star(m: int) -> Graph:
    """Return the star: user 0 talks with all others, who talk with nobody else.

    Eigenvalues 0, 1 (m - 2 times) and m.

    >>> star(5).degree.tolist()
    [4.0, 1.0, 1.0, 1.0, 1.0]
    """
    m = check_count(m, "m", "star")
    known = Known(float(m), 1.0, 2) if m > 2 else _known_path(m)
    return _build(np.zeros(m - 1, int), np.arange(1, m), m, f"star({m})", known=known)


def complete(m: int) -> Graph:
    """Return the complete graph: everyone talks with everyone.

    Eigenvalues 0 and m (m - 1 times).

    >>> complete(5).edges
    10
    """
    m = check_count(m, "m", "complete")
    # Row i is 0, ..., m - 1 without i; a list of its pairs would take several times the memory.
    others = np.arange(m - 1, dtype=_index_type(m * (m - 1)))
    indices = (others + (others >= np.arange(m)[:, None])).ravel()
    indptr = np.arange(m + 1, dtype=others.dtype) * (m - 1)
    known = Known(float(m), float(m), 1) if m > 1 else _known_path(m)
    return Graph(m, indptr, indices, f"complete({m})", known=known)


def grid(rows: int, columns: int) -> Graph:
    """Return the grid: user r * columns + c, in row r and column c, talks with those beside it.

    Its eigenvalues are the sums of one of path(rows) and one of path(columns).

    >>> grid(2, 3).neighbors(1).tolist()
    [0, 2, 4]
    """
    rows, columns = check_count(rows, "rows", "grid"), check_count(columns, "columns", "grid")
    users = np.arange(rows * columns).reshape(rows, columns)
    down, across = _known_path(rows), _known_path(columns)
    known = Known(
        down.lambda_max + across.lambda_max,
        _known_path(max(rows, columns)).lambda_2,
        down.diameter + across.diameter,
    )
    u = np.concatenate([users[:-1].ravel(), users[:, :-1].ravel()])
    v = np.concatenate([users[1:].ravel(), users[:, 1:].ravel()])
    return _build(u, v, rows * columns, f"grid({rows}, {columns})", known=known)


def erdos_renyi(m: int, p: float, random_state: int | np.random.Generator | None = None) -> Graph:
    """Return a graph in which each pair of users talks with probability `p`, drawn until connected.

    >>> erdos_renyi(20, 0.3, random_state=0)
    <Graph erdos_renyi(20, 0.3): m=20, edges=56>
    """
    m = check_count(m, "m", "erdos_renyi")
    p = check_number(p, "p", "erdos_renyi", above=0)
    if p > 1:
        raise ParameterError(f"`p` of erdos_renyi must be a number > 0 and <= 1. Got {p}.")
    # All pairs in a row: (0, 1), (0, 2), (1, 2), (0, 3), ...; those of v begin at first[v].
    first = np.arange(m) * (np.arange(m) - 1) // 2
    pairs = m * (m - 1) // 2

    def draw(rng: np.random.Generator) -> tuple[Ints, Ints]:
        chosen = rng.choice(pairs, rng.binomial(pairs, p), replace=False, shuffle=False)
        v = np.searchsorted(first, chosen, side="right") - 1
        return chosen - first[v], v

    return _drawn(draw, random_state, m, "erdos_renyi", "p", p, math.log(m) / m)


def geometric(
    m: int, radius: float, random_state: int | np.random.Generator | None = None
) -> Graph:
    """Return m points, uniform in the unit square, who talk within `radius`, drawn until connected.

    >>> geometric(20, 0.4, random_state=0)
    <Graph geometric(20, 0.4): m=20, edges=61>
    """
    from scipy.spatial import cKDTree

    m = check_count(m, "m", "geometric")
    radius = check_number(radius, "radius", "geometric", above=0)

    def draw(rng: np.random.Generator) -> tuple[Ints, Ints]:
        u, v = cKDTree(rng.random((m, 2))).query_pairs(radius, output_type="ndarray").T
        return u, v

    advice = math.sqrt(2 * math.log(m) / (math.pi * m))
    return _drawn(draw, random_state, m, "geometric", "radius", radius, advice)


def from_edges(edges: Iterable[Sequence[Any]], m: int | None = None) -> Graph:
    """Return the graph of these pairs of users, named by the numbers 0 to m - 1 or by strings.

    Strings become `names` in sorted order, those of digits by size; if they are exactly "0" to
    "m - 1", they are numbers. Without `m` the largest number is the last user. A pair given twice
    counts once; a pair of a user with itself adds no edge.

    >>> from_edges([("paris", "rome"), ("rome", "oslo")]).names
    ('oslo', 'paris', 'rome')
    """
    m = m if m is None else check_count(m, "m", "from_edges")
    subject, name = "`edges` of from_edges", "from_edges(...)"
    try:
        ends = [user for u, v in edges for user in (u, v)]
        used = set(ends)
    except (TypeError, ValueError):
        raise ParameterError(f"{subject} must be pairs. Got {reprlib.repr(edges)}.") from None
    if all(isinstance(user, str) for user in used) and (used or m is None):
        if m not in (None, len(used)):
            raise GraphError(f"`m` of from_edges must be {len(used)}, the users named. Got {m}.")
        return _from_labels(ends, _in_order(used), subject, name)
    if not all(isinstance(user, Integral) and not isinstance(user, bool) for user in used):
        kinds = " and ".join(sorted({type(user).__name__ for user in used}))
        raise ParameterError(f"{subject} must be of whole numbers or of strings. Got {kinds}.")
    least, most = min(used, default=0), max(used, default=0)
    m = m or int(max(most, 0)) + 1
    if least < 0 or most >= m:
        got = least if least < 0 else most
        raise ParameterError(f"{subject} must be of users 0 to {m - 1}. Got {got}.")
    if m > max(len(used), 1):  # said before there is an array, which a wild number makes huge
        alone = next(user for user in range(m) if user not in used)
        raise _apart(subject, [alone], int(alone == 0))
    return _from_ends(ends, m, subject, name)


def from_file(path: str | PathLike[str]) -> Graph:
    r"""Return the graph in a file: GraphML (.graphml), GML (.gml), else text with two names a line.

    In text, blanks or a comma separate the names, `#` begins a comment, and names are as in
    `from_edges`. GraphML and GML are as in `from_networkx`, and labels name the nodes of GML.

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
        raise ParameterError(f"`path` of from_file must be a readable file. Got {got}.") from None
    subject, name = f"The graph file {Path(path)}", f"from_file({Path(path).name!r})"
    if kind in (".graphml", ".gml"):
        return _from_networkx(_parse(data, kind, subject), subject, name)
    ends: list[str] = []
    for number, line in enumerate(data.splitlines(), start=1):
        text = line.decode("utf-8-sig", errors="replace").partition("#")[0].strip()
        pair = [word.strip() for word in text.split(",")] if "," in text else text.split()
        if len(pair) not in (0, 2) or "" in pair or "\ufffd" in text:
            must = "have two names a line in UTF-8, separated by blanks or a comma"
            raise GraphError(f"{subject} must {must}. Got {reprlib.repr(text)} in line {number}.")
        ends += pair
    return _from_labels(ends, _in_order(set(ends)), subject, name)


def from_networkx(g: Any) -> Graph:
    """Return a networkx graph without its directions, weights, loops and parallel edges.

    If its nodes are exactly 0 to m - 1, user i is node i. Else users are in the order of `g.nodes`
    and `names` are the nodes as strings.

    >>> import networkx
    >>> from_networkx(networkx.cycle_graph(5)) == ring(5)
    True
    """
    return _from_networkx(g, "`g` of from_networkx", "from_networkx(...)")


def resolve(graph: Graph | str | Any, m: int) -> Graph:
    """Return what `cluster(graph=...)` means for m users: a Graph, a name or a networkx graph.

    >>> resolve("grid", 12)
    <Graph grid(3, 4): m=12, edges=17>
    """
    if isinstance(graph, str):
        return NAMED[check_name(graph, NAMED, "graph", "cluster")](m)
    if not (hasattr(graph, "nodes") or isinstance(graph, Graph)):
        must = f"be a Graph, a networkx graph or one of {', '.join(map(repr, NAMED))}"
        raise ParameterError(f"`graph` of cluster must {must}. Got {reprlib.repr(graph)}.")
    if not isinstance(graph, Graph):
        graph = _from_networkx(graph, "`graph` of cluster", "from_networkx(...)")
    if graph.m != m:
        must = "have as many users as there are parts"
        got = f"{graph.m} users in {graph.name} and {m} parts"
        raise GraphError(f"`graph` of cluster must {must}. Got {got}.")
    return graph


def _square(m: int) -> Graph:
    rows = next(rows for rows in range(math.isqrt(m), 0, -1) if m % rows == 0)
    return grid(rows, m // rows)


NAMED = {"ring": ring, "path": path, "star": star, "complete": complete, "grid": _square}


def _wave(k: int, m: int) -> float:
    # 2 - 2 cos(2 pi k / m), without a cancellation that costs a ring of 1,000,000 most digits.
    return 4 * math.sin(math.pi * k / m) ** 2


def _known_path(m: int) -> Known:
    return Known(_wave(m - 1, 2 * m), _wave(min(m - 1, 1), 2 * m), m - 1)


def _lock(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _index_type(largest: int) -> Any:
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


def _build(u: Ints, v: Ints, m: int, name: str, names: Any = None, known: Any = None) -> Graph:
    """Return the graph of the edges (u, v), each given once or more often, connected or not."""
    u, v = u[u != v], v[u != v]
    dtype = _index_type(max(m, 2 * u.size))
    ends = np.concatenate([u, v]).astype(dtype), np.concatenate([v, u]).astype(dtype)
    matrix = csr_array((np.ones(2 * u.size, bool), ends), shape=(m, m))
    indptr, indices = (x.astype(dtype, copy=False) for x in (matrix.indptr, matrix.indices))
    return Graph(m, indptr, indices, name, names, known)


def _drawn(
    draw: Callable[[np.random.Generator], tuple[Ints, Ints]],
    random_state: Any,
    m: int,
    of: str,
    parameter: str,
    value: float,
    advice: float,
) -> Graph:
    try:
        rng = np.random.default_rng(random_state)
    except (TypeError, ValueError):
        must = "be None, a whole number >= 0 or a numpy Generator"
        raise ParameterError(f"`random_state` of {of} must {must}. Got {random_state!r}.") from None
    for _ in range(DRAWS):
        graph = _build(*draw(rng), m, f"{of}({m}, {value:g})")
        if connected_components(graph.adjacency, directed=False)[0] == 1:
            return graph
    must = f"be large enough to connect {m} users, which none of {DRAWS} draws did"
    raise ParameterError(f"`{parameter}` of {of} must {must}. Got {value}; try {advice:.2g}.")


def _in_order(labels: set[str]) -> list[str]:
    digits = all(label.isdecimal() for label in labels)
    return sorted(labels, key=lambda label: (len(label) if digits else 0, label))


def _from_networkx(g: Any, subject: str, name: str) -> Graph:
    try:
        labels = [str(node) for node in g.nodes]
        ends = [str(node) for pair in g.edges() for node in pair]
    except (AttributeError, TypeError):
        got = reprlib.repr(g)
        raise ParameterError(f"{subject} must be a networkx graph. Got {got}.") from None
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
        raise GraphError(f"{subject} must be well-formed {kind[1:]}. Got: {got}.") from None


def _from_labels(ends: list[str], labels: list[str], subject: str, name: str) -> Graph:
    """Return the graph of the edges (ends[0], ends[1]), (ends[2], ends[3]), ... on `labels`."""
    if not labels or len(set(labels)) < len(labels):
        got = "two alike" if labels else "none"
        raise GraphError(f"{subject} must name at least one user, and no two alike. Got {got}.")
    numbers, names = {str(i): i for i in range(len(labels))}, None
    if numbers.keys() != set(labels):
        numbers, names = {label: i for i, label in enumerate(labels)}, tuple(labels)
    return _from_ends([numbers[label] for label in ends], len(labels), subject, name, names)


def _from_ends(ends: list[int], m: int, subject: str, name: str, names: Any = None) -> Graph:
    graph = _build(np.array(ends[::2], int), np.array(ends[1::2], int), m, name, names)
    count, part = connected_components(graph.adjacency, directed=False)
    if count > 1:
        size = np.bincount(part) + 0.5 * (np.arange(count) == part[0])  # at a tie, not user 0's
        inside = part == size.argmin()
        labels = names or range(m)
        alone = [labels[i] for i in np.flatnonzero(inside)]
        raise _apart(subject, alone, labels[int(inside.argmin())])
    return graph


def _apart(subject: str, alone: Sequence[Any], other: Any) -> GraphError:
    some = f"user{'s' * (len(alone) > 1)} {', '.join(map(str, alone[:5]))}"
    some += f" and {len(alone) - 5} more" if len(alone) > 5 else ""
    return GraphError(f"{subject} must connect all users: {some} cannot reach user {other}.")
