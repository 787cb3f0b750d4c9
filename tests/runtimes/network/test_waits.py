"""How long a peer waits for a neighbor that waits for others, by what they say."""

import pytest

from joined_nodes import JoinedNodes
from peerclust import graphs
from peerclust.runtimes.network.messages import Waits

RING = graphs.ring(5)


@pytest.fixture
def ring():
    joined = JoinedNodes(RING)
    yield joined
    joined.loop.close()


def say(node, now, **waits):
    """Let peers say for whom they wait."""
    for name, awaited in waits.items():
        said = Waits(node.session.run, awaited)
        node.waits._stated[node.session.contract.number(name)] = said, now


@pytest.mark.parametrize("lie", [[3], [0], [0, 3]])
def test_a_peer_needs_less_patience_with_a_liar_than_others_with_this_peer(ring, lie):
    next_to_it, further = ring.nodes[0], ring.nodes[1]
    for node in (next_to_it, further):
        say(node, 5.0, p0=[4], p4=lie)
    one = next_to_it.waits.count_awaited(next_to_it.session.links["p4"], 5.0)
    two = further.waits.count_awaited(further.session.links["p0"], 5.0)
    assert one < two


def test_a_neighbor_that_waits_for_ever_for_others_is_dropped(ring):
    node = ring.nodes[0]
    link, patience = node.session.links["p4"], node.session.contract.patience
    node.lockstep.awaited, node.lockstep.missing = ("a frame",), {4}
    node.lockstep.awaited_since = 0.0
    dropped = []
    for step in range(1, 60):
        link.heard_at = now = step * patience / 10
        say(node, now, p4=[3])
        node.watchdog.check(link, now)
        if not link.active:
            dropped.append(now)
    assert 2 * patience < dropped[0] < 3.5 * patience
