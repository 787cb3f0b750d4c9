"""Rounds of small users, many in one compiled loop that exchanges letters by itself.

Between ranks whose users have a handful of rows, an exchange takes a microsecond or two, and a
round in Python ten times as long. `dgc` and `accelerated` with one update a round are such rounds;
everything else is driven step by step (see `exchange`). The bits are the same.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from mpi4py import MPI

from peerclust.errors import PeerclustError
from peerclust.kernels.threads import MIN_WORK_PER_THREAD, cores
from peerclust.programs.accelerated import Accelerated, AcceleratedState
from peerclust.programs.dgc import DGC, DGCState
from peerclust.programs.protocol import Program
from peerclust.ranks.distribution import Halo
from peerclust.runtimes.protocol import Run, Traffic, check_finite
from peerclust.runtimes.stopping import first_vote
from peerclust.types import Array
from peerclust.users import Users
from peerclust.users.cached import MIN_ROWS_CACHED

# So many rounds take a moment.
STRETCH = 10_000


def may_march(program: Program, users: Users, x: Array) -> bool:
    """Tell whether a program's rounds are such; `users.all_small` is then known."""
    few = np.diff(users.offsets).max() < MIN_ROWS_CACHED
    if type(program) not in (DGC, Accelerated) or program.B != 1 or not few:  # type: ignore[attr-defined]
        return False
    work = (len(users.rows) + users.m) * x[0].size
    if work >= MIN_WORK_PER_THREAD and cores() > 1:
        return False
    users.reset_cache()
    users.assign(x)
    return users.all_small is not None


def march(
    program: Any,
    users: Users,
    x: Array,
    *,
    halo: Halo,
    post: tuple[Any, ...],
    rules: tuple[Any, ...],
) -> Run:
    """Give where users for whom `may_march` holds end, without the traffic.

    `post` is that of `kernels.march`, `rules` are threshold, D and rounds.
    """
    start, momentum = program.start(users, x), isinstance(program, Accelerated)
    stepped, t = (start.stepped, start.t) if momentum else (x[:0], x[:0, :, 0])
    stiffness = program.stiffness(users, links.degree) if momentum else links.degree[:0]
    vote, (threshold, D, rounds) = first_vote(users.m), rules
    s, R, done, last, residual = vote.s, vote.R, 0, x, start.residual
    assert users.all_small is not None
    while done < rounds and not R[0] < done:
        # Not all at once, so that a signal gets a hearing.
        x, stepped, t, residual, s, R, done, last = users.all_small.march(
            users.labels,
            np.ascontiguousarray(x),
            stepped,
            t,
            momentum,
            (float(program.rho), float(program.alpha), float(program.consensus_factor)),
            stiffness,
            (links.indptr, links.indices, links.inner, links.outer, links.degree),
            post,
            (s, R),
            (threshold, D, done, min(rounds, done + STRETCH)),
        )
        if done < 0:
            raise PeerclustError("A call of the MPI library failed in an exchange.")
        if threshold >= 0:
            check_finite(residual, done)
    users.assign(last)
    state = (
        AcceleratedState(x, stepped, t, done, 0, residual)
        if momentum
        else DGCState(x, done, 0, residual)
    )
    return Run([state], done, bool(R[0] <= done - 1), Traffic())


@lru_cache(maxsize=1)
def find_calls() -> tuple[int, int]:
    """Give the addresses of MPI_Startall and MPI_Wait."""
    library = ctypes.CDLL(MPI.__file__)
    calls = (library.MPI_Startall, library.MPI_Wait)
    start, wait = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in calls)
    return start, wait
