"""Signatures of processes and their statements, checked without the module's own verifier."""

import hashlib
import itertools

import msgspec
import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from joined_nodes import make_agreed
from peerclust.errors import WireError
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.contract_validation import make_contract
from peerclust.runtimes.network.identity import private_key
from peerclust.runtimes.network.messages import Evidence, Incarnation
from peerclust.runtimes.network.statements import (
    Author,
    Verifier,
    digest_processes,
    draw_nonce,
    run_id,
)

ECDSA = ec.ECDSA(hashes.SHA256())
RUN = bytes(range(32))
MINE, THEIRS = bytes(32), b"\1" * 32

# The order of P-256: (r, s) and (r, order - s) sign the same.
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@pytest.fixture(scope="module")
def start(base, identities):
    """Starts a process of a peer."""
    starts = itertools.count(1)

    def start_process(name="0", at=None, contract=base):
        key = private_key(identities[name])
        return Author(contract, contract.number(name), key, at or next(starts))

    return start_process


@pytest.fixture(scope="module")
def verifier(base):
    return Verifier(base)


@pytest.fixture(scope="module")
def elsewhere(base):
    """Another network file with the same peers."""
    values = {"links": base.links, "features": list(base.features), "n_clusters": 2}
    return make_contract(base.peers, values, "here")


def twin(signature):
    """Return the other signature of the same bytes, which anybody can compute."""
    r, s = decode_dss_signature(signature)
    return encode_dss_signature(r, ORDER - s)


def point(key):
    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)


def test_the_pinned_key_signs_a_process_and_the_process_its_statements(base, start, certificates):
    author = start("0")
    made, statement = author.incarnation, author.sign("view", b"body", RUN)
    pinned = x509.load_der_x509_certificate(certificates["0"]).public_key()
    signed = b"peerclust incarnation 1" + msgspec.msgpack.encode(
        [base.digest, made.peer, made.start, made.key]
    )
    pinned.verify(made.signature, signed, ECDSA)
    stated = b"peerclust statement 1" + msgspec.msgpack.encode(
        [base.digest, made.peer, made.key, RUN, "view", 1, b"body"]
    )
    point(made.key).verify(statement.signature, stated, ECDSA)
    with pytest.raises(InvalidSignature):
        pinned.verify(statement.signature, stated, ECDSA)


def test_a_proof_is_a_signature_over_both_processes_and_both_nonces(base, start):
    one, other = start("0"), start("10")
    data = b"peerclust proof 1" + msgspec.msgpack.encode(
        [base.digest, [0, one.incarnation.key], [1, other.incarnation.key], MINE, THEIRS]
    )
    proof = one.prove(other.incarnation, MINE, THEIRS)
    point(one.incarnation.key).verify(proof, data, ECDSA)


def test_what_is_signed_is_accepted(start, verifier):
    one, other = start("0"), start("10")
    verifier.check_incarnation(one.incarnation)
    for kind, run in (("losses", b""), ("view", RUN), ("record", RUN)):
        verifier.check_statement(one.sign(kind, b"body", run))
    proof = one.prove(other.incarnation, MINE, THEIRS)
    verifier.check_proof(one.incarnation, other.incarnation, MINE, THEIRS, proof)


def change(value):
    """Return other values of the same type."""
    if isinstance(value, bytes):
        flipped = [bytes([value[0] ^ bit]) + value[1:] for bit in (1, 128)] if value else [b"x"]
        return [*flipped, value[:-1] + bytes([value[-1] ^ 1])] if value else flipped
    if isinstance(value, str):
        return [
            kind for kind in ("losses", "view", "agreed", "presence", "record") if kind != value
        ]
    return [value + 1, value - 1, value + (1 << 40)]


def refuse_changes(check, message):
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, Incarnation):
            continue
        for other in change(value):
            with pytest.raises(WireError):
                check(msgspec.structs.replace(message, **{name: other}))


def test_an_incarnation_with_any_field_changed_is_refused(start, base):
    refuse_changes(lambda made: Verifier(base).check_incarnation(made), start("10").incarnation)


