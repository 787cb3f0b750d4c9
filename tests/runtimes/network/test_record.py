"""Joint records: who signed them, and who took part when."""

from dataclasses import replace
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from joined_nodes import identity_of, make_agreed, make_contract
from peerclust.errors import WireError
from peerclust.graphs import path, ring
from peerclust.runtimes.network.identity import private_key
from peerclust.runtimes.network.messages import Presence, Record, SignedRecord, pack_centers
from peerclust.runtimes.network.record import (
    check_signed,
    digest,
    find_rounds,
    is_majority,
    merge,
)
from peerclust.runtimes.network.statements import Author, Verifier, run_id

CONTRACT = make_contract(ring(5))
K, D = CONTRACT.n_clusters, len(CONTRACT.features)


def make_record(**given):
    agreed = make_agreed(range(5))
    plain = {
        "run": run_id(CONTRACT, agreed), "agreed": agreed, "members": [0, 1, 2, 4],
        "took_part": [[(0, 20)], [(0, 20)], [(0, 7), (9, 20)], [], [(0, 20)]], "round": 21,
        "stopped": True, "search_rounds": 0, "moves": 0, "moves_kept": 0, "residual": 1e-7,
        "pooled_residual": 1e-8, "disagreement": 1e-6, "cost": 5.0, "pooled_cost": 70.0, "used": 3,
        "centers": pack_centers(np.arange(float(K * D)).reshape(K, D)),
    }  # fmt: skip
    return Record(**plain | given)


RECORD = make_record()
AUTHORS = [Author(CONTRACT, i, private_key(identity_of(f"p{i}")), 1) for i in range(5)]


def sign(i, record=RECORD, **given):
    plain = {"kind": "record", "body": digest(record), "run": record.run}
    AUTHORS[i]._seqs["record"] = 0  # it has signed no other
    return AUTHORS[i].sign(**plain | given)


def test_a_second_signature_of_one_process_is_refused():
    sign(1)
    second = AUTHORS[1].sign("record", digest(RECORD), RECORD.run)
    with pytest.raises(WireError, match="must be those of this record"):
        signers(RECORD, [sign(0), second])


def signers(record, signatures, contract=CONTRACT):
    return check_signed(SignedRecord(record, signatures), contract, Verifier(contract))


def test_the_signers_of_a_record_are_those_whose_signatures_it_has():
    assert signers(RECORD, []) == set()
    assert signers(RECORD, [sign(3), sign(0)]) == {0, 3}


def test_a_peer_that_signs_many_times_counts_once():
    again = Author(CONTRACT, 2, private_key(identity_of("p2")), 9)
    other = again.sign("record", digest(RECORD), RECORD.run)
    assert signers(RECORD, [sign(2), sign(2), other]) == {2}


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "agreed"},
        {"body": digest(make_record(cost=4.0))},
        {"run": bytes(32)},
        {"run": b""},
    ],
    ids=["kind", "body", "run", "no run"],
)
def test_a_signature_of_anything_else_is_refused(wrong):
    with pytest.raises(WireError, match="must be those of this record"):
        signers(RECORD, [sign(0), sign(1, **wrong)])


def test_a_forged_signature_is_refused_however_many_are_good():
    good = [sign(i) for i in range(4)]
    liar = AUTHORS[4].incarnation
    for bad in (
        msgspec.structs.replace(good[0], origin=liar),
        msgspec.structs.replace(good[0], signature=good[1].signature),
    ):
        with pytest.raises(WireError, match="must be signed by its origin"):
            signers(RECORD, [*good, bad])


def test_the_signatures_of_one_record_do_not_sign_another():
    signatures = [sign(i) for i in range(5)]
    with pytest.raises(WireError, match="must be those of this record"):
        signers(make_record(pooled_cost=1.0), signatures)
    assert signers(RECORD, signatures) == set(range(5))


def test_a_record_of_another_network_is_refused():
    other = replace(CONTRACT, seed=4)
    with pytest.raises(WireError, match="must be signed by its origin"):
        signers(RECORD, [sign(0)], other)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"centers": bytes(8 * K * D - 8)}, f"must have {K} finite centers with {D} features"),
        ({"centers": bytes(8 * K * D + 1)}, "finite centers"),
        ({"centers": b""}, "finite centers"),
        ({"centers": pack_centers(np.full((K, D), np.nan))}, "finite centers"),
        ({"centers": pack_centers(np.full((K, D), np.inf))}, "finite centers"),
        ({"took_part": [[]] * 4}, "must be about the peers of the network"),
        ({"took_part": [[]] * 6}, "must be about the peers of the network"),
        ({"members": [0, 5]}, "must be about the peers of the network"),
    ],
    ids=str,
)
def test_what_cannot_be_a_record_is_refused_even_if_all_have_signed_it(wrong, sentence):
    record = make_record(**wrong)
    with pytest.raises(WireError, match=sentence):
        signers(record, [sign(i, record) for i in range(5)])


def test_no_two_majorities_of_the_same_peers_are_disjoint():
    for m in range(1, 12):
        enough = [count for count in range(m + 1) if is_majority(count, m)]
        assert min(a + b for a in enough for b in enough) > m
        # And whoever is not in one is none: not more is asked for than that.
        assert enough[0] - 1 <= m / 2 < enough[0]


spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)


@given(spans)
def test_merged_spans_have_the_same_rounds_without_overlaps_in_order(given):
    merged = merge(given)
    assert {n for a, b in merged for n in range(a, b + 1)} == {
        n for a, b in given for n in range(a, b + 1)
    }
    assert all(a <= b for a, b in merged)
    assert all(b + 1 < c for (_, b), (c, _) in pairwise(merged))
    assert merge(reversed(given)) == merged


presences = st.builds(
    Presence,
    st.just(1),
    st.integers(0, 25),
    st.lists(st.tuples(st.sampled_from([0, 1, 2, 3]), *[st.integers(0, 25)] * 2), max_size=6),
)


@given(st.dictionaries(st.integers(0, 3), presences), st.sets(st.integers(0, 3)))
def test_rounds_are_those_that_some_member_knows_of_and_none_after_the_last(stated, members):
    rounds = 20
    found = find_rounds(make_contract(path(4)), sorted(members), stated, rounds)
    for j in range(4):
        expected = set()
        for i in members & set(stated):
            if i == j:
                expected |= set(range(stated[i].first, rounds))
            for k, first, last in stated[i].neighbors:
                if k == j:
                    expected |= set(range(first, min(last, rounds - 1) + 1))
        assert {n for a, b in found[j] for n in range(a, b + 1)} == expected


def test_a_peer_that_was_killed_and_came_back_took_part_twice():
    contract = make_contract(path(3))
    stated = {
        0: Presence(1, 0, [(1, 0, 29), (1, 60, 99)]),
        1: Presence(1, 60, [(0, 60, 99), (2, 60, 99)]),
        2: Presence(1, 0, [(1, 0, 31), (1, 60, 99)]),
    }
    found = find_rounds(contract, [0, 1, 2], stated, 100)
    assert found == [[(0, 99)], [(0, 31), (60, 99)], [(0, 99)]]
    # If it is lost again before it states that, its neighbors know.
    assert find_rounds(contract, [0, 1, 2], {0: stated[0], 2: stated[2]}, 100) == found


def test_what_those_say_that_are_no_members_does_not_count():
    stated = {1: Presence(1, 0, []), 2: Presence(1, 0, [(1, 0, 50), (3, 0, 50)])}
    contract = make_contract(path(4))
    assert find_rounds(contract, [1], stated, 20) == [[], [(0, 19)], [], []]
