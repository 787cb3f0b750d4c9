"""What a method is: the task that it is given and the outcome that it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from peerclust.arrays import Array, Rows
from peerclust.errors import ParameterError
from peerclust.graphs import Graph
from peerclust.row_validation import check_parts
from peerclust.runtimes.protocol import OnRound, Traffic
from peerclust.users import Users
from peerclust.validation import check_count, check_number


@dataclass(frozen=True, eq=False)
class Task:
    """One clustering problem, the same for every method that is compared on it.

    Attributes
    ----------
    rows : (N, d) array
        The rows of all users, user after user; float32 or float64.
    offsets : (m + 1,) int array
        User i holds the rows offsets[i]:offsets[i + 1].
    graph : Graph
        The communication graph.
    start : (m, K, d) array
        Each user's initial centers.
    pooled_start : (K, d) array
        Initial centers of methods that see all rows.
    sklearn_start : (K, d) array or None
        Initial centers of scikit-learn's K-means; None for its own k-means++.
    rho : float
        The consensus penalty; methods of other papers use it as theirs.
    rounds : int
        Number of rounds (T).
    B : int
        Center updates per round, for methods that make several.
    seed : int
        Seed of randomized methods.
    """

    rows: Rows
    offsets: NDArray[np.int64]
    graph: Graph
    start: Array
    pooled_start: Array
    rho: float
    rounds: int
    sklearn_start: Array | None = None
    B: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.rows, np.ndarray) or not isinstance(self.offsets, np.ndarray):
            raise ParameterError("`rows` and `offsets` of Task must be arrays.")
        check_parts((self.rows, self.offsets))
        m, d = len(self.offsets) - 1, self.rows.shape[1]
        if self.graph.m != m:
            raise ParameterError(f"`graph` of Task must have {m} users. Got {self.graph.m}.")
        if np.ndim(self.start) != 3 or self.start.shape[::2] != (m, d):
            raise ParameterError(
                f"`start` of Task must have the shape ({m}, K, {d}). Got {np.shape(self.start)}."
            )
        for name in ("pooled_start", "sklearn_start"):
            value = getattr(self, name)
            if value is not None and np.shape(value) != (self.K, d):
                raise ParameterError(
                    f"`{name}` of Task must have the shape {(self.K, d)}. Got {np.shape(value)}."
                )
        check_number(self.rho, "rho", "Task", above=0)
        check_count(self.rounds, "rounds", "Task")
        check_count(self.B, "B", "Task")

    @property
    def K(self) -> int:
        """The number of clusters."""
        return int(self.start.shape[1])


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a method.

    Attributes
    ----------
    centers : (m, K, d) array
        Each user's centers; all equal if the method has one common set.
    labels : (N,) int array
        Each row's cluster, by its user's centers.
    rounds : int
        Rounds, or iterations, until it ended; of several starts, those of the best.
    seconds : float
        Run time without set-up; of several starts, the time of all.
    traffic : Traffic
        What was sent over the links. A start counts only if it is common and must be sent.
    """

    centers: Array
    labels: NDArray[np.int32]
    rounds: int
    seconds: float
    traffic: Traffic = field(default_factory=Traffic)


def check_outcome(outcome: Any, task: Task, method: str) -> Outcome:
    """Raise unless a method returned an outcome that fits its task."""
    of = f"the outcome of {method}"
    if not isinstance(outcome, Outcome):
        raise ParameterError(
            f"`fit` of {method} must return an Outcome. Got {type(outcome).__name__}."
        )
    labels, shape = np.asarray(outcome.labels), task.start.shape
    if np.shape(outcome.centers) != shape or not np.isfinite(outcome.centers).all():
        raise ParameterError(
            f"`centers` of {of} must be finite and of the shape {shape}."
            f" Got {np.shape(outcome.centers)}."
        )
    if (
        labels.shape != (len(task.rows),)
        or labels.dtype.kind not in "iu"
        or (labels.size and not 0 <= labels.min() <= labels.max() < task.K)
    ):
        raise ParameterError(
            f"`labels` of {of} must be {len(task.rows)} whole numbers from 0 to {task.K - 1}."
        )
    if not isinstance(outcome.traffic, Traffic):
        raise ParameterError(
            f"`traffic` of {of} must be a Traffic. Got {type(outcome.traffic).__name__}."
        )
    return outcome


class Method(Protocol):
    """A clustering method."""

    def fit(self, task: Task, on_round: OnRound | None = None) -> Outcome:
        """Cluster the task; methods that are programs call `on_round` between rounds."""


def warm_up(users: Users, x: Array) -> None:
    """Run the loops on one user's rows, so that rounds are timed without compilation.

    The users' own caches stay empty: filling them is part of the timed rounds.
    """
    largest = int(np.diff(users.offsets).argmax())
    one, start = users.single_user(largest), x[largest : largest + 1]
    assignment = None
    for _ in range(3):
        assignment = one.assign(start, assignment)
        one.gradient(assignment, start)


def make_outcome(
    users: Users, x: Array, rounds: int, seconds: float, traffic: Traffic | None = None
) -> Outcome:
    """Label every row by the centers x (m, K, d) of its user and return the outcome."""
    return Outcome(x, users.assign(x).labels, rounds, seconds, traffic or Traffic())
