"""What a peer keeps of everything that others state."""

import itertools
import random

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from peerclust.errors import WireError
from peerclust.runtimes.network.gossip import Gossip
from peerclust.runtimes.network.identity import private_key
from peerclust.runtimes.network.messages import Evidence
from peerclust.runtimes.network.statements import Author

RUN = bytes(range(32))
KINDS = ("losses", "view", "agreed", "presence", "record")
# What an earlier process stated does not count once a later one is known; views do.
SINCE_RESTART = ("losses", "agreed", "presence", "record")

# The order of P-256: (r, s) and (r, order - s) sign the same.
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def with_twin(message):
    """Return a message with the other signature of the same bytes, which any relay can compute."""
    r, s = decode_dss_signature(message.signature)
    return msgspec.structs.replace(message, signature=encode_dss_signature(r, ORDER - s))


@pytest.fixture(scope="module")
def start(base, identities):
    """Starts a process of a peer."""
    starts = itertools.count(1)

    def start_process(name="0", at=None):
        return Author(base, base.number(name), private_key(identities[name]), at or next(starts))

    return start_process


@pytest.fixture
def gossip(base, start):
    """What the peer "10" knows: nothing but itself."""
    return Gossip(base, start("10"))


def repeat(author, statement, body):
    """Return a statement in the place of another one with other contents, which is a lie."""
    author._seqs[statement.kind] = statement.seq - 1
    return author.sign(statement.kind, body, statement.run)


def test_a_statement_is_new_once_and_the_latest_is_kept(gossip, start):
    author = start("0")
    one, two, three = (author.sign("view", body, RUN) for body in (b"1", b"2", b"3"))
    assert gossip.receive(two) is True
    assert gossip.receive(two) is False
    assert gossip.receive(one) is False
    assert gossip.latest(0, "view") == two
    assert gossip.receive(three) is True
    assert gossip.receive(two) is False
    assert gossip.latest(0, "view") == three
    assert gossip.latest(0, "losses") is None
    assert gossip.all() == [three]
    assert gossip.processes[0] == author.incarnation


def test_own_statements_are_kept_and_none_of_another_process_of_this_peer(gossip, start):
    mine = gossip.state("view", b"mine", RUN)
    other = start("10")
    assert gossip.receive(other.sign("view", b"other", RUN)) is False
    assert gossip.receive(mine) is False
    assert gossip.latest(1, "view") == mine
    assert gossip.processes[1] == mine.origin


def test_what_is_not_signed_by_its_origin_is_refused_and_nothing_of_it_kept(gossip, start):
    author = start("0")
    good = author.sign("view", b"good", RUN)
    for bad in (
        msgspec.structs.replace(good, body=b"bad"),
        msgspec.structs.replace(good, seq=9),
        msgspec.structs.replace(good, origin=start("0").incarnation),
        msgspec.structs.replace(good, origin=start("2").incarnation),
    ):
        with pytest.raises(WireError, match="must be signed by its origin"):
            gossip.receive(bad)
    assert gossip.all() == []
    assert list(gossip.processes) == [1]
    # Nor is it compared with what its origin did sign.
    assert gossip.receive(good) is True
    with pytest.raises(WireError, match="must be signed by its origin"):
        gossip.receive(msgspec.structs.replace(good, body=b"bad"))
    assert not gossip.liars


@pytest.mark.parametrize("kind", SINCE_RESTART)
def test_statements_of_older_processes_are_ignored(gossip, start, kind):
    old, new = start("0"), start("0")
    before = old.sign(kind, b"before", RUN)
    after = new.sign("losses" if kind != "losses" else "view", b"after")
    assert gossip.receive(after) is True
    assert gossip.receive(before) is False
    assert gossip.latest(0, kind) is None
    assert gossip.who_stated(kind, RUN, b"before") == []


