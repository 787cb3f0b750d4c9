"""Named graphs: ring, path, star, complete, exponential, grid, and random ones.

`resolve` returns what the parameter `graph` stands for.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from peerclust.arrays import Ints
from peerclust.errors import GraphError, ParameterError
from peerclust.graphs.graph import Graph, Known, build, index_type
from peerclust.graphs.read import build_from_networkx
from peerclust.text import parameter
from peerclust.validation import (
    RandomState,
    check_count,
    check_generator,
    check_name,
    check_number,
)

DRAWS = 1000  # the maximum number of draws of a random graph
FEW = 16  # the largest number of users whose automatic graph is complete


def ring(m: int) -> Graph:
    """Return the ring: user i is connected to i - 1 and i + 1, and the last user to the first.

    Eigenvalues 2 - 2 cos(2 pi k / m), k = 0, ..., m - 1.

    >>> ring(5).neighbors(0).tolist()
    [1, 4]
    """
    m = check_count(m, "m", "ring")
    users = np.arange(m)
    known = Known(_wave(m // 2, m), _wave(1, m), m // 2) if m > 2 else _known_path(m)
    return build(users, (users + 1) % m, m, f"ring({m})", known=known)


def path(m: int) -> Graph:
    """Return the path: a ring without the edge from the last user to the first.

    Eigenvalues 2 - 2 cos(pi k / m), k = 0, ..., m - 1.

    >>> path(5).neighbors(0).tolist()
    [1]
    """
    m = check_count(m, "m", "path")
    users = np.arange(m)
    return build(users[:-1], users[1:], m, f"path({m})", known=_known_path(m))


def star(m: int) -> Graph:
    """Return the star: user 0 is connected to all others, which have no other neighbors.

    Eigenvalues 0, 1 (m - 2 times) and m.

    >>> star(5).degree.tolist()
    [4.0, 1.0, 1.0, 1.0, 1.0]
    """
    m = check_count(m, "m", "star")
    known = Known(float(m), 1.0, 2) if m > 2 else _known_path(m)
    return build(np.zeros(m - 1, int), np.arange(1, m), m, f"star({m})", known=known)


def complete(m: int) -> Graph:
    """Return the complete graph: every two users are connected.

    Eigenvalues 0 and m (m - 1 times).

    >>> complete(5).edges
    10
    """
    m = check_count(m, "m", "complete")
    # Row i is 0, ..., m - 1 without i; a list of its pairs would take several times the memory.
    others = np.arange(m - 1, dtype=index_type(m * (m - 1)))
    indices = (others + (others >= np.arange(m)[:, None])).ravel()
    indptr = np.arange(m + 1, dtype=others.dtype) * (m - 1)
    known = Known(float(m), float(m), 1) if m > 1 else _known_path(m)
    return Graph(m, indptr, indices, f"complete({m})", known=known)


def exponential(m: int) -> Graph:
    """Return the exponential graph: user i is connected to i - 2^j and i + 2^j for each 2^j < m.

    Users are counted modulo m. A user has at most 2 ceil(log2(m)) neighbors. Eigenvalues: the sum
    of 2 sin(pi k s / m)^2 over the neighbors s of user 0, k = 0, ..., m - 1.

    >>> exponential(20).neighbors(0).tolist()
    [1, 2, 4, 8, 12, 16, 18, 19]
    """
    m = check_count(m, "m", "exponential")
    powers = [2**j for j in range((m - 1).bit_length())]
    steps = sorted({step % m for power in powers for step in (power, -power)})
    dtype = index_type(m * max(len(steps), 2))
    # Directly, for the same reason as in `complete`.
    indices = np.arange(m, dtype=dtype)[:, None] + np.array(steps, dtype)
    indices %= m
    indices.sort(axis=1)
    indptr = np.arange(m + 1, dtype=dtype) * len(steps)
    known = _known_circulant(m, steps)
    return Graph(m, indptr, indices.ravel(), f"exponential({m})", known=known)


def grid(rows: int, columns: int) -> Graph:
    """Return the grid: user r * columns + c is in row r and column c, connected to adjacent users.

    Its eigenvalues are the sums of an eigenvalue of path(rows) and one of path(columns).

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
    return build(u, v, rows * columns, f"grid({rows}, {columns})", known=known)


