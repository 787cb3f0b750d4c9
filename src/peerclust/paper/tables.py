"""Table 3: accuracy on homogeneous data, from subsets of MNIST and CIFAR-10 to all of them.

The paper averages accuracy over users. Its number for LGC-KM on full MNIST, 18.8 %, is far below
what users reach on their own rows; it is what comes out if the labels of all users are matched to
the classes at once, so that is what is compared here. `runs.csv` has both.
"""

from __future__ import annotations

from collections.abc import Sequence

from peerclust import methods
from peerclust.paper.comparison import dots, select
from peerclust.paper.method_jobs import compare_methods, method_job
from peerclust.paper.published import HOMOGENEOUS
from peerclust.paper.experiment import Experiment, Job, Line, Row, Settings, Summary
from peerclust.paper.settings import SETTINGS

RHOS = {"mnist7": 10, "cifar3": 100, "cifar8": 100, "mnist": 1000, "cifar10": 1000}
ROUNDS = 4000
QUICK_ROUNDS = 200
# Full data: the distributed methods start at random, CGC by k-means++; one run each unless more
# are asked for.
FULL = ("mnist", "cifar10")
FULL_RUNS = 1


def plan(settings: Settings) -> list[Job]:
    """Run each method on each data set."""
    jobs = []
    for data in settings.chosen(RHOS):
        full = data in FULL
        for method in (*HOMOGENEOUS[data], *methods.registered()):
            for seed in settings.seeds()[: FULL_RUNS if full and not settings.asked else None]:
                jobs.append(
                    method_job(
                        data,
                        method,
                        start="random" if full else "warm",
                        pooled="k-means++" if full else "warm",
                        rho=RHOS[data],
                        rounds=QUICK_ROUNDS if settings.quick else ROUNDS,
                        seed=seed,
                        quick=settings.quick,
                        data_dir=settings.data_dir,
                    )
                )
    return jobs


def summarize(rows: Sequence[Row], settings: Settings) -> Summary:
    """Compare the accuracies."""
    lines: list[Line] = []
    notes = ["The labels of all users are matched with the classes at once."]
    for data in settings.chosen(RHOS):
        found, read = compare_methods(
            select(rows, setting=data), HOMOGENEOUS[data], "accuracy_joint", "accuracy"
        )
        lines += found
        title = SETTINGS[data].title
        notes.append(f"{title}, averaged over users, each on its own rows (in %): {read}.")
    picture = dots(lines, panel="data", label="method", x_label="accuracy (%)", columns=3)
    return Summary(lines, picture, notes)


EXPERIMENT = Experiment(
    "table-3",
    "accuracy on homogeneous data",
    plan,
    summarize,
    runs=5,
    quick_runs=2,
    needs=("mnist", "cifar10"),
    data=tuple(RHOS),
)
