"""One run of one method: what a start seed changes, and what is measured."""

import numpy as np
import pytest

from peerclust import baselines
from peerclust.paper.method_jobs import _draw, method_job, run_method

GIVEN = {"setting": "iris", "start": "random", "rho": 1.0, "rounds": 1}


def test_a_start_seed_changes_the_start_and_not_the_split(monkeypatch):
    tasks = []

    class OnCheckpoint:
        def fit(self, task, on_round=None):
            tasks.append(task)
            return baselines.get("LGC-KM").fit(task)

    monkeypatch.setitem(baselines.METHODS, "KEEP", OnCheckpoint())
    rows = [
        run_method(method="KEEP", seed=seed, start_seed=start, **GIVEN)[0]
        for seed, start in ((0, 0), (0, 1), (1, 0))
    ]
    assert len({row["pooled_cost"] for row in rows}) == 3
    assert np.array_equal(tasks[0].rows, tasks[1].rows)
    assert not np.array_equal(tasks[0].rows, tasks[2].rows)
    assert not np.array_equal(tasks[0].start, tasks[1].start)


def test_a_job_returns_the_row_of_its_arguments():
    job = method_job("iris", "CGC-KM", seed=3, start="random", rho=1.0, rounds=1)
    assert job.key == "iris-CGC-KM-random-1.0-1-3"
    (row,) = job.work(**job.given)
    assert (row["setting"], row["method"], row["seed"], row["iterations"]) == (
        "iris", "CGC-KM", 3, 1,
    )  # fmt: skip
    # One set of centers: no disagreement and nothing sent.
    assert row["disagreement"] == row["bytes"] == 0
    assert 0 < row["accuracy_joint"] <= row["accuracy"] <= 1


@pytest.mark.parametrize(
    ("setting", "rows"),
    [("gaussians", 40_000), ("mnist7-het", 700), ("cifar3", 300), ("iris", 150)],
)
def test_a_quick_run_has_fewer_rows(setting, rows, images):
    assert len(_draw(setting, 0, quick=True, data_dir=None).rows) == rows
