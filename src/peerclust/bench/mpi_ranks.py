"""Run by the ranks of a job, which `mpi_jobs` starts; rank 0 prints what was found as JSON.

Times are those of the rank that takes longest.
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

from peerclust import graphs
from peerclust.bench.lloyd import choose_centers
from peerclust.bench.timing import FIRST
from peerclust.datasets import gaussians
from peerclust.graphs import Graph
from peerclust.losses import Fair
from peerclust.programs.dgc import DGC
from peerclust.ranks.distribution import Distribution, distribute_users
from peerclust.runtimes.mpi import MPIRuntime, MPIGroup, world
from peerclust.theory import paper_step
from peerclust.types import Array
from peerclust.users import Users

_RHO = 100.0

# So short that users without rows never agree to the last bit, and so never stop.
_TINY_STEP = 1e-9

# Enough rows a user for every loop that more rows would take, see `lazy`.
_FEW_ROWS = 600


@dataclass(frozen=True, eq=False)
class Block:
    """The users of this rank, and what drives them."""

    runtime: MPIRuntime
    users: Users
    program: DGC
    x: Array

    def run(self, rounds: int, **options: Any) -> None:
        """Run so many rounds from the start; options are those of the runtime."""
        self.runtime.run(self.program, self.users, self.x, rounds=rounds, **options)


def time_letters(ranks: MPIGroup, *, K: int, d: int, rounds: int, repeats: int) -> dict[str, float]:
    """Give the seconds of a round without rows, a user a rank, beside a bare loop of the letters.

    `silent` is a round in which nobody votes, `voting` one in which all do; `bare` sends the same
    numbers again and again, which stay in the caches, `anew` writes them before it sends them.
    """
    graph = graphs.path(2) if ranks.size == 2 else graphs.ring(ranks.size)
    block = _without_rows(ranks, graph, K=K, d=d)
    bare, anew = _bare_exchanges(ranks, block.runtime.share, K * d)
    ways: dict[str, Callable[[int], None]] = {
        "silent": block.run,
        "voting": lambda rounds: block.run(rounds, threshold=0.0),
        "bare": bare,
        "anew": anew,
    }
    return _in_turns(ranks, ways, rounds=rounds, repeats=repeats)


def time_users(
    ranks: MPIGroup, *, K: int, d: int, users: Sequence[int], rounds: int, repeats: int
) -> dict[str, float]:
    """Give the seconds of a round without rows, for so many users on a ring."""
    blocks = {m: _without_rows(ranks, graphs.ring(m), K=K, d=d) for m in users}
    ways = {str(m): block.run for m, block in blocks.items()}
    return _in_turns(ranks, ways, rounds=rounds, repeats=repeats)


def time_rows(
    ranks: MPIGroup, *, K: int, d: int, m: int, rows: int, rounds: int
) -> dict[str, float | None]:
    """Give the seconds of a round after the set-up, m users on a ring having all the rows.

    `growth` is by how many bytes the memory of the rank that has most rows grew at its peak, for a
    byte of its rows; None where the system does not tell.
    """
    each = rows // m // 4 * 4
    # What is loaded and compiled takes memory once, whatever the rows.
    _with_rows(ranks, m, min(each, _FEW_ROWS), K=K, d=d).run(FIRST + 2)
    before = _reset_peak()
    block = _with_rows(ranks, m, each, K=K, d=d)
    seconds = max(ranks.allgather(_time_later(block, rounds)))
    peak = _memory("VmHWM")
    growth = None if before is None or peak is None else (peak - before) / block.users.rows.nbytes
    told = ranks.allgather((len(block.users.rows), growth))
    return {"seconds": seconds / rounds, "growth": max(told)[1]}


def make_rows(user: int, n: int, *, K: int, d: int) -> Array:
    """Give a user's n rows: the paper's Gaussians in the plane, else K of unit variance.

    >>> make_rows(0, 8, K=3, d=5).shape
    (8, 5)
    """
    rng = np.random.default_rng((0, user))
    if (K, d) == (4, 2):
        return rng.permutation(gaussians(n, random_state=rng)[0])
    means = 2.0 * np.random.default_rng(0).normal(size=(K, d))
    return means[rng.integers(K, size=n)] + rng.normal(size=(n, d))


def _with_rows(ranks: MPIGroup, m: int, each: int, *, K: int, d: int) -> Block:
    """Give m users on a ring so many rows each; every rank makes those of its own users only."""
    graph = graphs.ring(m)
    share = Distribution(ranks, graph, distribute_users(graph, [each] * m, ranks.size))
    rows = np.empty((each * len(share.local), d))
    for place, user in enumerate(share.local):
        rows[place * each : (place + 1) * each] = make_rows(int(user), each, K=K, d=d)
    offsets = each * np.arange(len(share.local) + 1)
    users = Users(rows, offsets, loss=Fair(), numbers=share.local.tolist())
    lambda_max = graph.lambda_max.value
    alpha = paper_step(m=m, largest=each, rho=_RHO, lambda_max=lambda_max)
    x = users.broadcast_centers(choose_centers(make_rows(0, _FEW_ROWS, K=K, d=d), K))
    return Block(ranks.make_runtime(share), users, DGC(rho=_RHO, alpha=alpha), x)


def _without_rows(ranks: MPIGroup, graph: Graph, *, K: int, d: int) -> Block:
    share = Distribution(ranks, graph, distribute_users(graph, [0] * graph.m, ranks.size))
    u = len(share.local)
    users = Users(np.empty((0, d)), np.zeros(u + 1, np.int64), numbers=share.local.tolist())
    x = np.random.default_rng((0, ranks.rank)).normal(size=(u, K, d))
    return Block(ranks.make_runtime(share), users, DGC(rho=_RHO, alpha=_TINY_STEP), x)


def _bare_exchanges(
    ranks: MPIGroup, share: Distribution, width: int
) -> list[Callable[[int], None]]:
    """Give loops that send so many doubles to each neighboring rank, so many times."""
    near = [r for r, told in enumerate(share.links.told) if len(told)]
    around = ranks.comm.Create_dist_graph_adjacent(near, near)
    told, heard = np.ones(width), np.empty((len(near), width))
    # Arrays with their counts and kinds are read fastest.
    places = [told, width, MPI.DOUBLE], [heard, width, MPI.DOUBLE]
    allgather = around.Neighbor_allgather

    def send(rounds: int) -> None:
        for _ in range(rounds):
            allgather(*places)

    def write_and_send(rounds: int) -> None:
        for _ in range(rounds):
            np.negative(told, out=told)
            allgather(*places)

    return [send, write_and_send]


def _in_turns(
    ranks: MPIGroup, ways: Mapping[str, Callable[[int], None]], *, rounds: int, repeats: int
) -> dict[str, float]:
    """Give each way's seconds a round, the median of several, after one that does not count."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name, run in ways.items():
            seconds = _clock(ranks, lambda run=run: run(rounds))  # type: ignore[misc]
            if turn > 0:
                found[name].append(seconds / rounds)
    return {name: median(times) for name, times in found.items()}


