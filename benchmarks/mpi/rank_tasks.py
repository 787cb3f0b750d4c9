"""The tasks of the ranks of an MPI job, which `jobs` starts; rank 0 prints the results as JSON.

Times are those of the slowest rank.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from mpi4py import MPI

from benchmarks.lloyd import choose_centers
from benchmarks.round_timing import SETUP_ROUNDS
from peerclust import graphs
from peerclust.arrays import Array
from peerclust.datasets import gaussians
from peerclust.graphs import Graph
from peerclust.losses import Fair
from peerclust.programs.dgc import DGC
from peerclust.ranks.distribution import Distribution, distribute_users
from peerclust.runtimes import run_program
from peerclust.runtimes.mpi import MPIGroup, MPIRuntime, world
from peerclust.theory import paper_step
from peerclust.users import Users

_RHO = 100.0

# So short that users without rows never agree to the last bit, and so never stop.
_TINY_STEP = 1e-9

# Enough rows per user to compile every loop that more rows would use.
_FEW_ROWS = 600


@dataclass(frozen=True, eq=False)
class Block:
    """The users of this rank, and what runs them."""

    runtime: MPIRuntime
    users: Users
    program: DGC
    x: Array

    def run(self, rounds: int, **options: Any) -> None:
        """Run some rounds from the start; the options are those of the runtime."""
        run_program(self.runtime, self.program, self.users, self.x, rounds=rounds, **options)


def time_exchange(
    ranks: MPIGroup, *, K: int, d: int, rounds: int, repeats: int
) -> dict[str, float]:
    """Return the seconds of a round without rows ("round") and of a bare exchange ("exchange").

    Each rank has one user. The bare exchange sends the same number of doubles, and writes them
    before each exchange as a round does: data that never changes stays in the caches of both cores.
    """
    graph = graphs.path(2) if ranks.size == 2 else graphs.ring(ranks.size)
    block = _without_rows(ranks, graph, K=K, d=d)
    loops = {
        "round": block.run,
        "exchange": _bare_exchange(ranks, block.runtime.distribution, K * d),
    }
    return _time_alternating(ranks, loops, rounds=rounds, repeats=repeats)


def time_empty_rounds(
    ranks: MPIGroup, *, K: int, d: int, users: Sequence[int], rounds: int, repeats: int
) -> dict[str, float]:
    """Return the seconds of a round without rows for each number of users on a ring."""
    blocks = {m: _without_rows(ranks, graphs.ring(m), K=K, d=d) for m in users}
    loops = {str(m): block.run for m, block in blocks.items()}
    return _time_alternating(ranks, loops, rounds=rounds, repeats=repeats)


def time_rounds(
    ranks: MPIGroup, *, K: int, d: int, m: int, rows: int, rounds: int
) -> dict[str, float | None]:
    """Return the seconds of a round after the set-up, in which m users on a ring hold all rows.

    `memory` is the growth of the peak memory of the rank with most rows, in bytes per byte of its
    rows; None where the system does not report it.
    """
    rows_per_user = rows // m // 4 * 4
    # What is loaded and compiled takes memory once, independent of the rows.
    _with_rows(ranks, m, min(rows_per_user, _FEW_ROWS), K=K, d=d).run(SETUP_ROUNDS + 2)
    before = _reset_peak()
    block = _with_rows(ranks, m, rows_per_user, K=K, d=d)
    seconds = max(ranks.allgather(_time_later_rounds(block, rounds)))
    peak = _read_memory("VmHWM")
    size = np.asarray(block.users.rows).nbytes
    memory = None if before is None or peak is None else (peak - before) / size
    by_rows = ranks.allgather((len(block.users.rows), memory))
    return {"seconds": seconds / rounds, "memory": max(by_rows)[1]}


def make_rows(user: int, n: int, *, K: int, d: int) -> Array:
    """Return n rows of a user: the paper's Gaussians in the plane, else K of unit variance.

    >>> make_rows(0, 8, K=3, d=5).shape
    (8, 5)
    """
    rng = np.random.default_rng((0, user))
    if (K, d) == (4, 2):
        return rng.permutation(gaussians(n, random_state=rng)[0])
    means = 2.0 * np.random.default_rng(0).normal(size=(K, d))
    return means[rng.integers(K, size=n)] + rng.normal(size=(n, d))


def _with_rows(ranks: MPIGroup, m: int, rows_per_user: int, *, K: int, d: int) -> Block:
    """Return the block of m users on a ring; each rank makes the rows of its own users only."""
    n, graph = rows_per_user, graphs.ring(m)
    distribution = Distribution(ranks, graph, distribute_users(graph, [n] * m, ranks.size))
    rows = np.empty((n * len(distribution.local), d))
    for place, user in enumerate(distribution.local):
        rows[place * n : (place + 1) * n] = make_rows(int(user), n, K=K, d=d)
    offsets = n * np.arange(len(distribution.local) + 1)
    users = Users(rows, offsets, loss=Fair(), ids=distribution.local.tolist())
    alpha = paper_step(m=m, largest=n, rho=_RHO, lambda_max=graph.lambda_max.value)
    x = users.broadcast_centers(choose_centers(make_rows(0, _FEW_ROWS, K=K, d=d), K))
    return Block(ranks.make_runtime(distribution), users, DGC(rho=_RHO, alpha=alpha), x)


def _without_rows(ranks: MPIGroup, graph: Graph, *, K: int, d: int) -> Block:
    distribution = Distribution(ranks, graph, distribute_users(graph, [0] * graph.m, ranks.size))
    u = len(distribution.local)
    users = Users(np.empty((0, d)), np.zeros(u + 1, np.int64), ids=distribution.local.tolist())
    x = np.random.default_rng((0, ranks.rank)).normal(size=(u, K, d))
    return Block(ranks.make_runtime(distribution), users, DGC(rho=_RHO, alpha=_TINY_STEP), x)


def _bare_exchange(
    ranks: MPIGroup, distribution: Distribution, width: int
) -> Callable[[int], None]:
    """Return a loop that writes some doubles and sends them to each neighboring rank."""
    near = [r for r, users in enumerate(distribution.halo.send) if len(users)]
    around = ranks.comm.Create_dist_graph_adjacent(near, near)
    sent, received = np.ones(width), np.empty((len(near), width))
    # mpi4py handles buffers fastest with their count and type given.
    buffers = [sent, width, MPI.DOUBLE], [received, width, MPI.DOUBLE]
    allgather = around.Neighbor_allgather

    def run(rounds: int) -> None:
        for _ in range(rounds):
            np.negative(sent, out=sent)
            allgather(*buffers)

    return run


def _time_alternating(
    ranks: MPIGroup, loops: Mapping[str, Callable[[int], None]], *, rounds: int, repeats: int
) -> dict[str, float]:
    """Return the median seconds per round of each loop, after one run that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for repeat in range(repeats + 1):
        for name, run in loops.items():
            ranks.comm.Barrier()
            begin = perf_counter()
            run(rounds)
            slowest = max(ranks.allgather(perf_counter() - begin))
            if repeat > 0:
                seconds[name].append(slowest / rounds)
    return {name: median(times) for name, times in seconds.items()}


