"""What peers rely on about each other, each statement signed by its origin. No I/O.

A process that starts is an incarnation of its peer: it draws a key of its own, and the peer's
pinned key signs it. The fresh key signs everything that others relay: which neighbors it has
lost, its view of the run, what it agreed to, how it ended. So a neighbor that relays a statement
cannot change it, and nobody is blamed for what it relays.

A statement has a run, an incarnation, a kind and a sequence number. Two statements with all four
equal and different contents prove that their origin lies (`Evidence`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from functools import lru_cache

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from peerclust.errors import WireError
from peerclust.runtimes.network import identity as identities, messages
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import (
    Agreed,
    Evidence,
    Incarnation,
    Statement,
    Subject,
)

_ECDSA = ec.ECDSA(hashes.SHA256())


class Author:
    """The process itself: it signs statements with its fresh key, and proves that it has the key.

    `pinned` is the peer's own key, which signs the fresh one.
    """

    def __init__(
        self, contract: Contract, peer: int, pinned: ec.EllipticCurvePrivateKey, start: int
    ) -> None:
        self._network, self._pinned = contract.digest, pinned
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._seqs: dict[str, int] = {}
        key = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        self._key_bytes = key
        self.incarnation = self._certify(peer, start)

    def _certify(self, peer: int, start: int) -> Incarnation:
        signature = self._pinned.sign(
            _incarnation_bytes(self._network, peer, start, self._key_bytes), _ECDSA
        )
        return Incarnation(peer, start, self._key_bytes, signature)

    def start_after(self, other: Incarnation) -> None:
        """Become later than another process of this peer, whatever the clock says."""
        self.incarnation = self._certify(self.incarnation.peer, other.start + 1)

    def sign(self, kind: Subject, body: bytes, run: bytes = b"") -> Statement:
        """Return the next statement of a kind."""
        seq = self._seqs[kind] = self.next_seq(kind)
        data = _statement_bytes(self._network, self.incarnation, run, kind, seq, body)
        return Statement(self.incarnation, run, kind, seq, body, self._key.sign(data, _ECDSA))

    def next_seq(self, kind: Subject) -> int:
        """Return the sequence number of the next statement of a kind."""
        return self._seqs.get(kind, 0) + 1

    def prove(self, theirs: Incarnation, own_nonce: bytes, their_nonce: bytes) -> bytes:
        """Return a signature that only this process can make, for one connection."""
        data = _proof_bytes(self._network, self.incarnation, theirs, own_nonce, their_nonce)
        return self._key.sign(data, _ECDSA)


class Verifier:
    """Checks what others have signed, by the keys that the network file pins."""

    def __init__(self, contract: Contract) -> None:
        self._network = contract.digest
        self._pinned = [identities.public_key(peer.certificate) for peer in contract.peers]
        self._known: OrderedDict[Incarnation, None] = OrderedDict()

    def check_incarnation(self, incarnation: Incarnation) -> None:
        """Raise WireError unless the peer that it names has signed it."""
        if incarnation in self._known:
            return
        if incarnation.peer >= len(self._pinned):
            raise WireError("An incarnation must be that of a peer of the network.")
        data = _incarnation_bytes(
            self._network, incarnation.peer, incarnation.start, incarnation.key
        )
        _verify(self._pinned[incarnation.peer], incarnation.signature, data, "An incarnation")
        self._known[incarnation] = None
        while len(self._known) > 4 * len(self._pinned):
            self._known.popitem(last=False)

    def check_statement(self, statement: Statement) -> None:
        """Raise WireError unless its origin has signed it."""
        self.check_incarnation(statement.origin)
        data = _statement_bytes(
            self._network, statement.origin, statement.run, statement.kind, statement.seq,
            statement.body,
        )  # fmt: skip
        _verify(_load(statement.origin.key), statement.signature, data, "A statement")

    def check_proof(
        self,
        theirs: Incarnation,
        mine: Incarnation,
        their_nonce: bytes,
        own_nonce: bytes,
        proof: bytes,
    ) -> None:
        """Raise WireError unless the other end of a connection is that very process."""
        self.check_incarnation(theirs)
        data = _proof_bytes(self._network, theirs, mine, their_nonce, own_nonce)
        _verify(_load(theirs.key), proof, data, "A proof")

    def check_evidence(self, evidence: Evidence) -> int:
        """Return the peer that evidence convicts; raise WireError if it convicts none."""
        first, second = evidence.first, evidence.second
        if first.place != second.place or first.body == second.body:
            raise WireError("Evidence must be two statements that contradict each other.")
        self.check_statement(first)
        self.check_statement(second)
        return first.origin.peer


def draw_nonce() -> bytes:
    """Return fresh random bytes, which make a proof valid for one connection only."""
    return secrets.token_bytes(32)


def digest_processes(contract: Contract, incarnations: list[Incarnation]) -> str:
    """Return a digest of the keys of processes, 64 hexadecimal digits.

    Every process draws its key anew, so no two runs have the same digest.
    """
    keys = [(each.peer, each.key) for each in sorted(incarnations, key=lambda each: each.peer)]
    return hashlib.sha256(b"processes" + contract.digest + msgspec.msgpack.encode(keys)).hexdigest()


def run_id(contract: Contract, agreed: Agreed) -> bytes:
    """Return the 32 bytes that identify the run on which processes have agreed.

    Frames carry the first `wire.TAG_BYTES` of it.
    """
    return hashlib.sha256(b"run" + contract.digest + messages.pack(agreed)).digest()


def _incarnation_bytes(network: bytes, peer: int, start: int, key: bytes) -> bytes:
    return b"peerclust incarnation 1" + msgspec.msgpack.encode((network, peer, start, key))


def _statement_bytes(
    network: bytes, origin: Incarnation, run: bytes, kind: str, seq: int, body: bytes
) -> bytes:
    # A peer may certify the key of another one's process, so its own number is signed, too.
    parts = network, origin.peer, origin.key, run, kind, seq, body
    return b"peerclust statement 1" + msgspec.msgpack.encode(parts)


def _proof_bytes(
    network: bytes,
    prover: Incarnation,
    verifier: Incarnation,
    prover_nonce: bytes,
    verifier_nonce: bytes,
) -> bytes:
    ends = (prover.peer, prover.key), (verifier.peer, verifier.key)
    parts = network, *ends, prover_nonce, verifier_nonce
    return b"peerclust proof 1" + msgspec.msgpack.encode(parts)


@lru_cache(maxsize=256)
def _load(key: bytes) -> ec.EllipticCurvePublicKey:
    """Return a public key from its compressed point; raise WireError if it is not one."""
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)
    except ValueError:
        raise WireError("The key of an incarnation must be a point of P-256.") from None


def _verify(key: ec.EllipticCurvePublicKey, signature: bytes, data: bytes, what: str) -> None:
    try:
        key.verify(signature, data, _ECDSA)
    except InvalidSignature:
        raise WireError(f"{what} must be signed by its origin.") from None
