"""The joint record of a run that is over, which its peers sign. No I/O.

A single peer's word for a result counts for nothing. A record is valid if more than half of all
listed peers have signed it, those that did not take part included, so no two valid records
contradict each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from peerclust.errors import WireError
from peerclust.log_events import show_time
from peerclust.runtimes.network import messages
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Presence, SignedRecord
from peerclust.runtimes.network.statements import Verifier

Span = tuple[int, int]


def digest(message: messages.Message) -> bytes:
    """Return the SHA-256 of a message, which peers sign instead of the message itself."""
    return hashlib.sha256(messages.pack(message)).digest()


def is_majority(count: int, m: int) -> bool:
    """Return whether so many of m peers are more than half.

    >>> is_majority(2, 4), is_majority(3, 4)
    (False, True)
    """
    return 2 * count > m


def check_signed(signed: SignedRecord, contract: Contract, verifier: Verifier) -> set[int]:
    """Return the peers that have signed a record; raise WireError if it cannot be a record."""
    record, K, d = signed.record, contract.n_clusters, len(contract.features)
    stated = digest(record)
    signers = set()
    for statement in signed.signatures:
        said = statement.kind, statement.seq, statement.body, statement.run
        if said != ("record", 1, stated, record.run):
            raise WireError("The signatures of a record must be those of this record.")
        verifier.check_statement(statement)
        signers.add(statement.origin.peer)
    centers = np.frombuffer(record.centers, "<f8") if len(record.centers) == 8 * K * d else None
    if centers is None or not np.isfinite(centers).all():
        raise WireError(f"A record must have {K} finite centers with {d} features.")
    m = len(contract.peers)
    if len(record.took_part) != m or any(i >= m for i in record.members):
        raise WireError("A record must be about the peers of the network.")
    return signers


def show_run(signed: SignedRecord) -> str:
    """Return which run a record belongs to: the beginning of its id, and when it began.

    It began when half of the processes that have signed it had started, by their own clocks.
    """
    starts = sorted({each.origin.peer: each.origin.start for each in signed.signatures}.values())
    began = [datetime.fromtimestamp(starts[(len(starts) - 1) // 2] / 1e9, UTC)] if starts else []
    return " of ".join([signed.record.run.hex()[:8], *map(show_time, began)])


def explain_unsigned(signed: SignedRecord, contract: Contract, counted: Collection[int]) -> str:
    """Return why a record is not believed if only the signatures of some peers count."""
    names = contract.names
    signers = {each.origin.peer for each in signed.signatures}
    missing = [name for i, name in enumerate(names) if i not in signers]
    others = [name for i, name in enumerate(names) if i in signers and i not in counted]
    not_by = f", not by {', '.join(missing)}" if missing else ""
    void = f"; {', '.join(others)} signed before starting again, or lied" if others else ""
    return (
        f"its run {show_run(signed)} is over, but the result must be signed by more than half of"
        f" {len(names)} peers, and is signed by {len(counted)}{not_by}{void}"
    )


def find_rounds(
    contract: Contract, members: Sequence[int], presences: Mapping[int, Presence], rounds: int
) -> list[list[Span]]:
    """Return the rounds [first, last] in which each peer took part, from what the members say.

    A member was there from its start on; of the others, and of its earlier processes, its neighbors
    say when they exchanged with it.
    """
    spans: list[list[Span]] = [[] for _ in contract.peers]
    for i in members:
        if i not in presences:
            continue
        spans[i].append((presences[i].first, rounds - 1))
        for j, first, last in presences[i].neighbors:
            spans[j].append((first, min(last, rounds - 1)))
    return [merge(each) for each in spans]


def merge(spans: Iterable[Span]) -> list[Span]:
    """Return spans without overlaps, in ascending order.

    >>> merge([(6, 7), (0, 3), (2, 5), (9, 9), (8, 7)])
    [(0, 7), (9, 9)]
    """
    merged: list[Span] = []
    for first, last in sorted(span for span in spans if span[0] <= span[1]):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged
