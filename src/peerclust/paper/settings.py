"""The paper's settings: a data set, its split over users, the graph and the starts.

A `Setting` describes one, an `Instance` is drawn from it by a seed: each run has its own subset,
split, graph and starts. Data sets are read once per process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import datasets, graphs, initialize, partition
from peerclust.arrays import Array, Classes
from peerclust.baselines import Task
from peerclust.graphs import Graph
from peerclust.runtimes.simulator import Simulator
from peerclust.users import Users


@dataclass(frozen=True)
class Setting:
    """A data set over users on a graph.

    Attributes
    ----------
    data : str
        "iris", "gaussians", "mnist" or "cifar10".
    K : int
        Number of clusters: the first K classes of the data.
    title : str
        The name in the paper's tables.
    per_class : int or None
        Rows drawn from each class; None for all rows.
    uneven : int or None
        Rows drawn in total, with classes in random proportions.
    m : int
        Number of users.
    per_user : None, int or pair
        Classes per user: all of them (homogeneous data), a number, or a range.
    graph : "ring" or "erdos-renyi"
        The latter with p = 0.5, a new one for each run.
    """

    data: str
    K: int
    title: str
    per_class: int | None = None
    uneven: int | None = None
    m: int = 10
    per_user: int | tuple[int, int] | None = None
    graph: str = "ring"


SETTINGS: Mapping[str, Setting] = {
    "iris": Setting("iris", 3, "Iris"),
    "iris-het": Setting("iris", 3, "Iris", m=15, per_user=2),
    "gaussians": Setting("gaussians", 4, "Gaussian"),
    "mnist7": Setting("mnist", 7, "MNIST7", per_class=1000),
    "mnist7-het": Setting("mnist", 7, "MNIST7", uneven=8380, per_user=(3, 5), graph="erdos-renyi"),
    "cifar3": Setting("cifar10", 3, "CIFAR3", per_class=1000),
    "cifar3-het": Setting("cifar10", 3, "CIFAR3", per_class=1000, per_user=2, graph="erdos-renyi"),
    "cifar8": Setting("cifar10", 8, "CIFAR8", per_class=1000),
    "mnist": Setting("mnist", 10, "MNIST"),
    "cifar10": Setting("cifar10", 10, "CIFAR10"),
}


@dataclass(frozen=True, eq=False)
class Instance:
    """The rows of all users, user after user, with their classes, and the graph.

    `seeds` are those of the users' starts, of the pooled start, and of randomized methods.
    """

    rows: NDArray[Any]
    classes: Classes
    offsets: NDArray[np.int64]
    graph: Graph
    K: int
    seeds: list[int]

    def split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the part of each user in an array with one entry per row."""
        return np.split(values, self.offsets[1:-1])


def draw_instance(
    setting: Setting, seed: int, *, data_dir: str | None = None, n: int | None = None
) -> Instance:
    """Draw the data and its split; `n` is the number of rows of the Gaussian set."""
    subset, split, network, *rest = draw_seeds(seed)
    rows, classes = load(setting.data, data_dir, n, subset if setting.data == "gaussians" else 0)
    if setting.per_class is not None:
        rows, classes = datasets.first_classes(
            rows, classes, setting.K, setting.per_class, random_state=subset
        )
    elif setting.uneven is not None:
        rows, classes = datasets.uneven_classes(
            rows, classes, setting.K, setting.uneven, random_state=subset
        )
    if setting.per_user is None:
        parts = partition.homogeneous(classes, setting.m, random_state=split)
    else:
        uneven = None if setting.uneven is None else "random"
        parts = partition.by_class(
            classes, setting.m, per_user=setting.per_user, proportions=uneven, random_state=split
        )
    return make_instance(rows, classes, parts, make_graph(setting, network), setting.K, rest)


def draw_seeds(seed: int) -> list[int]:
    """Return the seeds of the subset, the split, the graph, and the three of `Instance.seeds`.

    >>> len(draw_seeds(0)), draw_seeds(0) == draw_seeds(1)
    (6, False)
    """
    return [int(state) for state in np.random.SeedSequence(seed).generate_state(6, np.uint64)]


def make_instance(
    rows: NDArray[Any],
    classes: Classes,
    parts: partition.Parts,
    graph: Graph,
    K: int,
    seeds: list[int],
) -> Instance:
    """Return the instance in which user i holds the rows `parts[i]`."""
    order = np.concatenate(parts)
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Instance(np.ascontiguousarray(rows[order]), classes[order], offsets, graph, K, seeds)


def make_graph(setting: Setting, seed: int) -> Graph:
    """Return the graph of a setting."""
    if setting.graph == "ring":
        return graphs.ring(setting.m)
    return graphs.erdos_renyi(setting.m, 0.5, random_state=seed)


def make_task(
    instance: Instance,
    *,
    start: str,
    rho: float,
    rounds: int,
    B: int = 1,
    pooled: str | None = None,
    sklearn: str = "k-means++",
) -> Task:
    """Return the task that methods are given.

    `start` is "warm" (one row of each class) or "random" (rows at random, drawn by each user);
    `pooled` is the start of CGC, the same unless given, or "k-means++"; `sklearn` is "k-means++",
    or "pooled" for the start of CGC.
    """
    own_seed, pooled_seed, method_seed = instance.seeds
    all_rows = np.array([0, len(instance.rows)])
    x = _centers(instance, start, instance.offsets, instance.graph, own_seed)
    at = _centers(instance, pooled or start, all_rows, graphs.path(1), pooled_seed)[0]
    return Task(
        rows=instance.rows,
        offsets=instance.offsets,
        graph=instance.graph,
        start=x,
        pooled_start=at,
        sklearn_start=at if sklearn == "pooled" else None,
        rho=rho,
        rounds=rounds,
        B=B,
        seed=method_seed % (1 << 32),
    )


def _centers(
    instance: Instance, start: str, offsets: NDArray[np.int64], graph: Graph, seed: int
) -> Array:
    starts: dict[str, initialize.Start] = {
        "warm": initialize.Warm(instance.classes),
        "random": initialize.Random(),
        "k-means++": initialize.KMeansPlusPlus(),
    }
    users = Users(instance.rows, offsets)
    # 62 bits, as the seeds of `cluster`.
    return starts[start].centers(Simulator(graph), users, instance.K, seed >> 2)[0]


@lru_cache(maxsize=2)
def load(
    data: str, data_dir: str | None, n: int | None = None, seed: int = 0
) -> tuple[NDArray[Any], Classes]:
    """Return the rows and classes of a whole data set; `n` and `seed` are the Gaussian set's."""
    if data == "gaussians":
        return datasets.gaussians(n or 2_000_000, random_state=seed)
    if data == "iris":
        return datasets.iris()
    return (datasets.mnist if data == "mnist" else datasets.cifar10)(data_dir)
