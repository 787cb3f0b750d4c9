"""Methods without a network: CGC and scikit-learn see all rows, LGC runs each user on its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from peerclust import graphs
from peerclust.arrays import Array
from peerclust.baselines.protocol import Outcome, Task, make_outcome, warm_up
from peerclust.losses import KMeans
from peerclust.programs.dgc import DGC
from peerclust.runtimes.loop import check_finite, run_program
from peerclust.runtimes.protocol import OnRound
from peerclust.runtimes.simulator import Simulator
from peerclust.theory import SAFETY
from peerclust.users import Users


@dataclass(frozen=True)
class CGC:
    """Centralized gradient clustering: one user holds all rows.

    x(k) <- x(k) - alpha sum over C(k) of grad f(x(k), y), alpha = 1 / (2 |D|). For a loss with
    beta > 2 the step is 0.99 / (beta |D|) instead, the longest that is proved safe.
    A. Armacki, D. Bajovic, D. Jakovetic and S. Kar, "Gradient based clustering", ICML 2022.
    """

    loss: Any = field(default_factory=KMeans)

    def fit(self, task: Task, on_round: OnRound | None = None) -> Outcome:
        """Cluster all rows from the pooled start."""
        pooled = Users(task.rows, np.array([0, len(task.rows)]), loss=self.loss)
        warm_up(pooled, task.pooled_start[None])
        begin = perf_counter()
        x = _descend(pooled, task.pooled_start[None], task.rounds, on_round)
        seconds = perf_counter() - begin
        users = Users(task.rows, task.offsets, loss=self.loss)
        return make_outcome(users, users.broadcast_centers(x[0]), task.rounds, seconds)


@dataclass(frozen=True)
class LGC:
    """Local gradient clustering: each user clusters its own rows, without any messages.

    As `CGC`, with alpha_i = 1 / (2 |D_i|).
    """

    loss: Any = field(default_factory=KMeans)

    def fit(self, task: Task, on_round: OnRound | None = None) -> Outcome:  # noqa: ARG002
        """Cluster each user's rows from its own start; `on_round` is not called."""
        users = Users(task.rows, task.offsets, loss=self.loss)
        warm_up(users, task.start)
        begin = perf_counter()
        each = [
            _descend(users.single_user(i), task.start[i : i + 1], task.rounds)
            for i in range(users.m)
        ]
        seconds = perf_counter() - begin
        return make_outcome(users, np.concatenate(each), task.rounds, seconds)


@dataclass(frozen=True)
class SklearnKMeans:
    """scikit-learn's K-means (Lloyd) on all rows, by its own stopping rule.

    It runs from `task.sklearn_start`, or else takes the best of `n_init` k-means++ starts; 10 was
    scikit-learn's default before version 1.4. The seconds are those of all starts.
    """

    n_init: int = 10

    def fit(self, task: Task, on_round: OnRound | None = None) -> Outcome:  # noqa: ARG002
        """Cluster all rows; `on_round` is not called."""
        from sklearn.cluster import KMeans as Sklearn

        given = task.sklearn_start
        model = Sklearn(
            n_clusters=task.K,
            init="k-means++" if given is None else given.astype(task.rows.dtype),
            n_init=self.n_init if given is None else 1,
            max_iter=task.rounds,
            random_state=task.seed,
        )
        begin = perf_counter()
        model.fit(task.rows)
        seconds = perf_counter() - begin
        users = Users(task.rows, task.offsets)
        x = users.broadcast_centers(model.cluster_centers_.astype(np.float64))
        return make_outcome(users, x, int(model.n_iter_), seconds)


def _descend(alone: Users, x: Array, rounds: int, on_round: OnRound | None = None) -> Array:
    """Return the centers (1, K, d) of a single user after `rounds` gradient steps."""
    n = max(len(alone.rows), 1)
    alpha = min(0.5, SAFETY / float(alone.loss.smoothness)) / n
    program, simulator = DGC(rho=1.0, alpha=alpha), Simulator(graphs.path(1))
    run = run_program(simulator, program, alone, x, rounds=rounds, on_round=on_round)
    check_finite(run.x, run.rounds)
    return run.x
