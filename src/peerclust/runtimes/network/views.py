"""The active neighbors of every peer, as far as one peer knows, and the graph that they form.

Each peer states its active neighbors whenever they change (`messages.View`), and statements are
flooded (`gossip`). So all peers of a connected component come to have the same views. No I/O.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Sequence

from peerclust.graphs import Graph
from peerclust.runtimes.network.messages import View

Pair = tuple[int, int]

# Maximum number of reasons for changes that are kept, for the result.
_MAX_REASONS = 1000


def reachable_peers(graph: Graph, lost: Iterable[Pair], me: int) -> tuple[int, ...]:
    """Return the peers that `me` reaches over the links that are not lost, in ascending order.

    >>> from peerclust.graphs import ring
    >>> reachable_peers(ring(5), [(0, 1), (2, 3)], 1)
    (1, 2)
    """
    gone = set(lost)
    near = {
        i: [j for j in graph.neighbors(i).tolist() if (min(i, j), max(i, j)) not in gone]
        for i in range(graph.m)
    }
    return tuple(sorted(_distances(near, me)))


class MembershipViews:
    """The latest view of every peer, starting from the result of the set-up."""

    def __init__(self, graph: Graph, members: Sequence[int], lost: Iterable[Pair]) -> None:
        self.graph = graph
        self.members = frozenset(members)
        self.lost = tuple(lost)
        gone = set(self.lost)
        self._latest = {}
        for i in range(graph.m):
            near = [] if i not in self.members else graph.neighbors(i).tolist()
            counts = [j for j in near if (min(i, j), max(i, j)) not in gone]
            self._latest[i] = View(peer=i, start=0, seq=0, round=0, counts=counts)
        self._orders = [(0, 0)] * graph.m
        # What others reported, with their rounds.
        self.reasons: deque[tuple[int, int, str]] = deque(maxlen=_MAX_REASONS)

    def __getitem__(self, peer: int) -> View:
        return self._latest[peer]

    def all(self) -> list[View]:
        """Return the latest view of every peer."""
        return list(self._latest.values())

    def update(self, view: View) -> bool:
        """Store a view, and return whether it is new."""
        last = self._latest.get(view.peer)
        if last is None or (view.start, view.seq) <= (last.start, last.seq):
            return False
        self._latest[view.peer] = view
        seq = view.seq - (view.ended is not None)
        self._orders[view.peer] = (view.start, seq) if seq else (0, 0)
        if view.reason:
            self.reasons.append((view.round, view.peer, view.reason))
        return True

    @property
    def checksum(self) -> int:
        """A checksum of the views, which is equal at two peers only if their views are.

        The end of a peer does not change it, as the others are about to end, too.
        """
        changed = any(seq for _, seq in self._orders)
        return zlib.crc32(repr(self._orders).encode()) if changed else 0

    def component(self, me: int) -> tuple[int, ...]:
        """Return the peers reachable over links that are active at both ends, ascending."""
        return tuple(sorted(_distances(self._mutual(), me)))

    def mutual(self, me: int) -> list[int]:
        """Return the neighbors of `me` over links that are active at both ends."""
        return self._mutual()[me]

    def lost_links(self, members: Sequence[int]) -> list[Pair]:
        """Return the links between these peers that are not active at both ends."""
        near, inside = self._mutual(), set(members)
        return [(i, j) for i, j in self.graph.pairs if {i, j} <= inside and j not in near[i]]

    def diameter(self, me: int) -> int:
        """Return the diameter of the component of `me`, in links."""
        near = self._mutual()
        return max(max(_distances(near, i).values()) for i in self.component(me))

    def _mutual(self) -> dict[int, list[int]]:
        counts = {i: set(view.counts) for i, view in self._latest.items()}
        return {i: [j for j in near if i in counts.get(j, ())] for i, near in counts.items()}


def _distances(near: dict[int, list[int]], start: int) -> dict[int, int]:
    """Return the distance in links of each reachable peer."""
    found, edge = {start: 0}, [start]
    while edge:
        fresh = []
        for i in edge:
            for j in near[i]:
                if j not in found:
                    found[j] = found[i] + 1
                    fresh.append(j)
        edge = fresh
    return found