def _time_later_rounds(block: Block, rounds: int) -> float:
    """Return the seconds of some rounds after the set-up."""
    marks = []

    # This takes a microsecond of a round's milliseconds.
    def on_round(states: Any, _: Any) -> None:
        if states[0].round in (SETUP_ROUNDS, SETUP_ROUNDS + rounds):
            marks.append(perf_counter())

    block.run(SETUP_ROUNDS + rounds, on_round=on_round)
    return marks[1] - marks[0]


def _reset_peak() -> int | None:
    """Return the current memory of this process in bytes, and reset its peak to it."""
    if _read_memory("VmRSS") is not None:
        Path("/proc/self/clear_refs").write_text("5")
    return _read_memory("VmRSS")


def _read_memory(name: str) -> int | None:
    """Return an entry of this process's status in bytes; only Linux has them."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    entries = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return 1024 * int(entries[name].split()[0])


TASKS: dict[str, Callable[..., Mapping[str, Any]]] = {
    task.__name__: task for task in (time_exchange, time_empty_rounds, time_rounds)
}


def main(tasks: str) -> None:
    """Run tasks, each a name and options, one after the other."""
    ranks = world()
    with ranks.abort_on_failure():
        results = [TASKS[name](ranks, **options) for name, options in json.loads(tasks)]
    if ranks.rank == 0:
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
