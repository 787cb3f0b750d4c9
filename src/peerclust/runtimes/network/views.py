"""Who counts whom, as far as one peer has heard: the living graph, and what may be said of it.

Each peer tells whom it counts as its neighbors whenever that changes, and passes on what it hears
(`messages.View`); so all peers of a connected part come to hold the same views. No I/O.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from peerclust.graphs import Graph
from peerclust.runtimes.network.messages import View

Pair = tuple[int, int]

# So many changes for each peer are told to one that comes late.
MAX_VIEWS = 4


def reachable_peers(graph: Graph, lost: Iterable[Pair], me: int) -> tuple[int, ...]:
    """Give the peers that `me` reaches over a graph's links without the lost ones, ascending.

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
    """The latest view of every peer; it begins with what an agreement ended on."""

    def __init__(self, graph: Graph, members: Sequence[int], lost: Iterable[Pair]) -> None:
        self.graph = graph
        self.members = frozenset(members)
        self.lost = tuple(lost)
        gone = set(self.lost)
        self._latest = {}
        for i in range(graph.m):
            near = [] if i not in self.members else graph.neighbors(i).tolist()
            counts = [j for j in near if (min(i, j), max(i, j)) not in gone]
            self._latest[i] = View(peer=i, seq=0, round=0, counts=counts)
        self._first = {i: set(view.counts) for i, view in self._latest.items()}
        self._seqs = [0] * graph.m
        # Every change that was heard of, for the record of who contributed when.
        self.history: list[View] = []

    def __getitem__(self, peer: int) -> View:
        return self._latest[peer]

    def all(self) -> list[View]:
        """Give the latest view of every peer."""
        return list(self._latest.values())

    def for_late_peer(self) -> list[View]:
        """Give what a peer that comes late is told: all changes, or the latest if they are many."""
        if len(self.history) <= MAX_VIEWS * self.graph.m:
            return list(self.history)
        return [view for view in self.all() if view.seq]

    def update(self, view: View) -> bool:
        """Take a view in; tell whether it is new."""
        if view.peer not in self._latest or view.seq <= self._latest[view.peer].seq:
            return False
        self._latest[view.peer] = view
        self._seqs[view.peer] = view.seq - (view.ended is not None)
        self.history.append(view)
        return True

    @property
    def checksum(self) -> int:
        """A number that two peers share only if they hold the same views of the living graph.

        That a peer has ended changes nothing for those who are about to.
        """
        return zlib.crc32(repr(self._seqs).encode()) if any(self._seqs) else 0

    @property
    def unchanged(self) -> bool:
        """Whether everyone has counted, at all times that were heard of, whom all agreed on."""
        return all(set(view.counts) == self._first[view.peer] for view in self.history)

    def component(self, me: int) -> tuple[int, ...]:
        """Give the peers that can be reached over links which both ends count, ascending."""
        return tuple(sorted(_distances(self._mutual(), me)))

    def diameter(self, me: int) -> int:
        """Give the most links between any two peers of the part, by the shortest way."""
        near = self._mutual()
        return max(max(_distances(near, i).values()) for i in self.component(me))

    def unaccounted(self, me: int) -> list[int]:
        """Give the peers outside the part whose loss no peer has noticed: they may be alive."""
        part = set(self.component(me))
        noticed = set()
        for view in self._latest.values():
            if view.peer in self.members or view.seq:
                noticed |= set(self.graph.neighbors(view.peer).tolist()) - set(view.counts)
        return [i for i in range(self.graph.m) if i not in part and i not in noticed]

    def is_partitioned(self, me: int) -> bool:
        """Tell whether others may be running without this part: then nobody may claim success.

        It is so where peers are missing whose loss was not noticed, and where at most half of all
        peers are in this part; so of two parts at most one does not fall apart.
        """
        return bool(self.unaccounted(me)) or 2 * len(self.component(me)) <= self.graph.m

    def _mutual(self) -> dict[int, list[int]]:
        counts = {i: set(view.counts) for i, view in self._latest.items()}
        return {i: [j for j in near if i in counts.get(j, ())] for i, near in counts.items()}


def _distances(near: dict[int, list[int]], start: int) -> dict[int, int]:
    """Give how many links each peer that can be reached is away."""
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
