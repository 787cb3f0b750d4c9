"""Table 5: adjusted Rand index on heterogeneous data: Iris, MNIST7 and CIFAR3.

On Iris the index is averaged over users, each on its own rows. On MNIST7 and CIFAR3 the paper's
numbers for LGC-KM, 0.06 and 0.016, only come out if the labels of all users are taken as one
labeling; so that is what is compared there. `runs.csv` has both.
"""

from __future__ import annotations

from collections.abc import Sequence

from peerclust import methods
from peerclust.experiments.compare import dots, select, stat
from peerclust.experiments.measure import method_job
from peerclust.experiments.paper import HETEROGENEOUS
from peerclust.experiments.plan import Experiment, Job, Line, Row, Settings, Summary
from peerclust.experiments.setting import SETTINGS

RHOS = {"iris-het": 100, "mnist7-het": 1000, "cifar3-het": 1000}
ROUNDS = {"iris-het": 1000, "mnist7-het": 4000, "cifar3-het": 4000}
QUICK_ROUNDS = 200


def plan(settings: Settings) -> list[Job]:
    """Run each method on each data set."""
    return [
        method_job(
            data,
            method,
            start="random",
            rho=RHOS[data],
            rounds=QUICK_ROUNDS if settings.quick and data != "iris-het" else ROUNDS[data],
            seed=seed,
            quick=settings.quick,
            data_dir=settings.data_dir if data != "iris-het" else None,
        )
        for data in settings.chosen(RHOS)
        for method in (*HETEROGENEOUS[data], *methods.registered())
        for seed in settings.seeds()
    ]


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:
    """Compare the indices."""
    lines, notes = [], []
    for data in settings.chosen(RHOS):
        column = "ari" if data == "iris-het" else "ari_joint"
        for method in dict.fromkeys(row["method"] for row in rows):
            cell = select(rows, setting=data, method=method)
            where = {"data": SETTINGS[data].title, "method": method}
            lines.append(Line(where, stat(cell, column), HETEROGENEOUS[data].get(method), "score"))
        other = "ari_joint" if data == "iris-het" else "ari"
        local = stat(select(rows, setting=data, method="LGC-KM"), other)
        way = "all labels as one" if data == "iris-het" else "each user on its own rows"
        notes.append(f"{SETTINGS[data].title}: LGC-KM with {way}: {local.mean:.3f}.")
    picture = dots(lines, panel="data", label="method", x_label="ARI", columns=3)
    return Summary(lines, picture, notes)


EXPERIMENT = Experiment(
    "table-5",
    "ARI on heterogeneous data",
    plan,
    summarize,
    runs=5,
    quick_runs=2,
    needs=("mnist", "cifar10"),
    data=tuple(RHOS),
)
