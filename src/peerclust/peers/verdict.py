"""How a run ended for a site: its status, its peers, and what each peer contributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peerclust.clustering.certificate import Measures
from peerclust.clustering.result import Status
from peerclust.clustering.status import Ending, decide_peer_status, joined_late, partitioned
from peerclust.runtimes.network.collectives import LARGEST
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import (
    Agreed,
    Record,
    SignedRecord,
    pack_centers,
)
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.record import Span, is_majority
from peerclust.runtimes.network.rounds import Outcome
from peerclust.runtimes.network.statements import run_id
from peerclust.text import sanitize


@dataclass(frozen=True, eq=False)
class Verdict:
    """How a run ended.

    Attributes
    ----------
    status : Status
        "converged", "converged without some peers" (some were lost), "stopped", "ran out of
        rounds", "partitioned", "joined late" or "joined late, not converged".
    rounds : int
        The site's last round.
    search_rounds, moves, moves_kept : int
        As in `Certificate`; the rounds of a search are among `rounds`.
    residual : float
        The site's own, at the start of its last round.
    largest_residual, disagreement, cost, pooled_cost, pooled_residual : float
        As in `Certificate`, computed together by all sites that were connected at the end. The
        disagreement is a bound, as a fraction of the data's spread.
    heard : list of names
        The peers that were connected at the end, and computed the numbers together.
    signed_by : list of names
        The peers that have signed the joint record of these numbers.
    contributed : dict
        For each peer the rounds [first, last] in which it took part.
    events : list of (round, sentence)
        What happened during the run.
    seconds : float
        Duration of the rounds.
    """

    status: Status
    rounds: int
    search_rounds: int = 0
    moves: int = 0
    moves_kept: int = 0
    residual: float = float("nan")
    largest_residual: float = float("nan")
    disagreement: float = float("nan")
    cost: float = float("nan")
    pooled_cost: float = float("nan")
    pooled_residual: float = float("nan")
    heard: Sequence[str] = ()
    signed_by: Sequence[str] = ()
    contributed: dict[str, list[list[int]]] | None = None
    events: Sequence[tuple[int, str]] = ()
    seconds: float = float("nan")

    def as_dict(self) -> dict[str, object]:
        """Return the verdict as JSON-compatible values."""
        numbers = {
            "seconds": self.seconds,
            "residual": self.residual,
            "largest_residual": self.largest_residual,
            "disagreement": self.disagreement,
            "cost": self.cost,
            "pooled_cost": self.pooled_cost,
            "pooled_residual": self.pooled_residual,
        }
        return {
            "status": {"name": self.status.name, "advice": self.status.advice},
            "rounds": self.rounds,
            "search_rounds": self.search_rounds,
            "moves": self.moves,
            "moves_kept": self.moves_kept,
            # What a peer does not know, as it joined late, is null.
            **{name: value if abs(value) < LARGEST else None for name, value in numbers.items()},
            "heard": list(self.heard),
            "signed_by": list(self.signed_by),
            "contributed": self.contributed or {},
            "events": [{"round": round_, "what": what} for round_, what in self.events],
        }


def make_record(
    contract: Contract,
    agreed: Agreed,
    outcome: Outcome,
    members: Sequence[int],
    took_part: list[list[Span]],
) -> Record:
    """Return the joint record of a run, which has the same bits at all its members."""
    found, place = Measures.of(outcome.found, agreed.spread), outcome.place
    return Record(
        run=run_id(contract, agreed),
        agreed=agreed,
        members=list(members),
        took_part=took_part,
        round=outcome.state.round,
        stopped=outcome.stopped,
        search_rounds=place.round - place.search_from if place.search_from else 0,
        moves=place.moves,
        moves_kept=place.kept,
        residual=found.residual,
        pooled_residual=found.pooled_residual,
        disagreement=found.disagreement / agreed.spread,
        cost=found.cost,
        pooled_cost=found.pooled_cost,
        used=int((outcome.found.weights > 0).sum()),
        centers=pack_centers(outcome.found.mean),
    )


def judge(
    contract: Contract,
    signed: SignedRecord,
    *,
    late: bool = False,
    residual: float = float("nan"),
    events: Sequence[tuple[int, str]] = (),
    seconds: float = float("nan"),
) -> Verdict:
    """Return the verdict on a record, the same at all sites except for what each knows of itself.

    `late` is whether the site did not reach the end of the run itself, and has the mean centers.
    """
    record, m = signed.record, len(contract.peers)
    end = Ending(
        spec=contract.spec,
        rho=record.agreed.rho if contract.spec.takes("rho") else None,
        rounds=record.round,
        stopped=record.stopped,
        tol=contract.tol,
        residual=record.residual,
        disagreement=record.disagreement,
        used=record.used,
        K=contract.n_clusters,
        aimed=contract.rho == "auto" and contract.spec.penalized,
        dtype=contract.exchange,
    )
    signers = {statement.origin.peer for statement in signed.signatures}
    members = [contract.names[i] for i in record.members]
    if not is_majority(len(members), m):
        status = partitioned(members, m)
    else:
        missing = [name for name in contract.names if name not in members]
        unheard = 0 if is_majority(len(signers), m) else len(members) - len(signers)
        status = decide_peer_status(end, unheard=unheard, missing=missing)
    if late:
        status = joined_late(record.round, status, len(signers), m)
    return Verdict(
        status=status,
        rounds=record.round,
        search_rounds=record.search_rounds,
        moves=record.moves,
        moves_kept=record.moves_kept,
        residual=residual,
        largest_residual=record.residual,
        disagreement=record.disagreement,
        cost=record.cost,
        pooled_cost=record.pooled_cost,
        pooled_residual=record.pooled_residual,
        heard=members,
        signed_by=[contract.names[i] for i in sorted(signers)],
        contributed={
            name: [list(span) for span in spans]
            for name, spans in zip(contract.names, record.took_part, strict=True)
        },
        events=events,
        seconds=seconds,
    )


def list_events(node: Node) -> list[tuple[int, str]]:
    """Return the events at this site, and the losses reported by others, by round."""
    session = node.session
    names = session.contract.names
    elsewhere = [
        (round_, f"{names[peer]} {sanitize(reason)}")
        for round_, peer, reason in node.membership.views.reasons
        if peer != session.number
    ]
    return sorted([*session.events, *elsewhere])
