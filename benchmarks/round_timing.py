"""Times rounds of DGC in the simulator; the first two rounds count as the set-up.

Both read all rows; the second also sorts them into boxes or computes initial bounds.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.lloyd import choose_centers
from peerclust import graphs
from peerclust.arrays import Rows
from peerclust.programs.dgc import DGC
from peerclust.runtimes import Simulator, run_program
from peerclust.theory import paper_step
from peerclust.users import Users

USERS = 10
# Number of rounds that count as the set-up.
SETUP_ROUNDS = 2


class RoundTimes(NamedTuple):
    """Seconds of the set-up, and the mean seconds of a later round."""

    setup: float
    later: float


def make_users(rows: Rows, m: int, loss: Any = None) -> Users:
    """Return m users that hold consecutive blocks of the rows, equally many each."""
    return Users(rows, np.linspace(0, len(rows), m + 1).astype(np.int64), loss=loss)


def time_rounds(
    rows: Rows, *, K: int, rho: float, rounds: int, loss: Any = None, m: int = USERS
) -> RoundTimes:
    """Time DGC with the paper's step on a ring; all users start from the same K rows."""
    users, graph = make_users(rows, m, loss), graphs.ring(m)
    largest = int(np.diff(users.offsets).max())
    lambda_max = graph.lambda_max.value
    program = DGC(rho=rho, alpha=paper_step(m=m, largest=largest, rho=rho, lambda_max=lambda_max))
    x = np.repeat(choose_centers(rows, K)[None], m, axis=0)
    marks = []

    def on_round(states: Any, _: Any) -> None:
        if states[0].round in (SETUP_ROUNDS, rounds):
            marks.append(perf_counter())

    begin = perf_counter()
    run_program(Simulator(graph), program, users, x, rounds=rounds, on_round=on_round)
    return RoundTimes(marks[0] - begin, (marks[1] - marks[0]) / (rounds - SETUP_ROUNDS))
