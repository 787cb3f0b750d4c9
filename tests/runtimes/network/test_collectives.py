"""Maxima and sums over the network, between nodes in one event loop."""

import numpy as np
import pytest

from joined_nodes import JoinedNodes
from peerclust.graphs import complete, erdos_renyi, path, ring, star
from peerclust.programs.fixed_point import FixedPoint
from peerclust.programs.limits import Limits
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
            reduce_over_network(message, LivingGraph(graph, everyone, i), net.nodes[i].lockstep)
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


def reduce_with_a_lie(graph, liar, lie, values, limits):
    """Return who refused whom, and why, if one peer sends what `lie` makes of its integers."""
    net, refused = JoinedNodes(graph, running=False), []
    numbers = FixedPoint.for_bound(np.array([100.0]), graph.m)
    for node in net.nodes:
        node.lockstep._drop = lambda link, cause, reason, name=node.session.name: refused.append(
            (name, link.name, reason)
        )
    exchange = net.nodes[liar].lockstep.exchange
    net.nodes[liar].lockstep.exchange = lambda kind, payload, check, **other: exchange(
        kind, lie(payload), check, **other
    )
    try:
        net.run(
            reduce_over_network(
                numbers.message(np.array([[value]]), limits),
                LivingGraph(graph, tuple(range(graph.m)), i),
                net.nodes[i].lockstep,
            )
            for i, value in enumerate(values)
        )
    finally:
        net.close()
    return refused


def test_sums_of_a_subtree_that_its_peers_cannot_have_are_refused_by_the_next_one():
    # The root of this path is 2; its neighbors add two peers each.
    graph, limits = path(5), Limits.of(("weight", 1, 0.0, 10.0))
    values = [3.0, 4.0, 5.0, 6.0, 7.0]
    unit = 2.0 ** (59 - 7)

    def say(value):
        return lambda payload: np.full_like(payload, np.uint64(int(value * unit)))

    for liar, value, reason in (
        (0, 11.0, "it sent a weight of 11, which must be 0 to 10"),
        (1, 21.0, "it sent a weight of 21 for 2 sites, which must be 0 to 20"),
        (3, 90.0, "it sent a weight of 90 for 2 sites, which must be 0 to 20"),
    ):
        (found,) = reduce_with_a_lie(graph, liar, say(value), values, limits)[:1]
        assert found == (f"p{liar + 1 if liar < 2 else 2}", f"p{liar}", reason)
    # Within the limits nobody can tell, and honest peers are never refused.
    assert reduce_with_a_lie(graph, 0, say(9.5), values, limits) == []
    assert reduce_with_a_lie(graph, 0, lambda payload: payload, values, limits) == []


def test_a_total_that_the_other_peers_cannot_have_is_refused_by_those_who_hear_it():
    graph, limits = path(3), Limits.of(("weight", 1, 0.0, 10.0))

    def lie(payload):
        # The root, 1, adds nothing on the way up; its total is less than what it was sent.
        return payload - payload

    refused = reduce_with_a_lie(graph, 1, lie, [3.0, 4.0, 5.0], limits)
    assert [each[:2] for each in refused] == [("p0", "p1"), ("p2", "p1")]
    assert refused[0][2] == "it sent a weight of -3 for 2 sites, which must be 0 to 20"


def test_a_maximum_outside_of_its_limits_is_refused():
    graph, limits = path(3), Limits.of(("weight", 1, 0.0, 10.0))
    net, refused = JoinedNodes(graph, running=False), []
    for node in net.nodes:
        node.lockstep._drop = lambda link, cause, reason, name=node.session.name: refused.append(
            (name, link.name, reason)
        )
    try:
        heard = net.run(
            reduce_over_network(
                NetworkMax(np.array([[value]]), limits),
                LivingGraph(graph, (0, 1, 2), i),
                net.nodes[i].lockstep,
            )
            for i, value in enumerate([11.0, 4.0, -np.inf])
        )
    finally:
        net.close()
    # The honest neighbor neither takes it nor passes it on.
    assert (heard[1].v.item(), heard[2].v.item()) == (4.0, 4.0)
    assert set(refused) == {("p1", "p0", "it sent a weight of 11, which must be 0 to 10")}
