"""Breadth-first trees of a graph, and the user from which a tree is low.

A graph is given by its adjacency matrix. Distances are whole numbers and ties go to the lowest
number, so all machines build the same tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from peerclust.arrays import Ints
from peerclust.errors import ParameterError
from peerclust.validation import check_count


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of shortest paths from all users to one of them, the root.

    The parent of a user, (m,), is its lowest-numbered neighbor that is one step nearer to the root;
    that of the root is -1. The depth, (m,), is the distance to the root, the height is the largest.

    >>> from peerclust.graphs import path
    >>> path(5).tree
    Tree(root=2, parent=array([ 1,  2, -1,  2,  3]), depth=array([2, 1, 0, 1, 2]), height=2)
    """

    root: int
    parent: Ints
    depth: Ints
    height: int

    def children(self, i: int) -> Ints:
        """Return the users whose parent is user `i`, ascending.

        >>> from peerclust.graphs import path
        >>> path(5).tree.children(2).tolist()
        [1, 3]
        """
        i = check_user(i, len(self.parent), "children")
        users, parents = self._by_parent
        first, last = np.searchsorted(parents, [i, i + 1])
        return users[first:last]

    @cached_property
    def sizes(self) -> Ints:
        """The number of users in each user's subtree, itself included, (m,).

        >>> from peerclust.graphs import path
        >>> path(5).tree.sizes.tolist()
        [1, 2, 5, 2, 1]
        """
        sizes = np.ones_like(self.parent)
        for level in range(self.height, 0, -1):
            here = np.flatnonzero(self.depth == level)
            np.add.at(sizes, self.parent[here], sizes[here])
        sizes.setflags(write=False)
        return sizes

    @cached_property
    def _by_parent(self) -> tuple[Ints, Ints]:
        users = self.parent.argsort(kind="stable")
        users.setflags(write=False)
        return users, self.parent[users]


def grow_tree(adjacency: csr_array, root: int) -> Tree:
    """Return the breadth-first tree from `root`."""
    depth = _distances(adjacency, root)
    parent = np.full_like(depth, -1)
    users = np.repeat(
        np.arange(depth.size, dtype=adjacency.indices.dtype), np.diff(adjacency.indptr)
    )
    nearer = depth[adjacency.indices] < depth[users]
    # Neighbors ascend, so of each user's assignments, from last to first, the lowest remains.
    parent[users[nearer][::-1]] = adjacency.indices[nearer][::-1]
    for array in (parent, depth):
        array.setflags(write=False)
    return Tree(root, parent, depth, int(depth.max()))


def find_center(adjacency: csr_array, tries: int) -> int:
    """Return the user of the least eccentricity, of several the lowest-numbered.

    The eccentricity of a user is its largest distance to any user. If `tries` users do not prove
    which one is the center, return the best of them.
    """
    # Eccentricities of users differ by at most their distance, and none is below a distance. The
    # users far from a tried one have large distances, so their bounds exclude the most users.
    bound = np.zeros(adjacency.shape[0], np.int64)
    tried = []
    for _ in range(tries):
        user = int(bound.argmin())
        near = _distances(adjacency, user)
        tried.append((int(near.max()), user))
        if bound[user] == near.max():
            break
        far = _distances(adjacency, int(near.argmax()))
        bound = np.max([bound, near, near.max() - near, far, far.max() - far], axis=0)
    return min(tried)[1]


def check_user(i: int, m: int, of: str) -> int:
    """Return `i` if it is one of the users 0 to m - 1; else raise."""
    if check_count(i, "i", of, at_least=0) >= m:
        raise ParameterError(f"`i` of {of} must be a user, 0 to {m - 1}. Got {i}.")
    return int(i)


def _distances(adjacency: csr_array, root: int) -> Ints:
    toward: Ints
    _, toward = breadth_first_order(adjacency, root)
    toward[toward < 0] = root  # only the root has no predecessor
    distances: Ints = (toward != np.arange(toward.size)).astype(np.int64)
    # Each user knows its distance to a user nearer to the root; each pass doubles that distance.
    while (toward != root).any():
        distances += distances[toward]
        toward = toward[toward]
    return distances