@pytest.mark.parametrize("kind", SINCE_RESTART)
def test_a_process_that_was_met_makes_the_statements_of_the_one_before_it_old(gossip, start, kind):
    old, new = start("0"), start("0")
    assert gossip.receive(old.sign(kind, b"", RUN)) is True
    assert gossip.latest(0, kind) is not None
    assert gossip.meet(new.incarnation)
    assert gossip.latest(0, kind) is None
    assert not gossip.meet(old.incarnation)
    assert gossip.processes[0] == new.incarnation


def test_peers_know_the_same_in_whatever_order_statements_come(base, start):
    # Two of the processes started at the same time, by the clock.
    authors = [start("0", at=1), start("0", at=7), start("0", at=7), start("2", at=5)]
    said = [each.sign(kind, b"%d" % n, RUN) for each in authors for kind in KINDS for n in range(3)]
    order, seen = random.Random(0), []
    for _ in range(20):
        order.shuffle(said)
        gossip = Gossip(base, start("10"))
        assert not any(isinstance(gossip.receive(each), Evidence) for each in said)
        latest = {(peer, kind): gossip.latest(peer, kind) for peer in (0, 2) for kind in KINDS}
        assert all(each.body == b"2" for each in latest.values())
        del gossip.processes[1]
        seen.append((latest, gossip.processes))
    assert all(each == seen[0] for each in seen)


@pytest.mark.parametrize("kind", KINDS)
def test_a_peer_that_contradicts_itself_is_convicted_and_heard_no_more(gossip, start, kind):
    liar = start("0")
    one = liar.sign(kind, b"one", RUN)
    two = repeat(liar, one, b"two")
    assert gossip.receive(one) is True
    evidence = gossip.receive(two)
    assert evidence == Evidence(one, two)
    assert gossip.verifier.check_evidence(evidence) == 0
    assert gossip.convict(evidence) == 0
    assert gossip.convict(evidence) is None
    assert gossip.liars == {0: evidence}
    assert gossip.receive(liar.sign(kind, b"three", RUN)) is False
    assert gossip.receive(start("0").sign(kind, b"four", RUN)) is False
    assert gossip.who_stated(kind, RUN, b"one") == []


def test_a_contradiction_is_found_after_later_statements_and_by_a_later_process(gossip, start):
    liar = start("0")
    said = [liar.sign("view", b"%d" % n, RUN) for n in range(5)]
    for each in said:
        assert gossip.receive(each) is True
    assert gossip.receive(start("0").sign("losses", b"")) is True
    assert isinstance(gossip.receive(repeat(liar, said[1], b"other")), Evidence)


def test_what_differs_in_run_kind_number_or_process_contradicts_nothing(gossip, start):
    author, later = start("0"), start("0")
    said = [
        author.sign("view", b"1", RUN),
        author.sign("view", b"2", RUN),
        author.sign("presence", b"3", RUN),
        later.sign("view", b"4", RUN),
        later.sign("view", b"5", bytes(32)),
    ]
    # The same number in another run.
    later._seqs.clear()
    said.append(later.sign("view", b"6", b"another run"))
    for each in said:
        assert not isinstance(gossip.receive(each), Evidence)
    assert not gossip.liars


def test_nobody_is_convicted_by_a_signature_that_a_relay_has_changed(gossip, start):
    author = start("0")
    one = author.sign("view", b"one", RUN)
    for each in (one, with_twin(one), msgspec.structs.replace(one, origin=with_twin(one.origin))):
        gossip.verifier.check_statement(each)
        assert not isinstance(gossip.receive(each), Evidence)
    for pair in ((one, with_twin(one)), (with_twin(one), one), (one, one)):
        with pytest.raises(WireError, match="must be two statements that contradict"):
            gossip.convict(Evidence(*pair))
    assert not gossip.liars


def test_a_relay_that_changes_a_signature_cannot_hide_a_statement(gossip, start):
    author = start("0")
    one, two = author.sign("losses", b"one"), author.sign("losses", b"two")
    assert gossip.receive(one) is True
    changed = msgspec.structs.replace(two, origin=with_twin(two.origin))
    gossip.verifier.check_statement(changed)
    assert gossip.receive(changed) is True
    assert gossip.latest(0, "losses").body == b"two"
    # Nor if that is the first that is heard of the process.
    first = start("2").sign("losses", b"first")
    assert gossip.receive(msgspec.structs.replace(first, origin=with_twin(first.origin))) is True
    assert gossip.latest(2, "losses").body == b"first"
    gossip.receive(first)
    assert gossip.latest(2, "losses").body == b"first"


