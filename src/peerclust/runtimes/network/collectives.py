"""Maxima and sums over all peers of a living graph, by exchanges between neighbors in lockstep.

A maximum is flooded. A sum goes up the breadth-first tree of the graph and comes down again. All
active neighbors take part in every exchange, so that nobody gets ahead; but integers travel only
over the links of the tree. In the exchange height - l + 1 of the way up, a peer of depth l sends
the sum of its subtree to its parent; in the exchange l + 1 of the way down, it sends the total to
its children.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from peerclust.arrays import Array
from peerclust.graphs import Graph
from peerclust.graphs.graph import build
from peerclust.programs.protocol import (
    Heard,
    HeardMax,
    HeardTotal,
    Message,
    NetworkMax,
    NetworkSum,
)
from peerclust.runtimes.network import wire
from peerclust.runtimes.network.lockstep import Flow, Lockstep
from peerclust.runtimes.network.views import Pair
from peerclust.runtimes.network.wire import Frame, Integers, Kind

# The largest magnitude of a number; sums and squares of such numbers are still finite.
LARGEST = 1e100


def active_graph(graph: Graph, members: tuple[int, ...], lost: Sequence[Pair]) -> Graph:
    """Return the graph of the members without the lost links; members are numbered from 0.

    >>> from peerclust.graphs import ring
    >>> active_graph(ring(4), (0, 1, 3), [])
    <Graph active links: m=3, edges=2>
    """
    index = {i: k for k, i in enumerate(members)}
    gone = set(lost)
    edges = [
        (index[i], index[j])
        for i, j in graph.pairs
        if i in index and j in index and (i, j) not in gone
    ]
    if len(edges) == graph.edges:
        return graph
    u, v = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return build(u, v, len(members), "active links")


@dataclass(frozen=True, eq=False)
class LivingGraph:
    """The graph of the peers that take part, `members` by number, and the place of one of them.

    >>> from peerclust.graphs import path
    >>> living = LivingGraph(path(3), (2, 5, 7), 2)
    >>> living.parent, living.children, living.depth, living.D
    (frozenset({5}), frozenset(), 1, 2)
    """

    graph: Graph
    members: tuple[int, ...]
    number: int

    @cached_property
    def D(self) -> int:
        """The diameter, or an upper bound on it."""
        return int(self.graph.diameter.value)

    @cached_property
    def me(self) -> int:
        """The number of this peer in the graph."""
        return self.members.index(self.number)

    @cached_property
    def depth(self) -> int:
        """The distance to the root of the tree."""
        return int(self.graph.tree.depth[self.me])

    @cached_property
    def parent(self) -> frozenset[int]:
        """The neighbor that is next on the way to the root; none for the root."""
        parent = int(self.graph.tree.parent[self.me])
        return frozenset() if parent < 0 else frozenset([self.members[parent]])

    @cached_property
    def children(self) -> frozenset[int]:
        """The neighbors whose parent this peer is."""
        return frozenset(self.members[i] for i in self.graph.tree.children(self.me).tolist())

    def subtree_size(self, number: int) -> int:
        """Return how many peers the subtree of a peer has, itself included."""
        return int(self.graph.tree.sizes[self.members.index(number)])


async def reduce_over_network(
    said: Message[Heard], living: LivingGraph, lockstep: Lockstep
) -> HeardMax | HeardTotal:
    """Return the maximum or sum over all peers that a block of one user hears."""
    if isinstance(said, NetworkMax):
        largest, limits = said.v[0], said.limits

        def check(array: Array) -> str:
            return refuse_large(array) or ("" if limits is None else limits.refuse(array))

        for _ in range(living.D):
            frames = await lockstep.exchange(Kind.AGREE, largest, check)
            largest = np.maximum.reduce([largest, *(frame.array for frame in frames.values())])
        return HeardMax(largest)
    assert isinstance(said, NetworkSum)
    return HeardTotal(await _add(said, living, lockstep))


async def _add(said: NetworkSum, living: LivingGraph, lockstep: Lockstep) -> Integers:
    """Return the sum of all peers' integers, (w,), modulo 2^64.

    A sum that its peers cannot have is refused: on the way up, that of a child's subtree; on the
    way down, what the total adds to the sum of this peer's own subtree.
    """
    own: Integers = said.v[0]
    refuse = said.refuse or (lambda *_: "")

    def check_subtree(integers: Integers, number: int) -> str:
        return refuse(integers, living.subtree_size(number))

    def check_total(integers: Integers, _: int) -> str:
        return refuse(integers - total, len(living.members) - living.subtree_size(living.number))

    depth, height, total = living.depth, living.graph.tree.height, own.copy()
    nobody: frozenset[int] = frozenset()
    for left in range(height, 0, -1):
        to, of = living.parent if left == depth else nobody, nobody
        if left == depth + 1:
            of = living.children
        for frame in await _exchange(total, Flow(to, of, check_subtree), lockstep):
            total += frame.integers
    for level in range(height):
        to, of = living.children if level == depth else nobody, nobody
        if level == depth - 1:
            of = living.parent
        for frame in await _exchange(total, Flow(to, of, check_total), lockstep):
            total = frame.integers
    return total


async def _exchange(total: Integers, flow: Flow, lockstep: Lockstep) -> list[Frame]:
    """Return the frames of the neighbors that send integers."""
    frames = await lockstep.exchange(Kind.AGREE, total, refuse_large, flow=flow, dtype=wire.UINT64)
    return [frame for number, frame in frames.items() if number in flow.of]


async def pass_barrier(living: LivingGraph, lockstep: Lockstep) -> None:
    """Wait until every member has come to this point.

    There are as many exchanges as members, so this holds even if some are lost meanwhile.
    """
    for _ in living.members:
        await lockstep.exchange(Kind.AGREE, np.zeros(1), refuse_large)


def refuse_large(array: Array) -> str:
    """Return why an array of numbers cannot be used, or ""."""
    # Minus infinity means that a peer has no value.
    valid = (np.abs(array) <= LARGEST) | np.isneginf(array)
    return "" if valid.all() else f"NaN, or a magnitude above {LARGEST:g}"
