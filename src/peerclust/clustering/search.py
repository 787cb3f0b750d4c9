"""The swap search: centers are moved to where they are missing.

A run of K-means, or of any of its relatives, ends in a local optimum: two centers may share one
group of rows while a third lies between two groups. Two sums per cluster (`programs.swaps`) show
it: its cost E, and by how much the cost would rise without its center, U. The center whose removal
costs least moves beside the one whose cluster costs most, and the solver continues from there. The
move is kept if the cost fell. After some failures in a row the search ends.

Which optimum a run approaches shows long before it is there. So the runs that are compared are
coarse: they end at a tolerance of `swaps.TOL`, and before that where a move looks hopeless. Only
the best one continues to the tolerance that was asked for.

Everything is decided by exact sums over all users, so all of them decide the same on every runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from peerclust.arrays import Array
from peerclust.programs import swaps
from peerclust.programs.certificate import Found
from peerclust.programs.limits import swap_limits
from peerclust.runtimes.convergence import (
    CheckedRun,
    Plan,
    add_up,
)
from peerclust.runtimes.protocol import Traffic
from peerclust.theory import Curvature
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class Searched:
    """The best run, and what came after the first: rounds, moves, those kept, and traffic."""

    end: CheckedRun
    rounds: int = 0
    moves: int = 0
    kept: int = 0
    traffic: Traffic = field(default_factory=Traffic)


def search(
    first: CheckedRun,
    users: Users,
    m: int,
    seed: int,
    *,
    run: Callable[[Array, Curvature, float], Plan[CheckedRun]],
    penalized: bool,
    threshold: float,
    coarse: float,
    on_move: Callable[[CheckedRun, int, bool], None] = lambda *_: None,
) -> Plan[Searched]:
    """Move centers of a coarse run as long as that lowers the cost; then finish the best run.

    `users` are those of this process, m is the number of all. `run` returns the plan of a run from
    centers (u, K, d) where costs have some curvature, after the present one, to a threshold: to
    `coarse` while runs are compared, to `threshold` in the end. Runs are compared by J_rho if the
    solver is `penalized`, else by the pooled cost. One whose residual is above the threshold is not
    kept, and a first one is not searched. `on_move` is called after each move: with the end of its
    run, the number of its rounds, and whether it is kept.
    """

    def cost(found: Found) -> float:
        return found.cost if penalized else found.pooled_cost

    if not first.has_converged(coarse):
        return Searched(first)
    best, rounds, moves, kept, failures, sent = first, 0, 0, 0, 0, Traffic()
    split: set[int] = set()
    costs: Array | None = None
    while failures < swaps.MAX_FAILURES and moves < swaps.MAX_MOVES:
        x = best.run.x
        if costs is None:
            own = users.swap_costs(users.assign(x), x)
            limits = swap_limits(users, x.shape[1])
            costs, more = yield from add_up(np.concatenate(own, axis=1), m, limits)
            sent += more
        E, U = np.split(costs, 2)
        regardless = failures < swaps.MIN_FAILURES
        swap = swaps.choose_swap(E, U, split, regardless=regardless)
        if swap is None:
            break
        split.add(swap[1])
        centers = swaps.split_center(best.found.mean, swap, users.geometry, seed, moves)
        moved = users.broadcast_centers(centers)
        moves, begun = moves + 1, rounds
        curvature = swaps.split_curvature(best.curvature, swap)
        end = yield from run(moved, curvature, swaps.ROUGH * coarse)
        rounds, sent = rounds + end.rounds, sent + end.run.traffic + end.checks
        if cost(end.found) <= swaps.HOPELESS * cost(best.found):
            end = yield from run(end.run.x, end.curvature, coarse)
            rounds, sent = rounds + end.rounds, sent + end.run.traffic + end.checks
        lower = cost(end.found) < (1.0 - swaps.MIN_DROP) * cost(best.found)
        is_kept = lower and end.has_converged(coarse)
        on_move(end, rounds - begun, is_kept)
        if is_kept:
            best, costs, failures, kept = end, None, 0, kept + 1
            split.clear()
        else:
            failures += 1
    if not best.has_converged(threshold):
        best = yield from run(best.run.x, best.curvature, threshold)
        rounds, sent = rounds + best.rounds, sent + best.run.traffic + best.checks
    return Searched(best, rounds, moves, kept, sent)