def test_a_statement_that_is_withdrawn_hides_none_before_it_and_none_after_it(gossip, start):
    author = start("0")
    one, two, three = (author.sign("view", body, RUN) for body in (b"1", b"2", b"3"))
    assert gossip.receive(three) is True
    gossip.withdraw(three)
    assert gossip.latest(0, "view") is None
    assert gossip.all() == []
    assert gossip.receive(one) is True
    assert gossip.receive(three) is True
    gossip.withdraw(three)
    assert gossip.latest(0, "view") == one
    assert gossip.receive(two) is True
    # It still counts as signed.
    assert isinstance(gossip.receive(repeat(author, three, b"other")), Evidence)


def test_views_of_other_runs_can_be_dropped_so_that_they_hide_none_of_this_one(gossip, start):
    zero, two = start("0"), start("2")
    mine = zero.sign("view", b"this", RUN)
    kept = [two.sign("view", b"", RUN), two.sign("record", b"", b"other")]
    assert gossip.receive(zero.sign("view", b"other", b"other")) is True
    assert all(gossip.receive(each) is True for each in kept)
    assert gossip.receive(mine) is False
    gossip.drop_other_runs("view", RUN)
    assert gossip.all() == kept
    assert gossip.receive(mine) is True


def count_kept(gossip):
    """Return how many statements and processes are held."""
    kept = sum(map(len, gossip._kept.values()))
    return kept + len(gossip._latest) + len(gossip.processes) + len(gossip.verifier._known)


def test_memory_is_bounded_whatever_a_peer_states(gossip, start):
    author, sizes = start("0"), []
    for n in range(10_000):
        kind = KINDS[n % len(KINDS)]
        assert gossip.receive(author.sign(kind, b"%d" % n, b"%d" % (n % 97))) is True
        if n % 1000 == 999:
            sizes.append(count_kept(gossip))
    assert max(sizes) == sizes[0] <= 60
    assert len(gossip.all()) == len(KINDS)


def test_memory_is_bounded_however_many_processes_a_peer_starts(gossip, start):
    sizes = []
    for n in range(300):
        author = start("0")
        for kind in ("losses", "view"):
            assert gossip.receive(author.sign(kind, b"")) is True
        if n % 100 == 99:
            sizes.append(count_kept(gossip))
    assert max(sizes) == sizes[0] <= 40


def test_the_statements_of_many_peers_with_the_same_contents_are_counted_once_each(gossip, start):
    zero, two, mine = start("0"), start("2"), gossip.state("record", b"digest", RUN)
    for author in (zero, two):
        assert gossip.receive(author.sign("record", b"digest", RUN)) is True
    assert gossip.receive(zero.sign("record", b"digest", RUN)) is True
    stated = gossip.who_stated("record", RUN, b"digest")
    assert sorted(each.origin.peer for each in stated) == [0, 1, 2]
    assert mine in stated
    assert gossip.who_stated("record", RUN, b"another") == []
    assert gossip.who_stated("record", bytes(32), b"digest") == []
    assert gossip.who_stated("agreed", RUN, b"digest") == []


def test_the_view_of_a_process_counts_until_a_later_one_has_stated_one(gossip, start):
    earlier, later = start("0"), start("0")
    views = [earlier.sign("view", body, RUN) for body in (b"1", b"2")]
    assert gossip.receive(views[0]) is True
    assert gossip.receive(later.sign("losses", b"")) is True
    assert gossip.receive(views[1]) is True
    assert gossip.latest(0, "view") == views[1]
    joined = later.sign("view", b"3", RUN)
    assert gossip.receive(joined) is True
    assert gossip.receive(earlier.sign("view", b"4", RUN)) is False
    assert gossip.latest(0, "view") == joined
