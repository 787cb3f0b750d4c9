import networkx as nx
from hypothesis import given, settings, strategies as st

from peerclust.graphs import from_edges, path, ring
from peerclust.runtimes.network.messages import View
from peerclust.runtimes.network.views import MembershipViews, reachable_peers

# When the processes started.
START = 7


def all_views(graph):
    return MembershipViews(graph, range(graph.m), ())


def lose(views, peer, *gone, ended=False):
    """Make some neighbors of a peer inactive, by its view."""
    old = views[peer]
    counts = [j for j in old.counts if j not in gone]
    assert views.update(View(peer, START, old.seq + 1, 5, counts, "", ended))


def cut(views, a, b):
    lose(views, a, b)
    lose(views, b, a)


@st.composite
def graphs_and_losses(draw):
    m = draw(st.integers(2, 9))
    pairs = [(i, j) for i in range(m) for j in range(i + 1, m)]
    spine = [(i, i + 1) for i in range(m - 1)]
    links = sorted({*spine, *draw(st.sets(st.sampled_from(pairs)))})
    return m, links, draw(st.lists(st.sampled_from(links), unique=True))


@settings(deadline=None)
@given(graphs_and_losses())
def test_components_and_diameters_are_those_of_networkx(case):
    m, links, lost = case
    graph = from_edges(links, m=m)
    views = all_views(graph)
    started_without = MembershipViews(graph, range(m), lost)
    left = nx.Graph(set(links) - set(lost))
    left.add_nodes_from(range(m))
    for a, b in lost:
        cut(views, a, b)
    for me in range(m):
        part = sorted(nx.node_connected_component(left, me))
        diameter = nx.diameter(left.subgraph(part))
        assert reachable_peers(graph, lost, me) == tuple(part)
        for held in (views, started_without):
            assert held.component(me) == tuple(part)
            assert held.diameter(me) == diameter


def test_a_link_is_in_the_active_graph_only_if_it_is_active_at_both_ends():
    views = all_views(path(3))
    lose(views, 0, 1)
    assert views.component(2) == (1, 2)
    assert views.component(0) == (0,)
    assert views.update(View(0, START, 2, 9, [1]))
    assert views.component(2) == (0, 1, 2)


def test_peers_that_were_absent_from_the_set_up_are_in_no_component():
    views = MembershipViews(ring(5), [0, 1, 2, 3], [(0, 4), (3, 4)])
    assert views.component(0) == (0, 1, 2, 3)
    assert views[4].counts == []


def test_of_two_views_the_later_one_is_valid_and_a_stranger_has_none():
    views = all_views(ring(4))
    assert views.update(View(1, START, 3, 7, [0]))
    assert not views.update(View(1, START, 2, 9, [0, 2]))
    assert not views.update(View(1, START, 3, 9, [0, 2]))
    assert not views.update(View(4, START, 1, 9, [0]))
    assert views[1].counts == [0]
    assert [view.seq for view in views.all()] == [0, 3, 0, 0]


def test_the_views_of_a_later_process_take_the_place_of_those_of_earlier_ones():
    views = all_views(ring(4))
    assert views.update(View(1, 5, 90, 7, [0]))
    before = views.checksum
    assert views.update(View(1, 6, 1, 8, [2]))
    assert views[1].counts == [2]
    assert views.checksum != before
    assert not views.update(View(1, 5, 91, 9, [0, 2]))


def test_the_latest_reasons_of_changes_are_kept():
    views = all_views(ring(4))
    for seq in range(1, 5000):
        assert views.update(View(1, START, seq, seq, [0], f"change {seq}" if seq % 2 else ""))
    assert list(views.reasons) == [(n, 1, f"change {n}") for n in range(3001, 5000, 2)]


def test_checksums_of_the_same_views_are_equal_in_whatever_order_they_came():
    one, two = all_views(ring(5)), all_views(ring(5))
    assert one.checksum == two.checksum == 0
    news = [View(1, START, 1, 5, [2]), View(4, START, 1, 5, [3]), View(1, START, 2, 6, [0, 2])]
    for view in news:
        one.update(view)
    checksums = {one.checksum}
    for view in (news[2], news[0]):
        two.update(view)
        checksums.add(two.checksum)
    assert len(checksums) == 2
    assert two.checksum != one.checksum
    two.update(news[1])
    assert two.checksum == one.checksum != 0


def test_a_checksum_never_returns_when_a_neighbor_does():
    views = all_views(ring(5))
    seen = {views.checksum}
    for seq in range(1, 20):
        views.update(View(1, START, seq, seq, [0, 2] if seq % 2 else [0]))
        assert views.checksum not in seen
        seen.add(views.checksum)


def test_the_end_of_a_peer_leaves_the_checksum_of_an_undisturbed_run():
    views = all_views(ring(5))
    lose(views, 2, ended=True)
    assert views.checksum == 0


def test_the_end_of_a_peer_leaves_the_checksum_of_a_run_that_has_lost_one():
    views = all_views(ring(5))
    lose(views, 1, 0)
    lose(views, 4, 0)
    before = views.checksum
    lose(views, 2, ended=True)
    assert views.checksum == before