def erdos_renyi(m: int, p: float, *, random_state: RandomState = None) -> Graph:
    """Return a graph with each edge present with probability `p`, drawn until it is connected.

    >>> erdos_renyi(20, 0.3, random_state=0)
    <Graph erdos_renyi(20, 0.3): m=20, edges=56>
    """
    m = check_count(m, "m", "erdos_renyi")
    p = check_number(p, "p", "erdos_renyi", above=0, at_most=1)
    # All pairs in one sequence: (0, 1), (0, 2), (1, 2), (0, 3), ...; those of v start at first[v].
    first = np.arange(m) * (np.arange(m) - 1) // 2
    pairs = m * (m - 1) // 2

    def draw(rng: np.random.Generator) -> tuple[Ints, Ints]:
        chosen = rng.choice(pairs, rng.binomial(pairs, p), replace=False, shuffle=False)
        v = np.searchsorted(first, chosen, side="right") - 1
        return chosen - first[v], v

    return _draw_until_connected(draw, random_state, m, "erdos_renyi", "p", p, math.log(m) / m)


def geometric(m: int, radius: float, *, random_state: RandomState = None) -> Graph:
    """Return a graph of m random points in the unit square, connected within `radius`.

    Points are drawn until the graph is connected.

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
    return _draw_until_connected(draw, random_state, m, "geometric", "radius", radius, advice)


def auto(m: int) -> Graph:
    """Return the complete graph of up to 16 users, or the exponential graph of more.

    >>> auto(16), auto(1000)
    (<Graph complete(16): m=16, edges=120>, <Graph exponential(1000): m=1000, edges=10000>)
    """
    m = check_count(m, "m", "auto")
    return complete(m) if m <= FEW else exponential(m)


def _square(m: int) -> Graph:
    rows = next(rows for rows in range(math.isqrt(m), 0, -1) if m % rows == 0)
    return grid(rows, m // rows)


NAMED = {
    "ring": ring,
    "path": path,
    "star": star,
    "complete": complete,
    "exponential": exponential,
    "grid": _square,
    "auto": auto,
}


def _wave(k: int, m: int) -> float:
    # 2 - 2 cos(2 pi k / m), without the cancellation that would lose most digits for m = 1,000,000.
    return 4 * math.sin(math.pi * k / m) ** 2


def _known_path(m: int) -> Known:
    return Known(_wave(m - 1, 2 * m), _wave(min(m - 1, 1), 2 * m), m - 1)


def _known_circulant(m: int, steps: list[int]) -> Known:
    """Return the measures of the graph in which i is connected to i + s for each s in `steps`."""
    if m == 1:
        return _known_path(m)
    k, values = np.arange(1, m // 2 + 1), np.zeros(m // 2)  # the eigenvalue of m - k is that of k
    for step in steps:
        # The remainder keeps the angle below pi; that of k s = 10^12 would lose most digits.
        values += 2 * np.sin(k * step % m * (np.pi / m)) ** 2
    # All users look alike, so the diameter is the largest distance to user 0.
    reached, diameter = np.arange(m) == 0, 0
    while not reached.all():
        before, diameter = reached.copy(), diameter + 1
        for step in steps:
            reached |= np.roll(before, step)
    return Known(float(values.max()), float(values.min()), diameter)


def _draw_until_connected(
    draw: Callable[[np.random.Generator], tuple[Ints, Ints]],
    random_state: Any,
    m: int,
    of: str,
    name: str,
    value: float,
    advice: float,
) -> Graph:
    rng = check_generator(random_state, of)
    for _ in range(DRAWS):
        graph = build(*draw(rng), m, f"{of}({m}, {value:g})")
        if connected_components(graph.adjacency, directed=False)[0] == 1:
            return graph
    must = f"be large enough to connect {m} users; none of {DRAWS} draws did"
    raise ParameterError(f"`{name}` of {of} must {must}. Got {value}; try {advice:.2g}.")


def resolve(graph: Graph | str | Any, m: int) -> Graph:
    """Return the graph of m users for `cluster(graph=...)`: a Graph, a name or a networkx graph.

    The names are "ring", "path", "star", "complete", "exponential", "grid" (as square as possible)
    and "auto" (complete for up to 16 users, else exponential).

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
        must = "have as many nodes as there are users"
        got = f"{graph.m} nodes in {graph.name} and {m} users"
        raise GraphError(subject + f" must {must}. Got {got}.")
    return graph
