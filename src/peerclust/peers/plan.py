"""The plan of a site's runs: the solver, and a search for a better optimum."""

from __future__ import annotations

from peerclust.clustering.problem import draw_seed
from peerclust.clustering.search import search
from peerclust.peers.configuration import make_certify, make_program
from peerclust.programs.protocol import State
from peerclust.runtimes.convergence import CheckedRun, Plan
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.plan import RunPlan
from peerclust.runtimes.protocol import Snapshot
from peerclust.users import Users


def make_plan(contract: Contract, agreed: Agreed, users: Users, *, late: bool = False) -> RunPlan:
    """Return the plan of a site's runs; `late` is whether they had begun before it joined."""
    program, certify = make_program(contract, agreed), make_certify(contract, agreed)
    return RunPlan(contract, program, certify, users, spread=agreed.spread, late=late)


def plan_runs(contract: Contract, plan: RunPlan, start: Snapshot[State]) -> Plan[CheckedRun]:
    """Run the solver until it has converged, with a search for a better optimum in between."""
    first = yield from plan.first(start)
    if not contract.searches:
        return first
    plan.begin_search()
    searched = yield from search(
        first,
        plan.users,
        contract.graph.m,
        draw_seed(contract.seed),
        run=plan.next,
        penalized=contract.spec.penalized,
        threshold=plan.threshold,
        coarse=plan.coarse,
        on_move=lambda _end, _rounds, kept: plan.count_move(kept),
    )
    return searched.end
