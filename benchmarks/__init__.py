"""Benchmarks: the claims about speed, memory and quality, each measured within one run.

Run one from the root of the repository with `python -m benchmarks NAME`. Each benchmark is a module
or a package here with a function `measure(progress, **options)`, which yields `Measure`s and calls
`progress` with a line before each step. Its options are the keyword parameters of `measure`, all
with defaults. A target is a ratio or a count, so that a slow or busy machine affects both sides
alike.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from benchmarks.measures import Progress, Report
from peerclust.errors import ParameterError
from peerclust.report.machine import this_machine
from peerclust.validation import check_name

BENCHMARKS = {
    "core": "one assignment and gradient, compared with a Lloyd iteration of scikit-learn",
    "whole": "the whole call of fit, compared with that of scikit-learn's KMeans",
    "first_call": "CPU seconds of first calls, with nothing compiled yet",
    "rounds": "a round of DGC, compared with scikit-learn, and how its cost grows",
    "optimum": "the cost with all defaults, compared with the best of many restarts",
    "convergence": "whether runs that end converged are at rest, over losses, solvers and scales",
    "outliers": "ROC AUC of the outlier detector over 100 data sets",
    "solvers": "rounds, bytes and seconds of every solver on 30 problems",
    "choices": "the effect of rho, B and the loss: the numbers of docs/how-to-choose.md",
    "peers": "rounds per second of peer processes, compared with a bare websockets loop",
    "mpi": "speedup, memory and a cost model of rounds on several MPI ranks",
    "call_path": "files that a call of cluster enters, and passes from one to another",
}


def run(name: str, progress: Progress = lambda _: None, **options: Any) -> Report:
    """Run a benchmark and return its measures."""
    check_name(name, BENCHMARKS, "NAME", "benchmarks")
    if name == "peers":
        importlib.import_module("peerclust.runtimes.network")  # names the extra if it is missing
    measure = importlib.import_module(f"benchmarks.{name}").measure
    known = [option for option in inspect.signature(measure).parameters if option != "progress"]
    for option, value in options.items():
        if option not in known:
            accepted = f"accepts only {', '.join(known)}" if known else "accepts no options"
            raise ParameterError(
                f"`{option}` of benchmarks must be omitted for {name}, which {accepted}."
                f" Got {value}."
            )
    return Report(name, this_machine(), list(measure(progress, **options)))
