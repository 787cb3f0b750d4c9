"""Every table and figure of the paper as an experiment that is run by name.

    paper.run("table-3", out="results", data_dir="images")

| module | what it holds |
|---|---|
| `tables` | one row per table of the paper |
| `figures` | one row per figure; the long ones in `noisy_iris`, `cost_curves`, `score_curves` |
| `extras` | experiments that the paper does not have |
| `published` | the numbers that the paper prints |
| `settings` | the paper's data sets, their splits over users, graphs and starts |
| `experiment`, `method_jobs`, `curves` | what an experiment is made of |
| `runner`, `output`, `comparison` | running it, writing its files, our numbers beside the paper's |
| `demo` | `peerclust demo`: the paper's noisy Iris |

Your own method joins the tables by `peerclust.baselines.register`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from peerclust.errors import ParameterError
from peerclust.paper.experiment import Experiment, RunOptions
from peerclust.paper.extras import EXTRAS
from peerclust.paper.figures import FIGURES
from peerclust.paper.output import Result
from peerclust.paper.runner import Progress, run_experiment
from peerclust.paper.tables import TABLES
from peerclust.text import parameter
from peerclust.validation import check_count, check_name

EXPERIMENTS = {each.name: each for each in (*TABLES, *FIGURES, *EXTRAS)}
NAMES = tuple(EXPERIMENTS)

__all__ = ["EXPERIMENTS", "NAMES", "Experiment", "Result", "RunOptions", "get", "run"]


def get(name: str) -> Experiment:
    """Return the experiment of a name.

    >>> get("table-1").title
    'effect of rho on the maximum center distance'
    """
    return EXPERIMENTS[check_name(name, NAMES, "name", "paper.get")]


def run(
    name: str,
    *,
    out: str | os.PathLike[str],
    runs: int | None = None,
    seed: int = 0,
    quick: bool = False,
    data_dir: str | os.PathLike[str] | None = None,
    data: Sequence[str] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Run a table or figure and write it to the directory `out` / `name` (with `-quick`, if quick).

    Parameters
    ----------
    name : str
        One of `NAMES`.
    out : path
        Parent of the result directory. An interrupted run resumes there.
    runs : int, optional
        Runs per cell; each experiment has its own default.
    seed : int
        Seed of the first run; the following runs use the following seeds.
    quick : bool
        Run a smaller version, which is marked as such.
    data_dir : path, optional
        Directory with MNIST and CIFAR-10; without it they are downloaded from OpenML.
    data : sequence of str
        Run these data sets only, in an experiment with several; all of them if empty.
    workers : int
        Number of processes; an experiment that compares times always uses one. A script with
        several workers needs `if __name__ == "__main__":`, as with any process pool.
    progress : callable, optional
        Called with (effort done, total effort, what was done).

    Returns
    -------
    Result
    """
    experiment = get(name)
    check_count(workers, "workers", "paper.run")
    check_count(seed, "seed", "paper.run", at_least=0)
    if runs is not None:
        check_count(runs, "runs", "paper.run")
    if isinstance(data, str):
        raise ParameterError(parameter("data", "paper.run") + f" must be a sequence. Got {data!r}.")
    if data_dir is not None and not Path(data_dir).is_dir():
        raise ParameterError(
            parameter("data_dir", "paper.run") + f" must be a directory. Got {data_dir}."
        )
    for each in data:
        if not experiment.data:
            raise ParameterError(
                parameter("data", "paper.run") + f" must be left out with {name}. Got {each!r}."
            )
        check_name(each, experiment.data, "data", "paper.run")
    options = RunOptions(
        runs=runs or (experiment.quick_runs if quick else experiment.runs),
        asked=runs is not None,
        seed=seed,
        quick=quick,
        data_dir=None if data_dir is None else os.fspath(data_dir),
        data=tuple(data),
    )
    return run_experiment(experiment, options, Path(out), workers=workers, progress=progress)
