"""What a site may say of a run that ended: how, with whom, and what each peer contributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from peerclust.clustering.solution import Status
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed, tame
from peerclust.runtimes.network.node import Node
from peerclust.runtimes.network.rounds import Outcome
from peerclust.runtimes.network.setup import LARGEST
from peerclust.runtimes.network.terms import FIXED
from peerclust.runtimes.network.views import Views


@dataclass(frozen=True, eq=False)
class Verdict:
    """How a run ended.

    Attributes
    ----------
    status : Status
        "converged", "converged without some" (peers that were lost), "stopped", "ran out of
        rounds", "fell apart" or "came late".
    rounds : int
        The site's last round.
    residual, largest_residual : float
        At the end: the site's own, and the largest of those that it hears.
    apart : float
        How far sites' centers are from each other at most, as a share of the data's spread: the
        mean over clusters. If not all sites were there to find it, how far neighbors' are.
    cost, pooled_cost, pooled_residual : float
        As in `Certificate`, found by all sites together, if all of them were there.
    heard : list of names
        The peers that the site hears at the end, itself among them.
    contributed : dict
        For each peer the rounds [first, last] in which it was connected with this one, over links
        that both ends counted.
    events : list of (round, sentence)
        What happened on the way.
    seconds : float
        What the rounds took.
    """

    status: Status
    rounds: int
    residual: float = float("nan")
    largest_residual: float = float("nan")
    apart: float = float("nan")
    cost: float = float("nan")
    pooled_cost: float = float("nan")
    pooled_residual: float = float("nan")
    heard: Sequence[str] = ()
    contributed: dict[str, list[list[int]]] | None = None
    events: Sequence[tuple[int, str]] = ()
    seconds: float = float("nan")

    @classmethod
    def late(cls, round_: int, neighbor: str, status: str) -> Verdict:
        """Give the verdict of a peer that came when all was over, for a neighbor with a status."""
        how = f", as {status!r}" if status else ""
        told = f"the run ended in round {round_}{how}, before this peer came"
        name = "came late" if status.startswith("converged") else "came late to no success"
        return cls(Status(name, f"{told}; the centers are those of {neighbor}."), round_)

    def as_dict(self) -> dict[str, Any]:
        """Give the verdict as JSON can hold it."""
        numbers = {
            "seconds": self.seconds,
            "residual": self.residual,
            "largest_residual": self.largest_residual,
            "disagreement": self.apart,
            "cost": self.cost,
            "pooled_cost": self.pooled_cost,
            "pooled_residual": self.pooled_residual,
        }
        return {
            "status": {"name": self.status.name, "advice": self.status.advice},
            "rounds": self.rounds,
            # What a peer does not know, as it came late or all were not there, is null.
            **{name: value if abs(value) < LARGEST else None for name, value in numbers.items()},
            "heard": list(self.heard),
            "contributed": self.contributed or {},
            "events": [{"round": round_, "what": what} for round_, what in self.events],
        }


def judge(node: Node, outcome: Outcome, agreed: Agreed) -> Verdict:
    """Give the verdict of a site that came to the end of the run."""
    spread = agreed.spread
    contract, views = node.contract, node.views
    part = views.part(node.number)
    ends = [ended for i in part if (ended := views[i].ended) is not None]
    largest = max([outcome.residual, *(ended.residual for ended in ends)])
    apart = max([outcome.apart, *(ended.apart for ended in ends)]) / spread
    found = outcome.found if views.unchanged else None
    together: dict[str, float] = {}
    if found is not None:
        apart = 2.0 * float(found.radius.mean()) / spread
        steepness = contract.make_distance().largest
        pooled = found.pooled_gradient / (agreed.weight * steepness * spread)
        together = {"cost": found.cost, "pooled_cost": found.pooled_cost, "pooled_residual": pooled}
        own = found.gradient / (agreed.W * steepness * spread)
        largest = max(pooled, apart) if contract.solver in FIXED else own
    rounds = outcome.state.round
    return Verdict(
        status=_status(node, outcome, largest, unheard=len(part) - len(ends)),
        rounds=rounds,
        residual=outcome.residual,
        largest_residual=largest,
        apart=apart,
        heard=[contract.names[i] for i in part],
        contributed=contributions(contract, views, rounds, node.number),
        events=_tell_events(node),
        seconds=outcome.seconds,
        **together,
    )


def _tell_events(node: Node) -> list[tuple[int, str]]:
    """Give what happened here, and what was heard of losses elsewhere, by round."""
    names = node.contract.names
    elsewhere = [
        (view.round, f"{names[view.peer]} {tame(view.reason)}")
        for view in node.views.history
        if view.peer != node.number and view.reason
    ]
    return sorted([*node.events, *elsewhere])


def _status(node: Node, outcome: Outcome, largest: float, unheard: int) -> Status:
    contract, views = node.contract, node.views
    part = set(views.part(node.number))
    gone = [name for i, name in enumerate(contract.names) if i not in part]
    without = f" Without {', '.join(gone)}: what happened to them is in the events." if gone else ""
    if views.fell_apart(node.number):
        heard = ", ".join(contract.names[i] for i in sorted(part))
        return Status(
            "fell apart",
            f"this peer hears only {heard} of {contract.graph.m} peers; others may be running"
            " without it, so this is no joint result. Mend the links and start again.",
        )
    rounds = outcome.state.round
    coarse = "; float32 may be too coarse for it" if contract.exchange == "float32" else ""
    if not outcome.stopped:
        return Status(
            "ran out of rounds",
            f"the largest residual is {largest:.2g} after {rounds} rounds, and {contract.tol:g} was"
            f" asked for. Allow more `rounds`, or a larger `tol`{coarse}.{without}",
        )
    if contract.solver == "group-lasso" and not unheard and largest > contract.tol:
        return Status(
            "stopped",
            f"all are at rest after {rounds} rounds, but not at the same centers: the largest"
            f" residual is {largest:.2g}. A larger `rho` brings them together.{without}",
        )
    if largest > contract.tol or unheard:
        why = f"the largest residual is {largest:.2g}"
        if unheard:
            why = f"{unheard} of the peers did not tell how they ended"
        return Status(
            "stopped", f"the peers stopped after {rounds} rounds, but {why}. Run again.{without}"
        )
    return Status(
        "converged without some" if gone else "converged",
        f"every residual is below {contract.tol:g} after {rounds} rounds.{without}",
    )


def contributions(
    contract: Contract, views: Views, rounds: int, me: int
) -> dict[str, list[list[int]]]:
    """Give for each peer the rounds, [first, last], in which it was connected with this one.

    They are those between two changes of which this peer has heard.
    """
    then = Views(contract.graph, sorted(views.members), views.lost)
    changes = sorted(views.history, key=lambda view: view.round)
    spans: dict[int, list[tuple[int, int]]] = {i: [] for i in range(contract.graph.m)}
    for n, begin in enumerate([0, *(view.round for view in changes)]):
        if n > 0:
            then.take(changes[n - 1])
        end = min(changes[n].round if n < len(changes) else rounds, rounds)
        for i in then.part(me) if end > begin else ():
            spans[i].append((begin, end - 1))
    return {name: _join(spans[i]) for i, name in enumerate(contract.names)}


def _join(spans: list[tuple[int, int]]) -> list[list[int]]:
    """Join spans that overlap or follow each other.

    >>> _join([(0, 3), (2, 5), (6, 7), (9, 9)])
    [[0, 7], [9, 9]]
    """
    joined: list[list[int]] = []
    for first, last in spans:
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    return joined
