"""What sites run after the set-up: programs, their plan, and the checks of messages."""

from __future__ import annotations

import numpy as np

from peerclust.clustering.problem import draw_seed
from peerclust.clustering.search import search
from peerclust.peers.setup import agreed_graph, make_bounds
from peerclust.programs.certificate import Certify
from peerclust.programs.lossy import Lossy
from peerclust.programs.protocol import AnyProgram, State
from peerclust.programs.solver_spec import Tuning
from peerclust.runtimes.convergence import CheckedRun, Plan
from peerclust.runtimes.network.contract import Contract
from peerclust.runtimes.network.messages import Agreed
from peerclust.runtimes.network.plan import RunPlan
from peerclust.runtimes.protocol import Snapshot
from peerclust.users import Users
from peerclust.users.public_bounds import PublicBounds


def make_program(contract: Contract, agreed: Agreed) -> AnyProgram:
    """Return the program that all sites run."""
    program = contract.spec.make(
        Tuning(
            make_graph=lambda: agreed_graph(contract, agreed),
            curvature=np.array(agreed.curvature),
            rho=agreed.rho,
            alpha=agreed.alpha,
            B=contract.B,
        )
    )
    if contract.exchange == "float64":
        return program
    return Lossy(program, dtype=contract.exchange, seed=contract.seed)


def make_certify(contract: Contract, agreed: Agreed) -> Certify:
    """Return the program with which the sites compute their joint certificate."""
    rho = agreed.rho if contract.spec.penalized else None
    # Sites that were not there at the start may join.
    return Certify(contract.graph.m, rho=rho, lambda_2=agreed.lambda_2)


def make_box(contract: Contract, agreed: Agreed) -> PublicBounds:
    """Return the bounds with the box that what the solver sends stays in."""
    return make_bounds(contract, np.array(agreed.low), np.array(agreed.high), agreed.W)


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
