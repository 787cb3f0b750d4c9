"""Times rounds of DGC as the simulator runs them; the first two are the set-up.

Both read all rows; the second also sorts them into boxes or finds first bounds (see `lazy`).
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from peerclust import graphs
from peerclust.bench.lloyd import choose_centers
from peerclust.programs.dgc import DGC
from peerclust.runtimes import Simulator
from peerclust.theory import paper_step
from peerclust.types import Rows
from peerclust.users import Users

USERS = 10
# Rounds of the set-up.
FIRST = 2


class Timed(NamedTuple):
    """Seconds of the set-up and of a later round, on average."""

    setup: float
    each: float


def make_users(rows: Rows, m: int, loss: Any = None) -> Users:
    """Give m users as many rows each, one after the other."""
    return Users(rows, np.linspace(0, len(rows), m + 1).astype(np.int64), loss=loss)


def time_rounds(
    rows: Rows, *, K: int, rho: float, rounds: int, loss: Any = None, m: int = USERS
) -> Timed:
    """Time DGC with the paper's step on a ring, from K rows that all users begin with."""
    users, graph = make_users(rows, m, loss), graphs.ring(m)
    largest = int(np.diff(users.offsets).max())
    lambda_max = graph.lambda_max.value
    program = DGC(rho=rho, alpha=paper_step(m=m, largest=largest, rho=rho, lambda_max=lambda_max))
    x = np.repeat(choose_centers(rows, K)[None], m, axis=0)
    marks = []

    def watch(states: Any, _: Any) -> None:
        if states[0].round in (FIRST, rounds):
            marks.append(perf_counter())

    begin = perf_counter()
    Simulator(graph).run(program, users, x, rounds=rounds, watch=watch)
    return Timed(marks[0] - begin, (marks[1] - marks[0]) / (rounds - FIRST))
