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

    def __init__(
        self, graph: Graph, members: Sequence[int], lost: Iterable[Pair], me: int = 0
    ) -> None:
        self.graph, self._me = graph, me
        self.members = frozenset(members)
        self.lost = tuple(lost)
        gone = set(self.lost)
        self._latest = {}
        for i in range(graph.m):
            near = [] if i not in self.members else graph.neighbors(i).tolist()
            counts = [j for j in near if (min(i, j), max(i, j)) not in gone]
            self._latest[i] = View(peer=i, start=0, seq=0, round=0, counts=counts)
        self._orders = [(0, 0)] * graph.m
        # What follows from these views, once it was asked for.
        self._near: dict[int, list[int]] | None = None
        self._checksum: int | None = None
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
        self._latest[view.peer], self._near, self._checksum = view, None, None
        seq = view.seq - view.ended
        self._orders[view.peer] = (view.start, seq) if seq else (0, 0)
        if view.reason:
            self.reasons.append((view.round, view.peer, view.reason))
        return True

    @property
    def checksum(self) -> int:
        """A checksum of the views in this peer's component, equal at two only if their views are.

        What peers outside of it state does not change it. The end of a peer does not, either, as
        the others are about to end, too. It is 0 as long as nothing has changed since the set-up.
        """
        if self._checksum is None:
            inside = set(self.component(self._me))
            orders = [each if i in inside else None for i, each in enumerate(self._orders)]
            changed = inside != self.members or any(self._orders[i][1] for i in inside)
            self._checksum = zlib.crc32(repr(orders).encode()) if changed else 0
        return self._checksum

    def component(self, me: int) -> tuple[int, ...]:
        """Return the peers reachable over links that are active at both ends, ascending."""
        return tuple(sorted(_distances(self.near, me)))

    def lost_links(self, members: Sequence[int]) -> list[Pair]:
        """Return the links between these peers that are not active at both ends."""
        near, inside = self.near, set(members)
        return [(i, j) for i, j in self.graph.pairs if {i, j} <= inside and j not in near[i]]

    def diameter(self, me: int) -> int:
        """Return the diameter of the component of `me`, in links."""
        return max(max(_distances(self.near, i).values()) for i in self.component(me))

    @property
    def near(self) -> dict[int, list[int]]:
        """The neighbors of each peer over links that are active at both ends."""
        if self._near is None:
            counts = {i: set(view.counts) for i, view in self._latest.items()}
            self._near = {
                i: [j for j in near if i in counts.get(j, ())] for i, near in counts.items()
            }
        return self._near


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
