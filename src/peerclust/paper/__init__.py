"""Every table and figure of the paper as an experiment, one a file, run by name.

    experiments.run("table-1", out="results")

What an experiment is says `plan`; how it is run, and taken up again, `runner`; what the paper has,
`paper`. A method of one's own joins by `peerclust.baselines.register`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from peerclust.errors import ParameterError
from peerclust.paper.experiment import Experiment, Settings
from peerclust.paper.runner import Progress, run_experiment
from peerclust.paper.output import Result
from peerclust.validation import check_count, check_name

NAMES = (
    *(f"table-{i}" for i in range(1, 8)),
    *(f"figure-{i}" for i in range(2, 10)),
    "splits",
    "cifar-classes",
    "rivals",
)

__all__ = ["NAMES", "Experiment", "Result", "Settings", "get", "run"]


def get(name: str) -> Experiment:
    """Give the experiment of a name.

    >>> get("table-1").title
    'effect of rho on the maximum center distance'
    """
    check_name(name, NAMES, "name", "experiments.get")
    module = importlib.import_module(f"peerclust.paper.{name.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    return experiment


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
        Results go to a directory of the experiment's name in it; an interrupted run goes on there.
    runs : int, optional
        How often each cell is repeated; each experiment has its own default.
    seed : int
        The seed of the first run; the others follow.
    quick : bool
        A smaller version, marked as such.
    data_dir : path, optional
        Where MNIST and CIFAR-10 are; without it they are fetched from OpenML.
    data : sequence of str
        Only these data sets, of an experiment that has several; all if empty.
    workers : int
        How many processes; an experiment that compares times always has one. A script that asks
        for several needs its `if __name__ == "__main__":`, as with any process pool.
    progress : callable, optional
        Told (effort done, effort in all, what was done).

    Returns
    -------
    Result
    """
    experiment = get(name)
    check_count(workers, "workers", "experiments.run")
    check_count(seed, "seed", "experiments.run", at_least=0)
    if runs is not None:
        check_count(runs, "runs", "experiments.run")
    if isinstance(data, str):
        raise ParameterError(f"`data` of experiments.run must be a sequence. Got {data!r}.")
    if data_dir is not None and not Path(data_dir).is_dir():
        raise ParameterError(f"`data_dir` of experiments.run must be a folder. Got {data_dir}.")
    for each in data:
        if not experiment.data:
            raise ParameterError(
                f"`data` of experiments.run must be left out with {name}. Got {each!r}."
            )
        check_name(each, experiment.data, "data", "experiments.run")
    settings = Settings(
        runs=runs or (experiment.quick_runs if quick else experiment.runs),
        asked=runs is not None,
        seed=seed,
        quick=quick,
        data_dir=None if data_dir is None else os.fspath(data_dir),
        data=tuple(data),
    )
    tell: Callable[..., None] = progress or (lambda *_: None)
    return run_experiment(experiment, settings, Path(out), workers=workers, progress=tell)
