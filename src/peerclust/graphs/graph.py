"""The class `Graph` and its measures; `named` and `read` build graphs.

The measures are the largest and the second smallest eigenvalue of the Laplacian
L = diag(degree) - A, and the diameter. A graph also has a breadth-first tree (see `tree`). What is
sent along the edges, and the step sizes that follow from the measures, belong elsewhere.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components, shortest_path

from peerclust.errors import GraphError, ParameterError
from peerclust.graphs.tree import Tree, check_user, find_center, grow_tree
from peerclust.text import shorten

DENSE = 1500  # the largest number of users whose measures are computed exactly without closed forms
TRIES = 4  # the number of users that may be tried as the center of a larger graph

Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Measure:
    """A number that describes a graph, whether it is exact or a bound, and how it was computed."""

    value: float
    exact: bool
    how: str


class Known(NamedTuple):
    """The exact measures of a graph, known from its construction."""

    lambda_max: float
    lambda_2: float
    diameter: int


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A connected graph of the users 0 to m - 1, immutable.

    User i's neighbors are `indices[indptr[i]:indptr[i + 1]]`, ascending. `names[i]` is the name of
    user i; `names` is None where users have numbers only. `named` and `read` build graphs and check
    their arguments; the class itself does not.

    >>> from peerclust.graphs import ring
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
        # Through __init__, so that the arrays of a copy are read-only, too.
        return Graph, (self.m, self.indptr, self.indices, self.name, self.names, self.known)

    def neighbors(self, i: int) -> Ints:
        """Return the neighbors of user `i`, ascending."""
        i = check_user(i, self.m, "neighbors")
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    def reordered(self, order: Sequence[int] | Ints) -> Graph:
        """Return the same graph with its users reordered: user i is user `order[i]` of this one.

        >>> from peerclust.graphs import from_edges
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
        return build(rows, place[self.indices], self.m, self.name, names, self.known)

    def matched(self, users: Sequence[str], subject: str) -> Graph:
        """Return the same graph with its users in the order of these names.

        A graph without names has them in order already. Raise if the names are not the same.

        >>> from peerclust.graphs import from_edges
        >>> from_edges([("a", "b"), ("b", "c")]).matched(["c", "a", "b"], "The graph").names
        ('c', 'a', 'b')
        """
        if self.names is None:
            return self
        adds = [repr(name) for name in sorted(set(self.names) - set(users))]
        lacks = [repr(name) for name in sorted(set(users) - set(self.names))]
        if adds or lacks:
            wrong = [f"adds {shorten(adds)}"] if adds else []
            wrong += [f"lacks {shorten(lacks)}"] if lacks else []
            raise GraphError(subject + f" must name exactly the users; it {' and '.join(wrong)}.")
        place = {name: i for i, name in enumerate(self.names)}
        return self.reordered([place[name] for name in users])

    def check_connected(self, subject: str) -> None:
        """Raise if the graph is not connected, naming a component; errors start with `subject`."""
        count, part = connected_components(self.adjacency, directed=False)
        if count > 1:
            # The smallest component; at a tie, not that of user 0.
            size = np.bincount(part) + 0.5 * (np.arange(count) == part[0])
            inside = part == size.argmin()
            labels = self.names or range(self.m)
            alone = [labels[int(i)] for i in np.flatnonzero(inside)]
            raise disconnected(subject, alone, labels[int(inside.argmin())])

    @property
    def edges(self) -> int:
        """The number of edges."""
        return self.indices.size // 2

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The edges, each once, as (i, j) with i < j, ascending."""
        return [(i, j) for i in range(self.m) for j in self.neighbors(i).tolist() if i < j]

    @cached_property
    def degree(self) -> NDArray[np.float64]:
        """The number of neighbors of each user, (m,)."""
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

    @cached_property
    def lambda_max(self) -> Measure:
        """The largest eigenvalue of the Laplacian, or an upper bound on it."""
        if self.known:
            return Measure(self.known.lambda_max, True, "closed form")
        if self.m <= DENSE:
            return Measure(float(self._eigenvalues[-1]), True, "dense eigenvalues")
        how = "max over edges of d_u + d_v, at most m, an upper bound"
        return Measure(lambda_max_bound(self), False, how)

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
        """The longest shortest path between two users, in edges, or an upper bound on it."""
        if self.known:
            return Measure(self.known.diameter, True, "known from the construction")
        if self.m <= DENSE:
            longest = shortest_path(self.adjacency, unweighted=True).max()
            return Measure(int(longest), True, "all shortest paths")
        how = "twice the eccentricity of a central user, at most m - 1, an upper bound"
        return Measure(min(2 * self.tree.height, self.m - 1), False, how)

    @cached_property
    def tree(self) -> Tree:
        """The breadth-first tree from the center, the user with the shortest way to all others.

        With more than 1500 users, its root is a user found in few tries, near the center or in it.

        >>> from peerclust.graphs import ring
        >>> ring(10).tree.height
        5
        """
        tries = self.m if self.m <= DENSE else TRIES
        return grow_tree(self.adjacency, find_center(self.adjacency, tries))

    @cached_property
    def _eigenvalues(self) -> NDArray[np.float64]:
        return np.linalg.eigvalsh(self.laplacian.toarray())


def lambda_max_bound(graph: Graph) -> float:
    """Return an upper bound on the largest eigenvalue of the Laplacian."""
    # Anderson and Morley, 1985. Every user has a neighbor, so no slice of reduceat is empty.
    largest = np.maximum.reduceat(graph.degree[graph.indices], graph.indptr[:-1])
    return float(min((graph.degree + largest).max(), graph.m))


def build(u: Ints, v: Ints, m: int, name: str, names: Any = None, known: Any = None) -> Graph:
    """Return the graph of the edges (u, v); they may repeat, and it need not be connected."""
    u, v = u[u != v], v[u != v]
    dtype = index_type(max(m, 2 * u.size))
    ends = np.concatenate([u, v]).astype(dtype), np.concatenate([v, u]).astype(dtype)
    matrix = csr_array((np.ones(2 * u.size, bool), ends), shape=(m, m))
    indptr, indices = (x.astype(dtype, copy=False) for x in (matrix.indptr, matrix.indices))
    return Graph(m, indptr, indices, name, names, known)


def index_type(largest: int) -> Any:
    """Return the smaller integer type that holds numbers up to `largest`."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


def _lock(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def disconnected(subject: str, alone: Sequence[Any], other: Any) -> GraphError:
    """Return the error that names users that cannot reach another."""
    some = f"user{'s' * (len(alone) > 1)} {shorten(alone)}"
    return GraphError(subject + f" must connect all users: {some} cannot reach user {other}.")
