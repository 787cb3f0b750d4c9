"""Initial centers: random rows, one row per class, k-means++ (local or distributed), or given.

A start is an object with `centers(runtime, users, K, seed)`, which returns the centers (m, K, d)
and the traffic it took. The first message of a run contains its start, so what leaves a user is:

- `Random`, `Warm`, `KMeansPlusPlusLocal`: the rows that it chose, to its neighbors; and if some
  user has too few rows of its own, the rows of one common draw, to all.
- `KMeansPlusPlus`: the K rows drawn, to all; with `mean_of` > 1 the means of that many distinct
  rows around them instead; with `cap` also the quantile of D^2 and the largest weight of a user, to
  all, and counts of rows, summed along the tree of the network (see `programs.quantile`).
- `Given`: the given centers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerclust.arrays import Array
from peerclust.errors import DataError, ParameterError
from peerclust.programs.draw import Draw
from peerclust.programs.limits import claims
from peerclust.programs.quantile import Quantile
from peerclust.runtimes.loop import run_program
from peerclust.runtimes.protocol import Runtime, Traffic
from peerclust.sparse import AnyRows
from peerclust.text import parameter, setting, show
from peerclust.users import Users
from peerclust.users.nearest import nearest
from peerclust.validation import check_count, check_name, check_number

# Steps from here on number the random streams of draws other than the K centers of k-means++.
_OTHER_STEPS = 1 << 20


@runtime_checkable
class Start(Protocol):
    """A method to choose the initial centers."""

    def centers(self, runtime: Runtime, users: Users, K: int, seed: int) -> tuple[Array, Traffic]:
        """Return centers (m, K, d), and the traffic that choosing them took."""


@dataclass(frozen=True)
class KMeansPlusPlus:
    """Distributed k-means++: K rows of the joint data, common to all users.

    Each row is drawn with probability exactly proportional to weight x D^2 over the joint data (see
    `programs.draw`).

    Parameters
    ----------
    cap : float in (0, 1), optional
        Cap D^2 at this quantile over the joint data, so that outliers are seldom drawn.
    mean_of : int
        If above 1, a drawn row stays with its user, which sends the weighted mean of this many of
        its own distinct rows instead, those nearest to it. A user with fewer does not take part.
    """

    cap: float | None = None
    mean_of: int = 1

    def __post_init__(self) -> None:
        if self.cap is not None:
            check_number(self.cap, "cap", "KMeansPlusPlus", above=0, below=1)
        check_count(self.mean_of, "mean_of", "KMeansPlusPlus")

    def centers(self, runtime: Runtime, users: Users, K: int, seed: int) -> tuple[Array, Traffic]:
        """Draw K centers one after the other."""
        drawn = np.empty((0, users.d))
        traffic: list[Traffic] = []
        for k in range(K):
            cap = np.inf
            if self.cap is not None and k > 0:
                cap, sent = joint_quantile(runtime, users, drawn, self.cap)
                traffic.append(sent)
                # With a cap of 0 (most rows are already centers) no row could be drawn.
                cap = cap or np.inf
            program = Draw(seed, k, cap=cap, mean_of=self.mean_of)
            run = run_program(runtime, program, users, users.broadcast_centers(drawn), rounds=2)
            traffic.append(run.traffic)
            row = run.states[0].drawn
            if np.isnan(row).any() and self.mean_of > 1:
                raise DataError(
                    parameter("mean_of", "KMeansPlusPlus")
                    + " must be at most the distinct rows of some user"
                    f" that are not centers. Got {self.mean_of}."
                )
            if np.isnan(row).any():
                raise DataError(
                    parameter("n_clusters", "cluster")
                    + f" must be at most the number of distinct rows, {k}. Got {K}."
                )
            drawn = np.concatenate([drawn, row])
        return users.broadcast_centers(drawn), sum(traffic, Traffic())


@dataclass(frozen=True)
class Random:
    """Each user draws K distinct rows of its own, with probability proportional to their weights.

    A user with fewer takes the common k-means++ start.
    """

    def centers(self, runtime: Runtime, users: Users, K: int, seed: int) -> tuple[Array, Traffic]:
        """Draw for each user by itself."""

        def choose(i: int, rows: AnyRows, weights: Array) -> AnyRows:
            generator = users.generator(i, seed, _OTHER_STEPS)
            keys = np.log(weights) + generator.gumbel(size=len(rows))
            return rows[np.argsort(-keys, kind="stable")[:K]]

        return _each_user(runtime, users, K, seed, choose)


@dataclass(frozen=True)
class KMeansPlusPlusLocal:
    """Each user draws k-means++ from its own rows alone.

    Center k of one user is then unrelated to center k of another. A user with fewer than K distinct
    rows takes the common k-means++ start.
    """

    def centers(self, runtime: Runtime, users: Users, K: int, seed: int) -> tuple[Array, Traffic]:
        """Draw for each user by itself."""

        def choose(i: int, rows: AnyRows, weights: Array) -> Array:
            generator = users.generator(i, seed, _OTHER_STEPS)
            chosen = np.empty((0, rows.shape[1]))
            far = np.ones(len(rows))
            for _ in range(K):
                running = np.cumsum(weights * far)
                at = np.searchsorted(running, generator.random() * running[-1], side="right")
                row = np.asarray(rows[min(at, len(rows) - 1)], dtype=np.float64)
                chosen = np.concatenate([chosen, row[None]])
                far = nearest(rows, chosen, users.geometry)[1]
            return chosen

        return _each_user(runtime, users, K, seed, choose)


@dataclass(frozen=True)
class Warm:
    """Each user takes a random row of its own from each class: the paper's warm start.

    `classes` are the rows' true classes, a list of one array per user or one flat array; there must
    be K of them. If a user has no row of a class, that center is drawn from the joint data.
    """

    classes: Any = field(repr=False)

    def centers(self, runtime: Runtime, users: Users, K: int, seed: int) -> tuple[Array, Traffic]:
        """Draw for each user and class."""
        flat, names = _read_classes(self.classes, users, runtime.distribution.graph.m)
        if len(names) != K:
            raise ParameterError(
                "`classes` of Warm must have as many classes as "
                + setting("n_clusters", K)
                + f". Got {len(names)}."
            )
        x = np.empty((users.m, K, users.d))
        traffic = Traffic()
        generators = [users.generator(i, seed, _OTHER_STEPS) for i in range(users.m)]
        for k, name in enumerate(names):
            lacking = []
            for i in range(users.m):
                start, stop = users.offsets[i], users.offsets[i + 1]
                own = start + np.flatnonzero(flat[start:stop] == name)
                if len(own):
                    x[i, k] = users.rows[generators[i].choice(own)]
                else:
                    lacking.append(i)
            if runtime.distribution.any_rank(bool(lacking)):
                only = users.with_weights((flat == name).astype(np.float64))
                run = run_program(runtime, Draw(seed, k), only, x[:, :0], rounds=2)
                traffic += run.traffic
                x[lacking, k] = run.states[0].drawn[0]
        return x, traffic


@dataclass(frozen=True)
class Given:
    """Centers that the caller passes: (K, d), common to all users, or (m, K, d)."""

    x: ArrayLike = field(repr=False)

    def centers(self, runtime: Runtime, users: Users, K: int, seed: int) -> tuple[Array, Traffic]:  # noqa: ARG002
        """Check and copy them."""
        x = self.check(runtime.distribution.graph.m, K, users.d)
        return (users.broadcast_centers(x) if x.ndim == 2 else x[list(users.ids)]), Traffic()

    def check(self, m: int, K: int, d: int) -> Array:
        """Return a copy of the centers; raise unless they fit m users, K clusters and d features.

        >>> Given([[0.0], [9.0]]).check(m=3, K=2, d=1).tolist()
        [[0.0], [9.0]]
        """
        try:
            x = np.array(self.x, dtype=np.float64)
            len(x)  # raises for a single number, and for None
        except (TypeError, ValueError):
            raise ParameterError(
                parameter("init", "cluster")
                + f" must be an array of numbers, a start or its name. Got {show(self.x)}."
            ) from None
        if x.shape not in ((K, d), (m, K, d)):
            raise ParameterError(
                parameter("init", "cluster")
                + f" must have the shape {(K, d)} or {(m, K, d)}. Got {x.shape}."
            )
        if not np.isfinite(x).all():
            raise ParameterError(
                parameter("init", "cluster") + " must be finite. Got NaN or infinite centers."
            )
        return x


STARTS: dict[str, Any] = {
    "k-means++": KMeansPlusPlus,
    "k-means++-local": KMeansPlusPlusLocal,
    "random": Random,
}


def resolve(init: Any, of: str = "cluster") -> Start:
    """Return the start that a name, an array or an object stands for.

    >>> resolve("k-means++")
    KMeansPlusPlus(cap=None, mean_of=1)
    """
    if isinstance(init, type):
        raise ParameterError(
            parameter("init", of)
            + f" must be a start, such as {init.__name__}(). Got the class {init.__name__}."
        )
    if isinstance(init, str):
        start: Start = STARTS[check_name(init, STARTS, "init", of, other="centers (K, d)")]()
        return start
    return init if isinstance(init, Start) else Given(init)


def joint_quantile(
    runtime: Runtime, users: Users, centers: Array, q: float
) -> tuple[float, Traffic]:
    """Return a quantile of D^2 to common centers (k, d) over the rows of all users."""
    program = Quantile(runtime.distribution.graph.m, (q,))
    run = run_program(
        runtime, program, users, users.broadcast_centers(centers), rounds=program.rounds
    )
    found, bounds = float(run.states[0].found[0]), claims(users)
    if bounds is not None and not 0 <= found <= bounds.reach**2 * users.distance.largest:
        raise DataError(
            "The quantile of the rows' distances from the centers is larger than the box of the"
            " data permits: a user reported a wrong number."
        )
    return found, run.traffic


def _each_user(
    runtime: Runtime,
    users: Users,
    K: int,
    seed: int,
    choose: Callable[[int, AnyRows, Array], AnyRows],
) -> tuple[Array, Traffic]:
    """Call `choose` for each user with K distinct rows; the others take the common start."""
    rows, weights, offsets = users.distinct
    x = np.empty((users.m, K, users.d))
    lacking = []
    for i in range(users.m):
        here = slice(offsets[i], offsets[i + 1])
        own = rows[here][weights[here] > 0]
        if len(own) < K:
            lacking.append(i)
        else:
            own_weights = weights[here][weights[here] > 0]
            x[i] = choose(i, users.rows[own], own_weights)
    if not runtime.distribution.any_rank(bool(lacking)):
        return x, Traffic()
    common, traffic = KMeansPlusPlus().centers(runtime, users, K, seed)
    x[lacking] = common[lacking]
    return x, traffic


def _read_classes(classes: Any, users: Users, m: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the class of each row of these users, (N,), and the names of all classes."""
    nested = isinstance(classes, list | tuple) and len(classes) > 0 and np.ndim(classes[0]) == 1
    if nested:
        given = [np.asarray(part) for part in classes]
        own = [given[i] for i in users.ids] if len(given) == m else given
        flat, names = np.concatenate(own), np.unique(np.concatenate(given))
    else:
        flat = np.asarray(classes)
        names = np.unique(flat)
    n = len(users.rows)
    if flat.shape != (n,):
        raise ParameterError(
            f"`classes` of Warm must name the class of each of the {n} rows; with the runtime 'mpi'"
            f" as a list of one array per user. Got shape {flat.shape}."
        )
    return flat, names
