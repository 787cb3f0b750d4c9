"""Methods that run as programs on the communication graph: DGC, NK-means, ADMM-KM, LSP2P."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from peerclust import theory
from peerclust.baselines.protocol import Outcome, Task, make_outcome, warm_up
from peerclust.graphs import Graph
from peerclust.losses import KMeans
from peerclust.programs.admm import ADMM
from peerclust.programs.dgc import DGC
from peerclust.programs.lsp2p import LSP2P
from peerclust.programs.nk_means import NKMeans
from peerclust.programs.protocol import AnyProgram
from peerclust.runtimes.loop import check_finite, run_program
from peerclust.runtimes.protocol import OnRound, Traffic
from peerclust.runtimes.simulator import Simulator
from peerclust.users import Users

# The step of NK-means is this fraction of the bound that it must stay below.
NK_SHARE = 0.99


@dataclass(frozen=True)
class OverNetwork:
    """A program as a method: `make(task)` returns the program, `loss` is what it minimizes.

    With `common` all users start at the task's pooled start, which one of them floods; that counts
    as traffic. Otherwise each user has its own start. With a `tol` above 0 they stop once every
    user's gradient is below it, in units of the largest user's weight times the spread of all rows;
    otherwise after all rounds.

    Your own program joins the paper's tables by this class and a name:

    >>> from peerclust import baselines
    >>> from peerclust.programs.dgc import DGC
    >>> mine = OverNetwork(lambda task: DGC(rho=task.rho, alpha=0.01))
    >>> baselines.register("MINE", mine)
    >>> baselines.unregister("MINE")
    """

    make: Callable[[Task], AnyProgram]
    loss: Any = field(default_factory=KMeans)
    common: bool = False
    tol: float = 0.0

    def fit(self, task: Task, on_round: OnRound | None = None) -> Outcome:
        """Run the program on the simulator, with weights of 1."""
        users = Users(task.rows, task.offsets, loss=self.loss)
        program, simulator = self.make(task), Simulator(task.graph)
        start, before = task.start, Traffic()
        if self.common:
            start = users.broadcast_centers(task.pooled_start)
            before = flood(task.graph, task.pooled_start.size * 8)
        warm_up(users, start)
        begin = perf_counter()
        run = run_program(
            simulator,
            program,
            users,
            start,
            rounds=task.rounds,
            threshold=self.tol * _scale(users) if self.tol > 0 else -1.0,
            on_round=on_round,
        )
        seconds = perf_counter() - begin
        check_finite(run.x, run.rounds)
        return make_outcome(users, run.x, run.rounds, seconds, before + run.traffic)


def _scale(users: Users) -> float:
    """Return W s: the rows of the largest user times the spread of all rows."""
    spread = np.sqrt(np.asarray(users.rows).var(axis=0, dtype=np.float64).sum())
    return float(users.total_weights.max() * spread)


def flood(graph: Graph, size: int) -> Traffic:
    """Return the traffic of flooding one message of `size` bytes to all users.

    Each user passes it once to all neighbors, so it crosses every link in both directions.

    >>> from peerclust.graphs import ring
    >>> flood(ring(5), 8)
    Traffic(messages=10, bytes=80)
    """
    return Traffic(2 * graph.edges, 2 * graph.edges * size)


def make_dgc(task: Task) -> DGC:
    """Return DGC-F_rho with the step of the paper's experiments."""
    alpha = theory.paper_step(
        m=task.graph.m,
        largest=int(np.diff(task.offsets).max()),
        rho=task.rho,
        lambda_max=task.graph.lambda_max.value,
    )
    return DGC(rho=task.rho, alpha=alpha, B=task.B)


def make_admm(task: Task) -> ADMM:
    """Return ADMM-KM whose penalty is the task's rho, as in the paper's tables."""
    return ADMM.plain(c=task.rho)


def make_nk_means(task: Task) -> NKMeans:
    """Return NK-means with the step of the paper's footnote."""
    largest = float(np.diff(task.offsets).max())
    bound = task.graph.degree.min() / (largest / task.rho + task.graph.lambda_max.value)
    return NKMeans(rho=task.rho, alpha=NK_SHARE * float(bound))


def make_lsp2p(task: Task) -> LSP2P:  # noqa: ARG001
    """Return LSP2P K-means, which has no parameters."""
    return LSP2P()
