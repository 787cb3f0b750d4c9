"""The swap search: from a converged run, centers are moved to where they are missing.

A run of K-means, or of any of its relatives, ends in a local optimum: two centers may share one
group of rows while a third lies between two groups. Two sums per cluster (`programs.swaps`) show
it: its cost E, and by how much the cost would rise without its center, U. The center whose removal
costs least moves beside the one whose cluster costs most, and the solver continues from there. The
move is kept if the cost fell. After some failures in a row the search ends.

Everything is decided by exact sums over all users, so all of them decide the same on every runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from peerclust.arrays import Array
from peerclust.programs import swaps
from peerclust.programs.certificate import Found
from peerclust.runtimes.convergence import (
    CheckedRun,
    Plan,
    add_up,
    agree_on_curvature,
)
from peerclust.runtimes.protocol import Traffic
from peerclust.theory import Curvature
from peerclust.users import Users


@dataclass(frozen=True, eq=False)
class Searched:
    """The best run, and what the search took: its rounds, moves, those kept, and traffic."""

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
    run: Callable[[Array, Curvature], Plan[CheckedRun]],
    penalized: bool,
    threshold: float,
    unchanged: Callable[[], bool] = lambda: True,
) -> Plan[Searched]:
    """Move centers of a run that has converged as long as that lowers the cost.

    `users` are those of this process, m is the number of all. `run` returns the plan of a run from
    centers (u, K, d) where costs have some curvature, after the present one. Runs are compared by
    J_rho if the solver is `penalized`, else by the pooled cost. One whose residual is above
    `threshold` is not kept, and a first one is not searched. `unchanged` is whether the network
    was, in the last sum, the one of the first run. If it was not, costs cannot be compared, and the
    search ends with the run that was going on.
    """

    def cost(found: Found) -> float:
        return found.cost if penalized else found.pooled_cost

    if not first.has_converged(threshold):
        return Searched(first)
    best, rounds, moves, kept, failures, sent = first, 0, 0, 0, 0, Traffic()
    split: set[int] = set()
    costs: Array | None = None
    while failures < swaps.MAX_FAILURES and moves < swaps.MAX_MOVES and unchanged():
        x = best.run.x
        if costs is None:
            own = users.swap_costs(users.assign(x), x)
            costs, more = yield from add_up(np.concatenate(own, axis=1), m)
            sent += more
        E, U = np.split(costs, 2)
        swap = swaps.choose_swap(E, U, split)
        if swap is None or not unchanged():
            break
        split.add(swap[1])
        centers = swaps.split_center(best.found.mean, swap, users.geometry, seed, moves)
        moved = users.broadcast_centers(centers)
        moves += 1
        curvature, more = yield from agree_on_curvature(users, moved, m)
        end = yield from run(moved, curvature)
        rounds, sent = rounds + end.rounds, sent + more + end.run.traffic + end.checks
        if not unchanged():
            return Searched(end, rounds, moves, kept, sent)
        lower = cost(end.found) < (1.0 - swaps.MIN_DROP) * cost(best.found)
        if lower and end.has_converged(threshold):
            best, costs, failures, kept = end, None, 0, kept + 1
            split.clear()
        else:
            failures += 1
    return Searched(best, rounds, moves, kept, sent)