def _time_later(block: Block, rounds: int) -> float:
    """Give the seconds of so many rounds after the set-up."""
    marks = []

    # It takes a microsecond of a round's milliseconds.
    def watch(states: Any, _: Any) -> None:
        if states[0].round in (FIRST, FIRST + rounds):
            marks.append(perf_counter())

    block.run(FIRST + rounds, watch=watch)
    return marks[1] - marks[0]


def _clock(ranks: MPIGroup, work: Callable[[], None]) -> float:
    """Give the seconds of work that all ranks begin together."""
    ranks.comm.Barrier()
    begin = perf_counter()
    work()
    longest: float = max(ranks.allgather(perf_counter() - begin))
    return longest


def _reset_peak() -> int | None:
    """Give the bytes that this process has now, and count its peak from here."""
    if _memory("VmRSS") is not None:
        Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(name: str) -> int | None:
    """Give an entry of this process's status in bytes; only Linux has them."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    entries = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return 1024 * int(entries[name].split()[0])


TASKS: dict[str, Callable[..., Mapping[str, Any]]] = {
    "letters": time_letters,
    "users": time_users,
    "rows": time_rows,
}


def main(tasks: str) -> None:
    """Do tasks, each a name and options, one after the other."""
    ranks = world()
    with ranks.abort_on_failure():
        found = [TASKS[name](ranks, **options) for name, options in json.loads(tasks)]
    if ranks.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