def test_a_statement_with_any_field_changed_is_refused(start, verifier):
    statement = start("10").sign("view", b"the body", RUN)
    verifier.check_statement(statement)
    refuse_changes(verifier.check_statement, statement)
    refuse_changes(
        lambda origin: verifier.check_statement(msgspec.structs.replace(statement, origin=origin)),
        statement.origin,
    )


def test_a_statement_of_one_process_is_not_that_of_another(base, start, identities, verifier):
    first, second = start("0"), start("0")
    statement = first.sign("view", b"body", RUN)
    with pytest.raises(WireError, match="A statement must be signed by its origin"):
        verifier.check_statement(msgspec.structs.replace(statement, origin=second.incarnation))
    # Another peer certifies a key that is not its own, to make the statement its own.
    key, made = private_key(identities["10"]), first.incarnation
    signed = b"peerclust incarnation 1" + msgspec.msgpack.encode([base.digest, 1, 5, made.key])
    stolen = Incarnation(1, 5, made.key, key.sign(signed, ECDSA))
    verifier.check_incarnation(stolen)
    with pytest.raises(WireError, match="A statement must be signed by its origin"):
        verifier.check_statement(msgspec.structs.replace(statement, origin=stolen))


def test_statements_and_processes_of_another_network_are_refused(start, elsewhere, verifier):
    author = start("0", contract=elsewhere)
    with pytest.raises(WireError, match="An incarnation must be signed by its origin"):
        verifier.check_incarnation(author.incarnation)
    with pytest.raises(WireError, match="An incarnation must be signed by its origin"):
        verifier.check_statement(author.sign("view", b""))


def test_a_process_of_a_peer_that_another_signed_or_of_no_peer_is_refused(start, verifier):
    made = start("0").incarnation
    for peer in (1, 2, 3, (1 << 20) - 1):
        with pytest.raises(WireError, match="An incarnation must be"):
            verifier.check_incarnation(msgspec.structs.replace(made, peer=peer))


@pytest.mark.parametrize("key", [bytes(33), b"\x02" + b"\xff" * 32, b"\x04" + bytes(32)])
def test_a_key_that_is_no_point_is_refused(base, identities, verifier, key):
    signed = b"peerclust incarnation 1" + msgspec.msgpack.encode([base.digest, 0, 1, key])
    made = Incarnation(0, 1, key, private_key(identities["0"]).sign(signed, ECDSA))
    verifier.check_incarnation(made)
    with pytest.raises(WireError, match=r"must be a point of P-256"):
        verifier.check_statement(messages.Statement(made, b"", "view", 1, b"", bytes(70)))


@pytest.mark.parametrize("signature", [b"", b"\0", bytes(72), b"\x30\x06\x02\x01\x00\x02\x01\x00"])
def test_what_is_no_signature_is_refused(start, verifier, signature):
    statement = start("0").sign("view", b"")
    with pytest.raises(WireError, match="A statement must be signed by its origin"):
        verifier.check_statement(msgspec.structs.replace(statement, signature=signature))


def test_a_proof_of_another_connection_or_process_is_refused(start, verifier):
    one, again, other, third = start("0"), start("0"), start("10"), start("2")
    a, b = one.incarnation, other.incarnation
    proof = one.prove(b, MINE, THEIRS)
    good = {"theirs": a, "mine": b, "their_nonce": MINE, "own_nonce": THEIRS, "proof": proof}
    verifier.check_proof(**good)
    for wrong in (
        {"theirs": again.incarnation},
        {"mine": third.incarnation},
        {"mine": a},
        {"their_nonce": draw_nonce()},
        {"own_nonce": draw_nonce()},
        {"their_nonce": THEIRS, "own_nonce": MINE},
        # What the other side has proved, sent back to it.
        {"proof": other.prove(a, THEIRS, MINE)},
        {"proof": other.prove(a, MINE, THEIRS)},
        {"proof": one.prove(third.incarnation, MINE, THEIRS)},
        {"proof": b""},
        {"theirs": msgspec.structs.replace(a, start=a.start + 1)},
        *({"proof": each} for each in change(proof)),
    ):
        with pytest.raises(WireError):
            verifier.check_proof(**good | wrong)


