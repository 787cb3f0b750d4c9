"""Maxima and sums over the network, between nodes in one event loop."""

import numpy as np
import pytest

from joined_nodes import JoinedNodes
from peerclust.graphs import complete, erdos_renyi, path, ring, star
from peerclust.programs.protocol import NetworkMax, NetworkSum
from peerclust.runtimes import Loopback
from peerclust.runtimes.network import wire
from peerclust.runtimes.network.collectives import LivingGraph, reduce_over_network
from peerclust.runtimes.network.wire import Kind
from peerclust.runtimes.protocol import Said

GRAPHS = [path(2), path(5), ring(6), star(5), complete(4), erdos_renyi(8, 0.4, random_state=2)]


def reduce_all(graph, said):
    """Return what all peers hear, and the frames of each link, by sender and receiver."""
    net = JoinedNodes(graph, running=False)
    everyone = tuple(range(graph.m))
    try:
        heard = net.run(
            reduce_over_network(message, LivingGraph(graph, everyone, i), net.nodes[i])
            for i, message in enumerate(said)
        )
    finally:
        net.close()
    arrays = {
        pair: [frame for frame in frames if frame.kind is Kind.AGREE]
        for pair, frames in net.sent.items()
    }
    return [heard[i].v for i in everyone], arrays


@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_a_sum_between_peers_has_the_bits_of_the_loopback_in_as_many_exchanges(graph):
    rng = np.random.default_rng(graph.m)
    said = [NetworkSum(rng.integers(0, 2**64, (1, 7), np.uint64)) for _ in range(graph.m)]
    heard, frames = reduce_all(graph, said)
    expected = Loopback(graph).deliver(Said(said, [], [])).messages
    for mine, theirs in zip(heard, expected, strict=True):
        assert np.array_equal(mine, theirs.v)
    assert {len(each) for each in frames.values()} == {2 * graph.tree.height}


@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_only_links_of_the_tree_carry_integers_once_up_and_once_down(graph):
    said = [NetworkSum(np.full((1, 3), 10**i, np.uint64)) for i in range(graph.m)]
    _, frames = reduce_all(graph, said)
    total = sum(10**i for i in range(graph.m))
    tree = graph.tree
    for (i, j), sent in frames.items():
        assert all(frame.dtype == wire.UINT64 for frame in sent)
        carried = {frame.exchange: frame.integers for frame in sent if frame.integers.size}
        if tree.parent[i] == j:
            # Only the sum of its subtree, as soon as its children can have sent theirs.
            assert list(carried) == [tree.height - tree.depth[i]]
            (integers,) = carried.values()
            below = [k for k in range(graph.m) if i in ancestors(tree, k)]
            assert integers.tolist() == [sum(10**k for k in below)] * 3
        elif tree.parent[j] == i:
            assert list(carried) == [tree.height + tree.depth[i]]
            assert carried[tree.height + tree.depth[i]].tolist() == [total] * 3
        else:
            assert not carried


def ancestors(tree, user):
    found = [user]
    while tree.parent[found[-1]] >= 0:
        found.append(int(tree.parent[found[-1]]))
    return found


@pytest.mark.parametrize("graph", GRAPHS, ids=str)
def test_a_maximum_reaches_all_peers(graph):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(graph.m, 1, 2, 3))
    heard, _ = reduce_all(graph, [NetworkMax(v) for v in values])
    assert all(np.array_equal(each, values.max(axis=(0, 1))) for each in heard)
