"""How long a peer waits for a neighbor that waits for others, by what they say."""

import itertools

import pytest

from joined_nodes import JoinedNodes
from peerclust import graphs
from peerclust.runtimes.network.messages import Waits

# All are neighbors, so that a liar may say that it waits for any of them.
COMPLETE = graphs.complete(5)


@pytest.fixture
def joined():
    joined = JoinedNodes(COMPLETE)
    # p4 is stuck in exchange 2, so p0 waits for it in exchange 3, p1 for that in 4, and p2 in 5.
    for i, at in enumerate((3, 4, 5, 5, 2)):
        joined.nodes[i].session.at = at
    yield joined
    joined.close()


def say(node, now, **waits):
    """Let peers say where they are and for whom they wait."""
    for name, (exchange, awaited) in waits.items():
        said = Waits(node.session.run, 0, exchange, awaited)
        node.waits._stated[node.session.contract.number(name)] = said, now


HONEST = {"p0": (3, [4]), "p1": (4, [0, 4]), "p2": (5, [1, 4]), "p3": (5, [1, 4])}


def lies():
    """Return all that a liar can say, of which exchange and for whom it waits."""
    for exchange in (0, 2, 3, 9):
        for count in range(5):
            yield from ((exchange, list(each)) for each in itertools.combinations(range(4), count))


def test_a_peer_next_to_a_liar_is_less_patient_with_it_than_others_are_with_this_peer(joined):
    for lie in lies():
        counts = []
        for me, awaited in ((0, "p4"), (1, "p0"), (2, "p1")):
            node = joined.nodes[me]
            say(node, 5.0, **HONEST, p4=lie)
            counts.append(node.waits.measure_chain(node.session.links[awaited], 5.0))
        assert counts[0] < counts[1] < counts[2], lie


def test_a_chain_ends_at_a_peer_that_is_no_earlier_and_so_it_has_an_end(joined):
    node = joined.nodes[0]
    say(node, 5.0, **HONEST, p4=(2, [1, 2, 3]))
    assert node.waits.measure_chain(node.session.links["p4"], 5.0) == 1
    say(node, 5.0, p1=(1, [2]), p2=(0, [4]))
    assert node.waits.measure_chain(node.session.links["p4"], 5.0) == 3


def drop_time(node, link, say_at):
    """Return when a neighbor is dropped whose frame is awaited from 0 on, in patiences."""
    patience = node.session.contract.patience
    node.lockstep.awaited, node.lockstep.missing = ("a frame",), {link.number}
    node.lockstep.awaited_since = 0.0
    for step in range(1, 100):
        link.heard_at = now = step * patience / 10
        say_at(now, step / 10)
        node.watchdog.check(link, now)
        if not link.active:
            return step / 10
    return None


def test_a_neighbor_that_waits_for_ever_for_others_is_dropped(joined):
    node = joined.nodes[2]
    link = node.session.links["p1"]
    late = drop_time(node, link, lambda now, _: say(node, now, p1=(4, [0])))
    assert 2.0 < late < 3.5


@pytest.mark.parametrize("until", [0.5, 1.5, 2.5, 5.0])
def test_a_liar_that_takes_its_excuse_back_is_dropped_before_those_that_wait_for_it(joined, until):
    def lie(node):
        def say_at(now, at):
            awaited = [3] if at < until else []
            # p3 says nothing: it is not stuck.
            said = {name: HONEST[name] for name in ("p0", "p1")}
            say(node, now, **said, p4=(2, awaited))

        return say_at

    zero, one = joined.nodes[:2]
    first = drop_time(zero, zero.session.links["p4"], lie(zero))
    second = drop_time(one, one.session.links["p0"], lie(one))
    assert first + 0.5 < second