def test_a_peer_cannot_pass_off_another_s_proofs_as_its_own(base, start, identities, verifier):
    # 10 certifies the keys of 0 and of 2 as its own, and lets 0 prove itself to "10".
    zero, two = start("0"), start("2")
    key = private_key(identities["10"])

    def steal(made):
        signed = b"peerclust incarnation 1" + msgspec.msgpack.encode([base.digest, 1, 9, made.key])
        return Incarnation(1, 9, made.key, key.sign(signed, ECDSA))

    proof = zero.prove(steal(two.incarnation), MINE, THEIRS)
    with pytest.raises(WireError, match="A proof must be signed by its origin"):
        verifier.check_proof(steal(zero.incarnation), two.incarnation, MINE, THEIRS, proof)


def test_sequence_numbers_count_the_statements_of_each_kind(start):
    author = start("0")
    kinds = ["losses", "view", "view", "losses", "record", "view"]
    assert [author.sign(kind, b"").seq for kind in kinds] == [1, 1, 2, 2, 1, 3]
    assert author.next_seq("view") == 4


def test_a_process_can_become_later_than_any_other_and_keeps_its_key(start, verifier):
    ahead, author = start("0", at=10**18), start("0", at=5)
    before = author.incarnation
    author.start_after(ahead.incarnation)
    assert author.incarnation.order > ahead.incarnation.order > before.order
    assert author.incarnation.key == before.key
    verifier.check_statement(author.sign("view", b""))


def test_only_two_statements_in_the_same_place_with_other_contents_are_evidence(start, verifier):
    author, again = start("0"), start("0")
    base_case = {"kind": "view", "body": b"one", "run": RUN}

    def sign(author, seq=1, **given):
        author._seqs.clear()
        author._seqs[given.get("kind", "view")] = seq - 1
        return author.sign(**base_case | given)

    first = sign(author)
    assert verifier.check_evidence(Evidence(first, sign(author, body=b"two"))) == 0
    for other in (
        sign(author),  # the same, signed once more
        sign(author, body=b"two", seq=2),
        sign(author, body=b"two", run=bytes(32)),
        sign(author, body=b"two", kind="presence"),
        sign(again, body=b"two"),
        msgspec.structs.replace(first, signature=twin(first.signature)),
    ):
        verifier.check_statement(other)
        for pair in ((first, other), (other, first)):
            with pytest.raises(WireError, match="must be two statements that contradict"):
                verifier.check_evidence(Evidence(*pair))
    forged = msgspec.structs.replace(first, body=b"two")
    for pair in ((first, forged), (forged, first)):
        with pytest.raises(WireError, match="A statement must be signed by its origin"):
            verifier.check_evidence(Evidence(*pair))


def test_memory_of_a_verifier_is_bounded(base, start):
    verifier, author = Verifier(base), start("0")
    for at in range(200):
        author.start_after(msgspec.structs.replace(author.incarnation, start=at))
        verifier.check_incarnation(author.incarnation)
    assert len(verifier._known) <= 4 * len(base.peers)


def test_runs_of_other_processes_agreements_or_networks_have_other_ids(base, elsewhere, start):
    made = [start(name).incarnation for name in ("0", "10", "2")]
    digest = digest_processes(base, made)
    assert digest == digest_processes(base, made[::-1])
    keys = msgspec.msgpack.encode([[each.peer, each.key] for each in made])
    assert digest == hashlib.sha256(b"processes" + base.digest + keys).hexdigest()
    others = {
        digest_processes(base, made[:2]),
        digest_processes(elsewhere, made),
        *(digest_processes(base, [*made[:i], start(n).incarnation, *made[i + 1 :]])
          for i, n in enumerate(("0", "10", "2"))),
    }  # fmt: skip
    assert len(others | {digest}) == 6
    ids = {
        run_id(base, make_agreed(range(3), processes=digest)),
        run_id(elsewhere, make_agreed(range(3), processes=digest)),
        run_id(base, make_agreed(range(3), processes=others.pop())),
        run_id(base, make_agreed(range(2), processes=digest)),
    }
    assert {len(each) for each in ids} == {32}
    assert len(ids) == 4


def test_nonces_are_never_the_same():
    assert len({draw_nonce() for _ in range(1000)}) == 1000
    assert {len(draw_nonce()) for _ in range(10)} == {32}
