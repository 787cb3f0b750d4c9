"""How a run ended for a site: its status, its peers, and what each peer contributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peerclust.clustering.certificate import Measures
from peerclust.clustering.result import Status
from peerclust.clustering.search import Searched
from peerclust.clustering.status import Ending, decide_peer_status, joined_late, partitioned
from peerclust.runtimes.network.collectives import LARGEST
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed, sanitize
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.rounds import Outcome
from peerclust.runtimes.network.views import MembershipViews


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
        The peers that the site hears at the end, itself among them.
    contributed : dict
        For each peer the rounds [first, last] in which it was connected with this one, over links
        that were active at both ends.
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
    contributed: dict[str, list[list[int]]] | None = None
    events: Sequence[tuple[int, str]] = ()
    seconds: float = float("nan")

    @classmethod
    def from_neighbor(cls, round_: int, neighbor: str, status: str) -> Verdict:
        """Return the verdict of a peer that joined after the end, from a neighbor's status."""
        return cls(joined_late(round_, neighbor, status), round_)

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
            "contributed": self.contributed or {},
            "events": [{"round": round_, "what": what} for round_, what in self.events],
        }


def judge(
    node: Node, outcome: Outcome, agreed: Agreed, searched: Searched | None = None
) -> Verdict:
    """Return the verdict of a site that reached the end of the run, and of a search, if any."""
    contract, views, rounds = node.contract, node.views, outcome.state.round
    part = views.component(node.number)
    ends = [ended for i in part if (ended := views[i].ended) is not None]
    found = Measures.of(outcome.found, agreed.spread)
    disagreement = found.disagreement / agreed.spread
    end = Ending(
        spec=contract.spec,
        rho=agreed.rho if contract.spec.takes("rho") else None,
        rounds=rounds,
        stopped=outcome.stopped,
        tol=contract.tol,
        residual=found.residual,
        disagreement=disagreement,
        used=int((outcome.found.weights > 0).sum()),
        K=contract.n_clusters,
        aimed=contract.rho == "auto" and contract.spec.penalized,
        dtype=contract.exchange,
    )
    heard = [contract.names[i] for i in part]
    if views.is_partitioned(node.number):
        status = partitioned(heard, contract.graph.m)
    else:
        missing = [name for name in contract.names if name not in heard]
        status = decide_peer_status(end, unheard=len(part) - len(ends), missing=missing)
    return Verdict(
        status=status,
        rounds=rounds,
        search_rounds=searched.rounds if searched else 0,
        moves=searched.moves if searched else 0,
        moves_kept=searched.kept if searched else 0,
        residual=outcome.residual,
        largest_residual=found.residual,
        disagreement=disagreement,
        cost=found.cost,
        pooled_cost=found.pooled_cost,
        pooled_residual=found.pooled_residual,
        heard=heard,
        contributed=contributions(contract, views, rounds, node.number),
        events=_list_events(node),
        seconds=outcome.seconds,
    )


def _list_events(node: Node) -> list[tuple[int, str]]:
    """Return the events at this site, and the losses reported by others, by round."""
    names = node.contract.names
    elsewhere = [
        (view.round, f"{names[view.peer]} {sanitize(view.reason)}")
        for view in node.views.history
        if view.peer != node.number and view.reason
    ]
    return sorted([*node.events, *elsewhere])


def contributions(
    contract: Contract, views: MembershipViews, rounds: int, me: int
) -> dict[str, list[list[int]]]:
    """Return for each peer the rounds, [first, last], in which it was connected with this one.

    They follow from the changes that were reported to this peer.
    """
    then = MembershipViews(contract.graph, sorted(views.members), views.lost)
    changes = sorted(views.history, key=lambda view: view.round)
    spans: dict[int, list[tuple[int, int]]] = {i: [] for i in range(contract.graph.m)}
    for n, start in enumerate([0, *(view.round for view in changes)]):
        if n > 0:
            then.update(changes[n - 1])
        end = min(changes[n].round if n < len(changes) else rounds, rounds)
        for i in then.component(me) if end > start else ():
            spans[i].append((start, end - 1))
    return {name: _merge(spans[i]) for i, name in enumerate(contract.names)}


def _merge(spans: list[tuple[int, int]]) -> list[list[int]]:
    """Merge spans that overlap or follow each other.

    >>> _merge([(0, 3), (2, 5), (6, 7), (9, 9)])
    [[0, 7], [9, 9]]
    """
    merged: list[list[int]] = []
    for first, last in spans:
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged
