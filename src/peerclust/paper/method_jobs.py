"""The work of most jobs: run one method once in one of the paper's settings and measure it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerclust import baselines
from peerclust.baselines.protocol import check_outcome
from peerclust.metrics import accuracy, ari, cost, measure_disagreement
from peerclust.paper.experiment import Job
from peerclust.paper.settings import SETTINGS, Instance, draw_instance, draw_seeds, make_task

# Sizes of the quick version.
QUICK_PER_CLASS = 100
QUICK_ROWS = 40_000


def method_job(
    setting: str,
    method: str,
    *,
    seed: int,
    quick: bool = False,
    data_dir: str | None = None,
    start_seed: int | None = None,
    **task: Any,
) -> Job:
    """Return the job of one run of a method; `task` has the arguments of `make_task`.

    With a `start_seed` the starts are drawn from it, and only the data and its split from `seed`.
    """
    seeds = (seed,) if start_seed is None else (seed, start_seed)
    key = "-".join(str(part) for part in (setting, method, *task.values(), *seeds))
    given = {"setting": setting, "method": method, "seed": seed, "quick": quick, **task}
    given |= {"data_dir": data_dir, "start_seed": start_seed}
    size = _effort(setting, quick) * task["rounds"] * task.get("B", 1)
    effort = size * (0.05 if method == "SKL-KM" else 1.0)
    # The key is also a file name; of all values only k-means++ has a + in it.
    name = key.replace("+", "p")
    # The code of a user's own method may have changed since.
    return Job(name, run_method, given, effort, reuse=method in baselines.METHODS)


def run_method(
    *,
    setting: str,
    method: str,
    seed: int,
    quick: bool = False,
    data_dir: str | None = None,
    start_seed: int | None = None,
    **task: Any,
) -> list[dict[str, Any]]:
    """Run a method once and return one row.

    `accuracy` and `ari` are those of each user's rows by its own centers, averaged over the users;
    `accuracy_joint` and `ari_joint` take the labels of all users as one labeling. `pooled_cost` is
    the K-means cost of all rows by one user's centers, averaged over the users.
    """
    instance = _draw(setting, seed, quick=quick, data_dir=data_dir)
    if start_seed is not None:
        instance = replace(instance, seeds=draw_seeds(start_seed)[-3:])
    problem = make_task(instance, **task)
    outcome = check_outcome(baselines.get(method).fit(problem), problem, method)
    apart = measure_disagreement(outcome.centers)
    # Many methods end with the same centers at all users.
    centers, users = np.unique(outcome.centers, axis=0, return_counts=True)
    pooled_cost = np.average([cost(instance.rows, x) for x in centers], weights=users)
    return [
        {
            **{"setting": setting, "method": method, **task},
            **{"seed": seed, "start_seed": start_seed},
            **scores(instance, outcome.labels),
            "disagreement": apart.mean,
            "disagreement_stacked": apart.stacked,
            "pooled_cost": float(pooled_cost),
            "iterations": outcome.rounds,
            "seconds": outcome.seconds,
            "messages": outcome.traffic.messages,
            "bytes": outcome.traffic.bytes,
        }
    ]


def scores(instance: Instance, labels: NDArray[np.int32]) -> dict[str, float]:
    """Return accuracy and ARI, averaged over users and of all labels at once."""
    classes = instance.classes
    parts = zip(instance.split(classes), instance.split(labels), strict=True)
    own = [(accuracy(c, label), ari(c, label)) for c, label in parts if len(c)]
    mean_accuracy, mean_ari = np.mean(own, axis=0)
    return {
        "accuracy": float(mean_accuracy),
        "accuracy_joint": accuracy(classes, labels),
        "ari": float(mean_ari),
        "ari_joint": ari(classes, labels),
    }


def _draw(name: str, seed: int, *, quick: bool, data_dir: str | None) -> Instance:
    """Draw an instance of a setting, or of its smaller version."""
    setting, n = SETTINGS[name], None
    if quick and setting.data == "gaussians":
        n = QUICK_ROWS
    elif quick and setting.uneven:
        setting = replace(setting, uneven=QUICK_PER_CLASS * setting.K)
    elif quick and setting.data != "iris":
        setting = replace(setting, per_class=QUICK_PER_CLASS)
    return draw_instance(setting, seed, data_dir=data_dir, n=n)


def _effort(name: str, quick: bool) -> float:
    """Return roughly how long a round takes, in units of a round on Iris."""
    setting = SETTINGS[name]
    d = {"iris": 4, "gaussians": 2, "mnist": 784, "cifar10": 3072}[setting.data]
    n = {"iris": 150, "gaussians": 2_000_000}.get(setting.data, 50_000)
    n = setting.uneven or (setting.per_class or 0) * setting.K or n
    if quick and setting.data != "iris":
        n = QUICK_ROWS if setting.data == "gaussians" else QUICK_PER_CLASS * setting.K
    return 1.0 + n * d * setting.K / 200_000
